"""Jobs side by side as rows, and a metric of the best of them as curves over each other."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.core.training.curves import Compared, figures
from gpuconsole.core.training.log import STEP_TIME
from gpuconsole.core.units import format_mib, format_step
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.line_plot import number
from gpuconsole.tui.render.job import state_words
from gpuconsole.tui.render.plots.training_curves import colors, plot_rows
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]
MOST_PLOTTED = 8
"""Most jobs with curves that are distinguishable in one plot."""
FIGURES = 9
"""Cells of a figure's column."""
LEAST_PARAMETER, MOST_PARAMETER = 6, 16
_MARK, _STATE, _GAP = 2, 14, 1


@dataclass(frozen=True, slots=True)
class Columns:
    """What fits in a row: parameters with their widths, and titles of figures."""

    parameters: tuple[tuple[str, int], ...]
    figures: tuple[str, ...]
    name: int
    """Cells of the job's name; 0 where the parameters say enough."""


def columns_for(jobs: Sequence[Compared], width: int) -> Columns:
    """Return the columns that fit in `width` cells; figures go before parameters that are many."""
    titles = ["last", "best", "step", "peak"]
    names = list(jobs[0].parameters) if jobs else []
    widths = {
        name: min(
            MOST_PARAMETER,
            max(LEAST_PARAMETER, len(name), *(len(job.parameters[name]) for job in jobs)),
        )
        for name in names
    }

    def room() -> int:
        taken = _MARK + _STATE + sum(cells + _GAP for cells in widths.values())
        return width - taken - len(titles) * (FIGURES + _GAP)

    while room() < 0 and len(titles) > 2:
        titles.pop()
    while room() < 0 and len(widths) > 1:
        widths.pop(list(widths)[-1])
    left = room()
    return Columns(tuple(widths.items()), tuple(titles), left - _GAP if left >= 9 else 0)


def heading(ink: Ink, columns: Columns) -> list[Piece]:
    """Return the line above the rows."""
    words = " " * _MARK
    if columns.name:
        words += fit(ink.say("job"), columns.name) + " " * _GAP
    words += "".join(fit(name, cells) + " " * _GAP for name, cells in columns.parameters)
    words += "".join(
        fit(ink.say(figure), FIGURES, "right") + " " * _GAP for figure in columns.figures
    )
    return [(words + ink.say("state"), ink.muted)]


def row(
    ink: Ink, compared: Compared, metric: str, place: int | None, columns: Columns
) -> list[Piece]:
    """Return a job as a line; `place` is that of its curve in the plot."""
    job_figures = figures(compared, metric)
    styles = colors(ink)
    mark = " " if place is None else "*+o#x@%&"[place] if ink.ascii else "━"
    pieces: list[Piece] = [
        (fit(mark, _MARK), ink.text if place is None else styles[place % len(styles)])
    ]
    if columns.name:
        pieces.append((fit(compared.job.task.name, columns.name) + " " * _GAP, ink.text))
    for name, cells in columns.parameters:
        pieces.append((fit(compared.parameters[name] or "-", cells) + " " * _GAP, ink.text))
    write = format_step if metric == STEP_TIME else number
    words = {
        "last": write(job_figures.last),
        "best": write(job_figures.best),
        "step": format_step(job_figures.step_s),
        "peak": format_mib(job_figures.peak_mib),
    }
    figure_words = (fit(words[title], FIGURES, "right") + " " * _GAP for title in columns.figures)
    pieces += [(words, ink.text) for words in figure_words]
    pieces.append((fit(state_words(ink, compared.job), _STATE), ink.muted))
    return pieces


def plot_lines(ink: Ink, jobs: Sequence[Compared], metric: str, width: int, height: int) -> Lines:
    """Return the metric of the first jobs that report it as curves over each other."""
    plotted = [job.curves.curves[metric] for job in with_metric(jobs, metric)]
    if not plotted:
        return [[(ink.say("No log of these jobs reports anything of training."), ink.muted)]]
    points = [[(point.at, point.value) for point in curve.shown()] for curve in plotted]
    return plot_rows(ink, points, width, height, seconds=metric == STEP_TIME)


def with_metric(jobs: Sequence[Compared], metric: str) -> list[Compared]:
    """Return the jobs with curves in the plot: the first that report the metric."""
    return [job for job in jobs if metric in job.curves.curves][:MOST_PLOTTED]
