"""A figure over time as a plot of blocks, or of plain characters, with lines it is held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby

from rich.cells import cell_len
from rich.style import Style

from gpuconsole.core.history import Column, Series, downsample
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.render.text_cells import Piece, fit, wrapped
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]
LABELS = 6
"""Cells at the left for the label of a line, with the axis."""
_EIGHTHS = "▁▂▃▄▅▆▇█"
_ASCII = ".:#"


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the plot."""

    value: float
    label: str
    bad: bool = False
    """Something lies beyond it that should not."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the plot's height means, and how figures are written."""

    top: float
    words: Callable[[float], str]


def plot_lines(
    ink: Ink, series: Series, scale: Scale, width: int, height: int, marks: Sequence[Mark] = ()
) -> Lines:
    """Return the plot in `height` lines: the curve, and below it the time and what was most."""
    rows, room = max(1, height - 1), max(8, width - LABELS)
    if series.latest is None and series.peak is None:
        words = ink.say("No history yet: it is kept while the console is open.")
        empty: Lines = [[(part, ink.muted)] for part in wrapped(words, width)[:height]]
        return empty + [[] for _ in range(height - len(empty))]
    levels = [_eighths(column, scale.top, rows) for column in downsample(series, room)]
    across = {_row_of(mark.value, scale.top, rows): mark for mark in reversed(marks)}
    lines = [
        _row(ink, levels, rows - 1 - row, rows, scale, across.get(rows - 1 - row))
        for row in range(rows)
    ]
    return [*lines, _foot(ink, series, scale, room)]


def _eighths(column: Column | None, top: float, rows: int) -> int | None:
    """Return how many eighths of a cell a column is high; None if nothing was reported."""
    if column is None:
        return None
    filled = round(max(0.0, column[1]) / top * rows * 8) if top else 0
    # Zero is a line at the bottom: it was measured, unlike what is blank.
    return min(rows * 8, max(1, filled))


def _row_of(value: float, top: float, rows: int) -> int:
    """Return the row, from 0 at the bottom, in which a value lies."""
    return max(0, min(rows - 1, int(value / top * rows))) if top else 0


def _row(
    ink: Ink, levels: Sequence[int | None], row: int, rows: int, scale: Scale, mark: Mark | None
) -> list[Piece]:
    """Return one line of the plot; a mark shows where the curve is not, its name at the left."""
    style = ink.heat[min(8, 3 + round(5 * (row + 1) / rows))]
    cells = [_glyph(ink, level, row, style) for level in levels]
    if mark is not None:
        across = (_line(ink), ink.bad if mark.bad else ink.warn)
        cells = [across if glyph == " " else (glyph, drawn) for glyph, drawn in cells]
        words = f" {ink.say(mark.label)} "
        room = min(cell_len(words), max(0, len(cells) - 1))
        cells[1 : 1 + room] = [(fit(words, room), across[1])]
    return [_label(ink, row, rows, scale), (_axis(ink), ink.rule), *_merged(cells)]


def _merged(cells: Sequence[Piece]) -> list[Piece]:
    """Join neighbours of one style."""
    return [
        ("".join(glyph for glyph, _ in run), style)
        for style, run in groupby(cells, key=lambda cell: cell[1])
    ]


def _glyph(ink: Ink, level: int | None, row: int, style: Style) -> tuple[str, Style]:
    if level is None:
        return " ", style
    inside = level - row * 8
    if inside <= 0:
        return " ", style
    if ink.ascii:
        return (_ASCII[2] if inside >= 8 else _ASCII[1] if inside >= 4 else _ASCII[0]), style
    return _EIGHTHS[min(8, inside) - 1], style


def _label(ink: Ink, row: int, rows: int, scale: Scale) -> Piece:
    """Name the top, the middle and the bottom."""
    value = {rows - 1: scale.top, 0: 0.0}.get(row)
    if rows >= 5 and row == rows // 2:
        value = scale.top * (row + 0.5) / rows
        value = scale.top / 2 if abs(value - scale.top / 2) < scale.top / rows else value
    return (fit("" if value is None else scale.words(value), LABELS - 1, "right"), ink.muted)


def _foot(ink: Ink, series: Series, scale: Scale, room: int) -> list[Piece]:
    """Say over what time, and the figures now, on average and at most."""
    span = format_duration(series.end - series.start)
    values = [value for value in series.values if value is not None]
    latest, peak = series.latest, series.peak
    say = ink.say
    parts = [say(f"now {scale.words(latest)}" if latest is not None else "now n/a")]
    if peak is not None:
        at = datetime.fromtimestamp(peak[0]).strftime("%H:%M:%S")
        parts.append(say(f"  peak {scale.words(peak[1])} at {at}"))
    if values:
        parts.append(say(f"  mean {scale.words(sum(values) / len(values))}"))
    left = f"{' ' * LABELS}-{span}  "
    words = ""
    for part in parts:
        if len(left) + cell_len(words) + cell_len(part) > LABELS + room:
            break
        words += part
    gap = max(0, LABELS + room - len(left) - cell_len(words))
    return [(left + " " * gap, ink.muted), (words, ink.text)]


def _axis(ink: Ink) -> str:
    return "|" if ink.ascii else "┤"


def _line(ink: Ink) -> str:
    return "-" if ink.ascii else "─"
