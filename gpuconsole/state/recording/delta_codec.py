"""Figures of one quantity as whole numbers, and of those what changed: what packs small.

A column is one byte for the width of a change (0 when nothing changes), the first number, and
each change from one number to the next. `None` is the number -1.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import sub
from struct import Struct

_HEAD = Struct("<Bi")
_CODES = {1: "b", 2: "h", 4: "i"}
_MOST = 2**30
"""Numbers beyond are kept as this one, so that every change fits four bytes."""
NOTHING = -1
_EMPTY = _HEAD.pack(0, NOTHING)
"""A column in which nothing is known."""


def quantised(value: float | None, step: float) -> int:
    """Return how many steps a figure is, or -1 for None and for what is no number."""
    # A comparison with what is no number is false.
    if value is None or not 0 <= value < _MOST * step:
        return NOTHING if value is None or not value >= 0 else _MOST
    return round(value / step)


def quantised_all(values: Iterable[float | None], step: float) -> list[int]:
    """Return how many steps each of the figures is."""
    most = _MOST * step
    return [
        round(value / step) if value is not None and 0 <= value < most else quantised(value, step)
        for value in values
    ]


def figure(number: int, step: float) -> float | None:
    """Return the figure of a kept number."""
    return None if number < 0 else number * step


def pack(numbers: Sequence[int]) -> bytes:
    """Return a column, which must not be empty."""
    changes = list(map(sub, numbers[1:], numbers))
    least, most = (min(changes), max(changes)) if changes else (0, 0)
    if least == most == 0:
        width = 0
    elif least >= -(2**7) and most < 2**7:
        width = 1
    else:
        width = 2 if least >= -(2**15) and most < 2**15 else 4
    head = _HEAD.pack(width, numbers[0])
    if not width:
        return head
    packed = array(_CODES[width], changes)
    if sys.byteorder == "big":
        packed.byteswap()
    return head + packed.tobytes()


def column(values: Sequence[float | None], step: float) -> bytes:
    """Return figures as a column, which must not be empty; one number where they never change."""
    first = values[0]
    if values.count(first) == len(values):
        return _EMPTY if first is None else _HEAD.pack(0, quantised(first, step))
    return pack(quantised_all(values, step))


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
