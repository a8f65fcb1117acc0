"""Extents of which only a bound is known, or not even that."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.values import (
    OPEN,
    Bound,
    Length,
    ShapeFault,
    SomeInt,
    Unknown,
    Value,
    plain,
)

_MOST_AXES = 16
"""Lists of more numbers are no shapes."""


class UnsettledError(TypeError):
    """A tensor would be made of an extent that nothing bounds; carries what would settle it."""

    def __init__(self, extent: int) -> None:
        super().__init__("an extent that is not known")
        length = getattr(extent, "length", None)
        self.unknown: Unknown | None = plain(length) if isinstance(length, Length) else None


def is_open(fault: ShapeFault) -> bool:
    """Whether shapes that do not go together have extents of which nothing is known."""
    return any(extent >= OPEN for shape in fault.shapes for extent in shape)


def extent_of(extent: int) -> Value:
    """Return an extent as a number of the script: a length where nothing bounds it."""
    if extent < OPEN:
        return extent
    length = getattr(extent, "length", None)
    return SomeInt("", 0, "the length of an array") if length is None else length


def may_be_equal(left: Value, right: Value) -> bool:
    """Whether only data tells if two sizes, or two shapes, are equal."""
    if not isinstance(left, (list, tuple)):
        return _may_be_one(left, right)
    if type(left) is not type(right) or len(left) != len(right) or len(left) > _MOST_AXES:
        return False
    # Nothing within other lists is looked at: comparing these may not end.
    if not all(isinstance(extent, int) for extent in (*left, *right)):
        return False
    different = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
    return bool(different) and all(_may_be_one(*pair) for pair in different)


def _may_be_one(left: Value, right: Value) -> bool:
    """Whether one of two sizes is at most so large, and the other less."""
    if type(left) is not Bound:
        left, right = right, left
    return type(left) is Bound and isinstance(right, int) and right < left


def sliced(index: slice, extent: int) -> int:
    """Return how many items a slice of an axis has, at most."""
    parts = (index.start, index.stop, index.step)
    if all(part is None or isinstance(part, int) for part in parts):
        count = len(range(*slice(*parts).indices(extent)))
        return Bound(count) if type(extent) is Bound else count
    stop = index.stop
    if isinstance(index.start, Length) and isinstance(stop, (int, Length)) and index.step is None:
        count = lengths.plus(stop, index.start, -1)
        if isinstance(count, int):
            return max(0, min(count, extent))
        if isinstance(count, Length) and count.high is not None:
            return Bound(min(max(0, count.high), extent))
    if isinstance(stop, Length) and stop.high is not None and index.start in (None, 0):
        return Bound(min(stop.high, extent))
    return Bound(extent)
