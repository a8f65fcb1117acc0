"""NumPy functions that search, sort, pick, put and take apart; sets; facts about types."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    Native,
    SomeNumber,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.numpy import array_methods as methods
from gpuconsole.preflight.interpreter.numpy.array import (
    Array,
    DType,
    dtype_name,
    make,
    promote,
    shape_of,
)
from gpuconsole.preflight.interpreter.numpy.linalg_fft import of_array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run


def _numbers(array: Value) -> list[int] | None:
    """Return the whole numbers of an array with one axis, where all are known."""
    data = getattr(array, "data", None)
    are_whole = isinstance(data, list) and all(isinstance(number, int) for number in data)
    return data if are_whole else None


def _from_buffer(run: Run, data: Value, dtype: Value = None, *_: Value, **__: Value) -> Value:
    kind = dtype_name(dtype, "float64")
    if isinstance(data, bytes):
        return Array((len(data) // ITEM_BYTES.get(kind, 8),), kind)
    return run.unknown("an array out of a file's bytes", data)


def _without(run: Run, left: Value, right: Value, *_: Value, **__: Value) -> Value:
    return _set_of(run, left, right, lambda a, b: set(a) - set(b), lambda n, m: n)


def _set_of(
    run: Run,
    left: Value,
    right: Value,
    operation: Callable[[list[int], list[int]], set[int]],
    most: Callable[[int, int], int],
) -> Value:
    first, other = make(run, left), make(run, right)
    unknown = first_unknown(first, other)
    if unknown is not None:
        return unknown
    a, b = _numbers(first), _numbers(other)
    if a is not None and b is not None:
        members = sorted(operation(a, b))
        return Array((len(members),), first.dtype, members)
    return Array((Bound(most(first.size, other.size)),), promote(first.dtype, other.dtype))


def _rank(run: Run, value: Value) -> Value:
    return len(shape_of(value)[0])


def _shape(run: Run, value: Value) -> Value:
    return shape_of(value)[0]


def _size(run: Run, value: Value, axis: Value = None) -> Value:
    shape = shape_of(value)[0]
    return prod(shape) if axis is None else shape[axis]


class Limits(Native):
    """`np.iinfo(type)` and `np.finfo(type)`."""

    label = "limits"

    def init(self, run: Run, kind: Value) -> None:
        """Work the limits out."""
        name = kind.dtype if isinstance(kind, Array) else dtype_name(kind, "float64")
        bits = 8 * ITEM_BYTES.get(name, 8)
        if name.startswith("float"):
            digits = {16: 10, 32: 23, 64: 52}[bits]
            most = (2 - 2.0**-digits) * 2.0 ** {16: 15, 32: 127, 64: 1023}[bits]
            self.attrs.update(max=most, min=-most, eps=2.0**-digits, bits=bits,
                              tiny=2.0 ** {16: -14, 32: -126, 64: -1022}[bits])  # fmt: skip
        elif name == "uint8":
            self.attrs.update(max=255, min=0, bits=8)
        else:
            self.attrs.update(max=2 ** (bits - 1) - 1, min=-(2 ** (bits - 1)), bits=bits)


class Joined(Native):
    """`np.r_[...]` and `np.c_[...]`: arrays one after the other, or side by side."""

    label = "np.r_"

    def __init__(self, columns: bool = False) -> None:
        super().__init__()
        self.columns = columns

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Join the parts."""
        run: Run = interp.run
        parts: list[Array] = []
        for item in key if isinstance(key, tuple) else (key,):
            if isinstance(item, (slice, str)):
                return run.unknown("a way of joining that the analysis does not read")
            array = make(run, item)
            if isinstance(array, Unknown):
                return array
            shape = array.shape or (1,)
            wide = (*shape, 1) if self.columns and len(shape) == 1 else shape
            parts.append(Array(wide, array.dtype))
        axis = -1 if self.columns else 0
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        kind = parts[0].dtype
        for array in parts[1:]:
            kind = promote(kind, array.dtype)
        return Array(tuple(shape), kind)


def _dtype(run: Run, kind: Value, *_: Value, **__: Value) -> Value:
    return DType(dtype_name(kind, "float64"))


def _removed(run: Run, x: Array, where: Value, axis: Value = None) -> Value:
    shape = list(x.shape) if axis is not None else [x.size]
    at = axis if axis is not None else 0
    if isinstance(where, (int, SomeNumber)):
        shape[at] -= 1
    elif isinstance(where, slice):
        shape[at] -= len(range(*where.indices(shape[at])))
    else:
        size, kind = shape_of(where)
        shape[at] = Bound(shape[at]) if kind == "bool" else shape[at] - prod(size)
    return Array(tuple(shape), x.dtype)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "argpartition": of_array(methods.ordered), "delete": of_array(_removed),
    "frombuffer": _from_buffer, "fromstring": _from_buffer, "setdiff1d": _without,
    "ndim": _rank, "shape": _shape, "size": _size, "dtype": _dtype,
    "diagonal": of_array(methods.diagonal),
    **dict.fromkeys(
        ("fill_diagonal", "put_along_axis", "put", "place", "copyto", "putmask", "savetxt",
         "seterr", "testing"), methods.nothing),
}  # fmt: skip
"""Functions of `numpy` by name."""
