"""Curves of training as plots, and jobs side by side as a table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuconsole.cli.output import said, table, text
from gpuconsole.core.training.curves import Compared, Curve, Curves, figures
from gpuconsole.core.units import format_mib, format_step
from gpuconsole.core.util.line_plot import Points, number, plot
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

LABELS = 10
HEIGHT = 10
WIDEST = 120
MOST_PLOTTED = 8
"""Most jobs with curves that are distinguishable in one plot."""
MOST_PLOTS = 3
"""Metrics that are plotted where none is named."""
COLORS = ("green", "cyan", "yellow", "magenta", "red", "blue", "white", "bright_black")


def curves(
    job_curves: Curves, metrics: Sequence[str], *, simulated: bool = False
) -> Iterator[RenderableType]:
    """Draw the curves of a job: what they came to, and a plot of each that is named, or of those
    that a person looks at first."""
    if simulated:
        yield said("SIMULATED", "bold reverse")
    names = list(metrics) or job_curves.main()
    summary = table(
        "METRIC", "LAST", "BEST", "AT", "FIRST", "POINTS",
        right=("LAST", "BEST", "AT", "FIRST", "POINTS"),
    )  # fmt: skip
    for name in names:
        curve = job_curves.curves[name]
        best, first = curve.best, curve.points[:1]
        cells = (
            name, number(curve.value("last")), number(best.value if best else None),
            f"{best.at:g}" if best else "", number(first[0].value if first else None),
            f"{curve.count:,}",
        )  # fmt: skip
        summary.add_row(*map(text, cells))
    yield summary
    for name in names if metrics else names[:MOST_PLOTS]:
        yield text("")
        yield text(_title(job_curves.curves[name]), "bold")
        yield from _plotted([_points(job_curves.curves[name])], job_curves.axis)


def comparison(
    rows: Sequence[Compared], metric: str, *, simulated: bool = False
) -> Iterator[RenderableType]:
    """Draw jobs side by side, the best first, and the metric of the first of them."""
    if simulated:
        yield said("SIMULATED", "bold reverse")
    parameters = list(rows[0].parameters) if rows else []
    heads = (f"LAST {metric}", f"BEST {metric}", "STEP", "PEAK") if metric else ("STEP", "PEAK")
    shown = table("", "JOB", *parameters, *heads, "STATE", right=heads)
    plotted = [row for row in rows if metric in row.curves.curves][:MOST_PLOTTED]
    for row in rows:
        row_figures = figures(row, metric)
        marked = plotted.index(row) if row in plotted else None
        mark = text("━", COLORS[marked]) if marked is not None else text("")
        values = (number(row_figures.last), number(row_figures.best)) if metric else ()
        named = (row.parameters[name] or "-" for name in parameters)
        figures_of = (*values, format_step(row_figures.step_s), format_mib(row_figures.peak_mib))
        state = said(row.job.state_word, "red" if row.job.state.value in _BAD else "")
        name = row.job.task.name if not row.job.task.sweep else row.job.id
        shown.add_row(mark, text(name), *map(text, (*named, *figures_of)), state)
    yield shown
    if plotted:
        yield text("")
        yield text(metric, "bold")
        axis = "step" if all(row.curves.axis == "step" for row in plotted) else "epoch"
        yield from _plotted([_points(row.curves.curves[metric]) for row in plotted], axis)


_BAD = frozenset(("failed", "oom"))


def _title(curve: Curve) -> str:
    return (
        curve.name
        if curve.no_number is None
        else (f"{curve.name}  (NaN or infinite from {curve.no_number.at:g} on)")
    )


def _points(curve: Curve) -> Points:
    return [(point.at, point.value) for point in curve.shown()]


def _plotted(series: Sequence[Points], axis: str) -> Iterator[Text]:
    from rich.text import Text

    width = min(WIDEST, shutil.get_terminal_size((100, 24)).columns) - LABELS - 2
    drawn = plot(series, max(20, width), HEIGHT)
    for row, cells in enumerate(drawn.rows):
        label = drawn.high if row == 0 else drawn.low if row == HEIGHT - 1 else None
        line = Text(f"{number(label) if label is not None else '':>{LABELS}} │", style="dim")
        for glyph, curve in cells:
            line.append(glyph, style=COLORS[curve % len(COLORS)] if curve >= 0 else "")
        yield line
    left, right = f"{drawn.first:g}", f"{drawn.last:g}"
    room = max(1, len(drawn.rows[0]) - len(left) - len(right) - len(axis))
    gap = " " * (room // 2)
    foot = f"{'':>{LABELS}} {left}{gap}{axis}{' ' * (room - len(gap))}{right}"
    yield text(foot, "dim")
    if drawn.cut:
        most = number(max(value for points in series for _, value in points))
        yield said(msg("A few values lie beyond the plot: up to {n}.", n=most), "dim")
