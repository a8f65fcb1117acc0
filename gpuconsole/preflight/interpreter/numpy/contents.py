"""Arithmetic with the numbers of small arrays, where a script states them.

Widths, depths and splits are often computed with NumPy from a few numbers that are written out.
What is computed here is exact: where a result could differ from NumPy's, there is none.
"""

from __future__ import annotations

import ast
import math
import operator
import struct
from collections.abc import Callable, Sequence

from gpuconsole.preflight.interpreter.domain.values import Bound, Value
from gpuconsole.preflight.interpreter.numpy.array import MAX_DATA, Array

Number = int | float
LARGEST = 2**31
"""Beyond this whole numbers of 32 bits would overflow: nothing is computed there."""
_PACKED = {"float32": "f", "float16": "e"}
_WHOLE = ("int64", "int32")

OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
PAIRWISE: dict[str, Callable[[Number, Number], Number]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "floor_divide": operator.floordiv, "mod": operator.mod,
    "remainder": operator.mod, "maximum": max, "minimum": min, "power": operator.pow,
}  # fmt: skip


def of(value: Value) -> Number | list[Number] | None:
    """Return the number or the row of numbers that a value is known to be; None if it is not."""
    data: Value = value.data if isinstance(value, Array) else value
    if _plain(data):
        number: Number = data
        return number
    if isinstance(data, (list, tuple)) and len(data) <= MAX_DATA and all(map(_plain, data)):
        return list(data)
    return None


def _plain(value: Value) -> bool:
    whole = isinstance(value, int) and not isinstance(value, (bool, Bound))
    return whole or isinstance(value, float)


def paired(
    compute: Callable[[Number, Number], Number] | None, left: Value, right: Value, dtype: str
) -> Value:
    """Return the numbers of an operation on two values; None where they are not known."""
    left_data, right_data = of(left), of(right)
    if compute is None or left_data is None or right_data is None:
        return None
    if not isinstance(left_data, list) and not isinstance(right_data, list):
        return _first(stored([left_data], [right_data], compute, dtype))
    size = max(len(side) if isinstance(side, list) else 1 for side in (left_data, right_data))
    rows = [side if isinstance(side, list) else [side] for side in (left_data, right_data)]
    if any(len(row) not in (1, size) for row in rows):
        return None
    first, second = (row * size if len(row) == 1 else row for row in rows)
    return stored(first, second, compute, dtype)


def stored(
    first: Sequence[Number],
    second: Sequence[Number],
    compute: Callable[[Number, Number], Number],
    dtype: str,
) -> list[Number] | None:
    """Return what a function makes of pairs of numbers, as an array of a type holds it."""
    try:
        return held([compute(a, b) for a, b in zip(first, second, strict=True)], dtype)
    except (ArithmeticError, TypeError, ValueError):
        return None


def held(numbers: Sequence[Number], dtype: str) -> list[Number] | None:
    """Return numbers as an array of a type holds them; None where it might not."""
    if dtype in _WHOLE:
        whole = [number for number in numbers if isinstance(number, int) and abs(number) < LARGEST]
        return list(whole) if len(whole) == len(numbers) else None
    if dtype != "float64" and dtype not in _PACKED:
        return None
    try:
        values = [float(number) for number in numbers]
        if dtype in _PACKED:
            values = [struct.unpack(_PACKED[dtype], struct.pack(_PACKED[dtype], value))[0]
                     for value in values]  # fmt: skip
    except (OverflowError, TypeError):
        return None
    return list(values) if all(map(math.isfinite, values)) else None


def mapped(compute: Callable[[Number], Number] | None, value: Value, dtype: str) -> Value:
    """Return the numbers of a function of each item; None where they are not known."""
    data = of(value)
    if compute is None or data is None:
        return None
    row = data if isinstance(data, list) else [data]
    results = stored(row, row, lambda number, _: compute(number), dtype)
    return results if isinstance(data, list) else _first(results)


def cast(value: Value, dtype: str) -> Value:
    """Return the numbers of an array as another type holds them; None where that is not known."""
    return mapped(int if dtype in _WHOLE else float, value, dtype)


def counts(numbers: Sequence[Number]) -> list[int]:
    """Return how often each different number occurs, in their order."""
    return [list(numbers).count(number) for number in sorted(set(numbers))]


def _first(row: list[Number] | None) -> Value:
    return None if row is None else row[0]
