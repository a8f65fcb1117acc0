"""Curves of training as lines of a panel: a metric over the steps of the run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style

from gpuconsole.core.training.curves import Curve, Curves
from gpuconsole.core.training.log import STEP_TIME, VALIDATION
from gpuconsole.core.units import format_step
from gpuconsole.core.util.line_plot import Plot, Points, number, plot
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]
LABELS = 10
"""Cells at the left for the values of the top and the bottom."""


def plots_of(curves: Curves) -> tuple[str, ...]:
    """Return the metrics that have a plot of their own: what an evaluation says of one is drawn in
    that one's."""
    return tuple(
        name
        for name in curves.main()
        if name.removeprefix(VALIDATION) == name
        or name.removeprefix(VALIDATION) not in curves.curves
    )


def drawn_with(curves: Curves, metric: str) -> list[Curve]:
    """Return the curves of a metric's plot."""
    names = (metric, VALIDATION + metric)
    return [curves.curves[name] for name in names if name in curves.curves]


def colors(ink: Ink) -> Sequence[Style]:
    """Return the styles of curves in one plot: the first four look least alike."""
    return (
        ink.accent, ink.running, ink.text, ink.bad, ink.good, ink.warn, ink.heat[3], ink.muted,
    )  # fmt: skip


def curve_lines(ink: Ink, curves: Curves, metric: str, width: int, height: int) -> Lines:
    """Return the plot of a metric in `height` lines, the last of which says what it came to."""
    drawn = drawn_with(curves, metric)
    if not drawn:
        return [[(ink.say("The log has reported nothing of it yet."), ink.muted)]]
    points = [[(point.at, point.value) for point in curve.shown()] for curve in drawn]
    lines = plot_rows(ink, points, width, height - 1, seconds=metric == STEP_TIME)
    return [*lines, _foot(ink, curves, drawn, width)]


def plot_rows(
    ink: Ink, points: Sequence[Points], width: int, height: int, *, seconds: bool = False
) -> Lines:
    """Return curves over each other in `height` lines, their values at the left."""
    drawn = plot(points, max(8, width - LABELS), max(1, height), ascii_only=ink.ascii)
    return [
        [(_label(drawn, row, seconds=seconds), ink.muted), *_row(ink, drawn, row)]
        for row in range(len(drawn.rows))
    ]


def _label(drawn: Plot, row: int, *, seconds: bool) -> str:
    value = drawn.high if row == 0 else drawn.low if row == len(drawn.rows) - 1 else None
    if value is None:
        return " " * LABELS
    words = format_step(max(0.0, value)) if seconds else number(value)
    return fit(words, LABELS - 1, "right") + " "


def _row(ink: Ink, drawn: Plot, row: int) -> list[Piece]:
    styles = colors(ink)
    pieces: list[Piece] = []
    for glyph, curve in drawn.rows[row]:
        style = ink.text if curve < 0 else styles[curve % len(styles)]
        if pieces and pieces[-1][1] is style:
            pieces[-1] = (pieces[-1][0] + glyph, style)
        else:
            pieces.append((glyph, style))
    return pieces


def _foot(ink: Ink, curves: Curves, drawn: Sequence[Curve], width: int) -> list[Piece]:
    """Say where the run is, and of each curve its last and its best."""
    styles, room = colors(ink), width
    pieces: list[Piece] = []
    for place, curve in enumerate(drawn):
        style = ink.bad if curve.no_number is not None else styles[place % len(styles)]
        for words in _said(ink, curve):
            if cell_len(words) > room:
                break
            pieces.append((words, style))
            room -= cell_len(words)
    last = drawn[0].last
    if last is not None:
        unit = (
            msg("step {n}", n=f"{last.at:g}")
            if curves.axis == "step"
            else msg("epoch {n}", n=f"{last.at:g}")
        )
        words = ink.say(unit)
        if cell_len(words) <= room:
            pieces.append((fit(words, room, "right"), ink.muted))
    return pieces


def _said(ink: Ink, curve: Curve) -> list[str]:
    seconds = curve.name == STEP_TIME
    write = format_step if seconds else number
    parts = [f"{curve.name} {write(curve.value('last'))}  "]
    if curve.no_number is not None:
        parts.append(ink.say(msg("no number from {n} on", n=f"{curve.no_number.at:g}")) + "  ")
    elif curve.best is not None and not seconds:
        parts.append(ink.say(msg("best {n}", n=number(curve.best.value))) + "  ")
    return parts
