"""Less usual functions of NumPy: ufuncs that reduce, open grids, blocks, functions of indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    NativeFunction,
    Unknown,
    Value,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.numpy import array_methods as methods
from gpuconsole.preflight.interpreter.numpy.array import Array, binary, dtype_name, extents, make

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


def _block(run: Run, parts: Value) -> Value:
    """Join nested lists of arrays: the innermost along the last axis."""

    def depth(value: Value) -> int:
        return 1 + depth(value[0]) if isinstance(value, list) and value else 0

    def joined(value: Value, axis: int) -> Value:
        if not isinstance(value, list):
            return make(run, value)
        inner = [joined(part, axis + 1) for part in value]
        join = run.interp.get_attr(run.interp.imports.library("numpy"), "concatenate")
        return first_unknown(inner) or run.interp.call(join, [inner, axis], {})

    return joined(parts, -depth(parts))


def _from_function(run: Run, function: Value, shape: Value, dtype: Value = None,
                   **_: Value) -> Value:  # fmt: skip
    sizes = extents(run, shape)
    if isinstance(sizes, Unknown):
        return sizes
    kind = dtype_name(dtype, "float64")
    return run.interp.call(function, [Array(sizes, kind) for _ in sizes], {})


def _resized(run: Run, value: Value, shape: Value) -> Value:
    array, sizes = make(run, value), extents(run, shape)
    if isinstance(sizes, Unknown) or isinstance(array, Unknown):
        return first_unknown(array, sizes)
    return Array(sizes, array.dtype)


def _vander(run: Run, value: Value, n: Value = None, **_: Value) -> Value:
    array = make(run, value)
    if isinstance(array, Unknown):
        return array
    return Array((array.size, array.size if n is None else n), array.dtype)


def _trimmed(run: Run, value: Value, *_: Value) -> Value:
    array = make(run, value)
    return array if isinstance(array, Unknown) else Array((Bound(array.size),), array.dtype)


def _packed(run: Run, value: Value, axis: Value = None, **_: Value) -> Value:
    array = make(run, value)
    if isinstance(array, Unknown):
        return array
    if axis is None:
        return Array((-(-array.size // 8),), "uint8")
    shape = list(array.shape)
    shape[axis] = -(-shape[axis] // 8)
    return Array(tuple(shape), "uint8")


def _between(run: Run, value: Value, *_: Value, **__: Value) -> Value:
    array = make(run, value)
    return array if isinstance(array, Unknown) else Array((max(0, array.size - 1),), array.dtype)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "block": _block, "fromfunction": _from_function, "resize": _resized, "vander": _vander,
    "trim_zeros": _trimmed, "packbits": _packed, "ediff1d": _between,
}  # fmt: skip
