"""Less usual functions of NumPy: ufuncs that reduce, open grids, blocks, functions of indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    NativeFunction,
    Unknown,
    Value,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.numpy import array_methods as methods
from gpuconsole.preflight.interpreter.numpy.array import Array, binary, make

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min",
            "logical_or": "any", "logical_and": "all", "fmax": "max", "fmin": "min"}  # fmt: skip


def of_ufunc(function: NativeFunction, name: str) -> Value:
    """Return `np.add.reduce` and the like; None where there is no such function."""
    reduced = _REDUCED.get(function.name.removeprefix("np."))
    if name == "reduce" and reduced is not None:
        return NativeFunction(
            partial(_reduce, methods.reduction(reduced)), f"{function.name}.reduce"
        )
    if name == "accumulate" and reduced is not None:
        return NativeFunction(_accumulate, f"{function.name}.accumulate")
    if name == "outer":
        return NativeFunction(_outer, f"{function.name}.outer")
    return NativeFunction(methods.nothing, f"{function.name}.at") if name == "at" else None


def _reduce(call: Callable[..., Value], run: Run, value: Value, axis: Value = 0,
            *_: Value, keepdims: Value = False, **__: Value) -> Value:  # fmt: skip
    array = make(run, value)
    if isinstance(array, Unknown):
        return array
    return call(run, array, axis=axis, keepdims=keepdims)


def _accumulate(run: Run, value: Value, *_: Value, **__: Value) -> Value:
    array = make(run, value)
    return array if isinstance(array, Unknown) else Array(array.shape, methods.whole(array.dtype))


def _outer(run: Run, left: Value, right: Value, **_: Value) -> Value:
    first, other = make(run, left), make(run, right)
    unknown = first_unknown(first, other)
    if unknown is not None:
        return unknown
    kind = binary(run, Array((), first.dtype), Array((), other.dtype)).dtype
    return Array((*first.shape, *other.shape), kind)


def grid(key: Value, *, is_open: bool) -> Value:
    """Return the result of `np.mgrid[...]` or `np.ogrid[...]` for slices."""
    keys = key if isinstance(key, tuple) else (key,)
    sizes: list[int] = []
    whole = True
    for part in keys:
        unknown = first_unknown(part.start, part.stop, part.step)
        if unknown is not None:
            return plain(unknown)
        ends = (part.start or 0, part.stop, part.step or 1)
        whole = whole and not any(isinstance(part, (float, complex)) for part in ends)
        sizes.append(max(0, math.ceil((ends[1] - ends[0]) / ends[2])))
    kind = "int64" if whole else "float64"
    if not is_open:
        return Array((len(sizes), *sizes) if isinstance(key, tuple) else tuple(sizes), kind)
    if not isinstance(key, tuple):
        return Array(tuple(sizes), kind)
    return tuple(
        Array((1,) * at + (size,) + (1,) * (len(sizes) - at - 1), kind)
        for at, size in enumerate(sizes)
    )
