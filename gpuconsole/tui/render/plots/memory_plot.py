"""Predicted memory against real memory over time, as a plot of a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.style import Style

from gpuconsole.core.history import Series, downsample
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]
LABELS = 10
"""Cells at the left for what a line across means."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_NEAR = 1.7
"""A limit so many times higher than all else would press the curve flat: it is only named."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the curve is held against, MiB."""

    predicted: float | None
    """The upper bound of the estimate."""
    limit: float | None
    """What the card may be filled to."""


def until(series: Series, end: float) -> Series:
    """Return a series cut at a moment."""
    count = sum(at <= end for at in series.times)
    return replace(
        series, end=end, times=series.times[:count], values=series.values[:count],
        lows=series.lows[:count], highs=series.highs[:count], holds=series.holds[:count],
    )  # fmt: skip


def memory_title(estimate_mib: float | None) -> str:
    """Return the title of the plot of a job's device memory."""
    return "device memory" if estimate_mib is None else "device memory against the prediction"


def memory_lines(ink: Ink, series: Series, bounds: Bounds, width: int, height: int) -> Lines:
    """Return the plot in `height` lines, the last of which says what it shows."""
    peak = series.peak
    if peak is None:
        return [[(ink.say("No memory was seen of it yet."), ink.muted)]]
    # A device that holds nothing yet, of a job without an estimate, is drawn on an axis too.
    most = max(peak[1], bounds.predicted or 0.0, 1.0)
    near = bounds.limit is not None and bounds.limit <= most * _NEAR
    top = max(most, bounds.limit or 0.0) if near else most
    top *= 1.08
    rows, room = max(1, height - 1), max(4, width - LABELS)
    across = _across(bounds if near else replace(bounds, limit=None), top, rows)
    columns = [None if column is None else column[2] for column in downsample(series, room)]
    lines = [
        _row(ink, columns, across.get(row), rows - 1 - row, rows, top, bounds.predicted)
        for row in range(rows)
    ]
    return [*lines, _legend(ink, series, bounds, near, width)]


def _across(bounds: Bounds, top: float, rows: int) -> dict[int, tuple[str, float]]:
    """Return the rows with a line across: what it is, and its size."""
    limits: dict[int, tuple[str, float]] = {}
    for name, size in (("limit", bounds.limit), ("predicted", bounds.predicted)):
        if size:
            row = min(rows - 1, max(0, rows - 1 - int(size / top * rows)))
            both = row in limits
            limits[row] = ("limit" if both else name, size)
    return limits


def _row(
    ink: Ink,
    columns: Sequence[float | None],
    across: tuple[str, float] | None,
    level: int,
    rows: int,
    top: float,
    predicted: float | None,
) -> list[Piece]:
    """Return one row of the plot; `level` counts from the bottom."""
    name, _ = across or ("", 0.0)
    lined = ink.bad if name == "limit" else ink.warn
    pieces: list[Piece] = [(fit(_label(across), LABELS), lined if across else ink.muted)]
    blank = (("-" if ink.ascii else "┄") if across else " ", lined if across else ink.text)
    words = _named(ink, name, columns, top, rows, level)
    pieces += [(words, lined)] if words else []
    for size in columns[cell_len(words) :]:
        eighths = 0 if size is None else round(max(0.0, size / top * rows - level) * 8)
        over = predicted is not None and size is not None and size > predicted
        style: Style = ink.bad if over else ink.heat[6]
        if eighths <= 0 or (across and eighths < 4):
            pieces.append(blank)
        elif ink.ascii:
            pieces.append(("#" if eighths >= 4 else blank[0], style if eighths >= 4 else blank[1]))
        else:
            pieces.append((_EIGHTHS[min(8, eighths)], style))
    return _joined(pieces)


def _named(
    ink: Ink, name: str, columns: Sequence[float | None], top: float, rows: int, level: int
) -> str:
    """Return what a line across is, where the curve leaves room for the word at the left."""
    words = f"{ink.say(name)} " if name else ""
    under = columns[: cell_len(words)]
    clear = all(size is None or size / top * rows <= level for size in under)
    return words if clear and cell_len(words) <= len(columns) // 2 else ""


def _label(across: tuple[str, float] | None) -> str:
    return "" if across is None else format_mib(across[1])


def _legend(ink: Ink, series: Series, bounds: Bounds, near: bool, width: int) -> list[Piece]:
    peak = series.peak
    words = ink.say(f"device peak {format_mib(peak[1] if peak else None)}")
    share = f" ({100 * peak[1] / bounds.predicted:.0f}%)" if peak and bounds.predicted else ""
    far = ink.say(f", limit {format_mib(bounds.limit)}") if bounds.limit and not near else ""
    words += share + far if cell_len(words + share + far) <= width else far or share
    return [(fit(words, width, "right"), ink.text)]


def _joined(pieces: list[Piece]) -> list[Piece]:
    result: list[Piece] = []
    for words, style in pieces:
        if result and result[-1][1] is style:
            result[-1] = (result[-1][0] + words, style)
        else:
            result.append((words, style))
    return result
