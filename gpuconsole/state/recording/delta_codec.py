"""Figures of one quantity as whole numbers, and of those what changed: what packs small.

A column is one byte for the width of a change (0 when nothing changes), the first number, and
each change from one number to the next. `None` is the number -1.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import sub
from struct import Struct

_HEAD = Struct("<Bi")
_CODES = {1: "b", 2: "h", 4: "i"}
_MOST = 2**30
"""Numbers beyond are kept as this one, so that every change fits four bytes."""
NOTHING = -1


def quantised(value: float | None, step: float) -> int:
    """Return how many steps a figure is, or -1 for None and for what is no number."""
    # A comparison with what is no number is false.
    if value is None or not 0 <= value < _MOST * step:
        return NOTHING if value is None or not value >= 0 else _MOST
    return round(value / step)


def figure(number: int, step: float) -> float | None:
    """Return the figure of a kept number."""
    return None if number < 0 else number * step


def columns(rows: Sequence[Sequence[float | None]], steps: Sequence[float]) -> list[bytes]:
    """Return rows of figures, of which there must be one, as columns; `steps` has one for each.

    A block of a large fleet has fifty thousand columns of a few numbers each, so the changes of all
    are worked out a row at a time.
    """
    numbers = _quantised(rows, steps)
    changes = [list(map(sub, after, before)) for before, after in pairwise(numbers)]
    if not changes:
        return [_HEAD.pack(0, first) for first in numbers[0]]
    head, byte, short, long = (_layout(width, len(changes)).pack for width in (0, 1, 2, 4))
    packed: list[bytes] = []
    for first, column in zip(numbers[0], zip(*changes, strict=True), strict=True):
        if not any(column):
            packed.append(head(0, first))
            continue
        least, most = min(column), max(column)
        if least >= -(2**7) and most < 2**7:
            packed.append(byte(1, first, *column))
        elif least >= -(2**15) and most < 2**15:
            packed.append(short(2, first, *column))
        else:
            packed.append(long(4, first, *column))
    return packed


def _quantised(rows: Sequence[Sequence[float | None]], steps: Sequence[float]) -> list[list[int]]:
    """Return how many steps each of the figures is."""
    limits = [_MOST * step for step in steps]
    return [
        [
            NOTHING
            if value is None
            else round(value / step)
            if 0.0 <= value < limit
            else quantised(value, step)
            for value, step, limit in zip(row, steps, limits, strict=True)
        ]
        for row in rows
    ]


@lru_cache(maxsize=256)
def _layout(width: int, changes: int) -> Struct:
    """Return the layout of a column with so many changes of that width."""
    return Struct(f"{_HEAD.format}{changes}{_CODES[width]}") if width else _HEAD


class Columns:
    """Columns of equal length, one after another in a buffer, read where they are asked for."""

    def __init__(self, buffer: bytes, start: int, count: int, rows: int) -> None:
        """Find `count` columns of `rows` numbers from `start`; ValueError when they do not fit."""
        self._buffer = buffer
        self._rows = rows
        self._places = array("I")
        """Where each column begins; there are thousands in a large fleet."""
        for _ in range(count):
            if start + _HEAD.size > len(buffer):
                raise ValueError("a column is cut off")
            width = buffer[start]
            if width and width not in _CODES:
                raise ValueError(f"a column says that its numbers are {width} bytes wide")
            self._places.append(start)
            start += _HEAD.size + width * (rows - 1)
            if start > len(buffer):
                raise ValueError("a column is cut off")
        self.end = start
        """Where the last column ends."""

    def at(self, column: int, row: int) -> int:
        """Return one number."""
        width, first, start = self._head(column)
        return first + sum(self._changes(width, start, row)) if width else first

    def all(self, column: int) -> list[int]:
        """Return all numbers of a column."""
        width, first, start = self._head(column)
        if not width:
            return [first] * self._rows
        return list(accumulate(self._changes(width, start, self._rows - 1), initial=first))

    def _head(self, column: int) -> tuple[int, int, int]:
        place = self._places[column]
        width, first = _HEAD.unpack_from(self._buffer, place)
        return width, first, place + _HEAD.size

    def _changes(self, width: int, start: int, count: int) -> array[int]:
        changes = array(_CODES[width])
        changes.frombytes(self._buffer[start : start + width * count])
        if sys.byteorder == "big":
            changes.byteswap()
        return changes
