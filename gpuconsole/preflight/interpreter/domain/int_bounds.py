"""The largest whole number that an array can hold: how many segments or nodes there are.

It is kept on arrays and tensors as `high`: a plain int where that number is there for certain, a
`Bound` where it is only the most that can be, as for numbers that are drawn.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import Bound, Value
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, Tensor

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_LISTED = 4096


def high_of(value: Value) -> int | None:
    """Return the largest number in a value; None where nothing is known of it."""
    if isinstance(value, (Array, Tensor)):
        data = getattr(value, "data", None)
        if isinstance(data, (int, list)):
            return high_of(data)
        return value.high
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, range):
        return max(value[0], value[-1]) if value else None
    if isinstance(value, (list, tuple)) and 0 < len(value) <= MAX_LISTED:
        return most([high_of(item) for item in value])
    return None


def most(highs: Sequence[int | None]) -> int | None:
    """Return the largest of all; certain only where what is certain is as large."""
    bounds = [high for high in highs if high is not None]
    if not bounds or len(bounds) != len(highs):
        return None
    top = max(bounds)
    return int(top) if any(bound == top and type(bound) is int for bound in bounds) else Bound(top)


def at_most(high: int | None) -> int | None:
    """Return what holds for a part of the numbers."""
    return None if high is None else Bound(high)


def combined(kind: type[ast.operator], left: Value, right: Value) -> int | None:
    """Return the largest number of what an operator makes of whole numbers."""
    first, other = high_of(left), high_of(right)
    plain = isinstance(right, int) and right > 0
    if kind is ast.Mod and plain and (first is None or first >= right):
        return Bound(right - 1)
    if first is None or other is None or not (plain or kind is ast.Add):
        return None
    result = {ast.Add: first + other, ast.Sub: first - other, ast.FloorDiv: first // max(other, 1),
            ast.Mult: first * other if first >= 0 else None, ast.Mod: first}.get(kind)  # fmt: skip
    if result is None:
        return None
    # A number moves what is certain; two arrays may have their largest at different places.
    one_array = isinstance(left, int) or isinstance(right, int)
    certain = type(first) is int and type(other) is int and one_array
    return int(result) if certain else Bound(result)


def keeping(call: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that returns its argument's numbers in another form."""

    def function(run: Run, value: Value, *args: Value, **kwargs: Value) -> Value:
        result = call(run, value, *args, **kwargs)
        if (
            isinstance(result, (Array, Tensor))
            and result.dtype not in FLOATS
            and result.high is None
        ):
            result.high = high_of(value)
        return result

    return function


def segments(value: Value) -> int | None:
    """Return how many there are when these are their numbers, from 0."""
    high = high_of(value)
    if high is None or high < 0:
        return None
    return high + 1 if type(high) is int else Bound(high + 1)
