"""Curves drawn in the cells of a terminal: with dots of braille, or plain characters.

A cell of braille is two dots wide and four high (Unicode, U+2800: the bit of each dot).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuconsole.core.util.lazy_dataclass import dataclass

Points = Sequence[tuple[float, float]]
"""Places and values, oldest first."""
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BRAILLE = 0x2800
_BLANK = -1
_WILD = 3.0
"""A few values so many times further out than all others would press the curve flat."""
_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing. `rows` are cells from the top: a character, and which curve it is of (-1: none).

    `low` and `high` are the values of the bottom and the top, `first` and `last` the places of the
    left and the right end.
    """

    rows: tuple[tuple[tuple[str, int], ...], ...]
    low: float
    high: float
    first: float
    last: float
    cut: bool = False
    """Whether values beyond `low` or `high` are drawn at the edge."""


def plot(curves: Sequence[Points], width: int, height: int, *, ascii_only: bool = False) -> Plot:
    """Draw curves over each other; where two meet, the first is in front. Values that are not
    finite are left out."""
    width, height = max(1, width), max(1, height)
    clean = [
        [(at, value) for at, value in points if math.isfinite(at) and math.isfinite(value)]
        for points in curves
    ]
    values = sorted(value for points in clean for _, value in points)
    places = [at for points in clean for at, _ in points]
    if not values:
        return Plot(((((" ", _BLANK),) * width),) * height, 0.0, 1.0, 0.0, 1.0)
    low, high, cut = _bounds(values)
    first, last = min(places), max(places)
    across, down = (1, 1) if ascii_only else (2, 4)
    grid = _Grid(width * across, height * down, (first, last), (low, high))
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for number in reversed(range(len(clean))):
        for x, y in grid.dots(clean[number]):
            cell = (y // down, x // across)
            bits = cells.get(cell, (0, number))[0]
            cells[cell] = (bits | _BITS[x % across][y % down], number)
    rows = tuple(
        tuple(_glyph(cells.get((row, column)), ascii_only) for column in range(width))
        for row in range(height)
    )
    return Plot(rows, low, high, first, last, cut)


def _glyph(cell: tuple[int, int] | None, ascii_only: bool) -> tuple[str, int]:
    if cell is None:
        return " ", _BLANK
    bits, number = cell
    return ("*+o#x@%&"[number % 8] if ascii_only else chr(_BRAILLE | bits)), number


def _bounds(values: Sequence[float]) -> tuple[float, float, bool]:
    """Return the bottom, the top, and whether a few values far out are beyond them."""
    low, high = values[0], values[-1]
    out = max(1, int(len(values) * _SHARE))
    cut = False
    if len(values) >= 20:
        inner_low, inner_high = values[out], values[-1 - out]
        span = inner_high - inner_low
        if span > 0 and high - inner_high > _WILD * span:
            high, cut = inner_high + 0.1 * span, True
        if span > 0 and inner_low - low > _WILD * span:
            low, cut = inner_low - 0.1 * span, True
    if high == low:
        pad = abs(high) * 0.1 or 1.0
        low, high = low - pad, high + pad
    return low, high, cut


@dataclass(frozen=True, slots=True)
class _Grid:
    """Dots from the left and from the top."""

    width: int
    height: int
    places: tuple[float, float]
    values: tuple[float, float]

    def _dot(self, at: float, value: float) -> tuple[int, int]:
        (first, last), (low, high) = self.places, self.values
        x = 0.0 if last == first else (at - first) / (last - first) * (self.width - 1)
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return round(x), round((1.0 - share) * (self.height - 1))

    def dots(self, points: Points) -> Iterator[tuple[int, int]]:
        """Give the dots of a curve, with a line from each to the next."""
        before: tuple[int, int] | None = None
        for at, value in points:
            dot = self._dot(at, value)
            yield dot
            if before is not None and dot != before:
                yield from _between(before, dot)
            before = dot


def _between(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    across, down = end[0] - start[0], end[1] - start[1]
    steps = max(abs(across), abs(down))
    for step in range(1, steps):
        yield start[0] + round(across * step / steps), start[1] + round(down * step / steps)


def number(value: float | None) -> str:
    """Return a value in at most 10 characters."""
    if value is None:
        return "n/a"
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return f"{value:.2e}"
