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
    binary,
    dtype_name,
    make,
    promote,
    shape_of,
    spread,
)
from gpuconsole.preflight.interpreter.numpy.linalg_fft import of_array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, as_shape

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_BINS = 2**24


def _numbers(array: Value) -> list[int] | None:
    """Return the whole numbers of an array with one axis, where all are known."""
    data = getattr(array, "data", None)
    are_whole = isinstance(data, list) and all(isinstance(number, int) for number in data)
    return data if are_whole else None


def _bincount(run: Run, value: Value, weights: Value = None, minlength: Value = 0) -> Value:
    array = make(run, value)
    unknown = first_unknown(array, minlength)
    if unknown is not None:
        return unknown
    kind = "int64" if weights is None else "float64"
    numbers = _numbers(array)
    if numbers is None:
        return run.unknown("how many bins data fills", array)
    most = max([minlength - 1, *numbers])
    return run.unknown("too many bins") if most > MAX_BINS else Array((most + 1,), kind)


def _searched(run: Run, table: Value, values: Value, *_: Value, **__: Value) -> Value:
    if isinstance(values, (int, float, SomeNumber)):
        return run.number("where a number stands in data")
    array = make(run, values)
    return array if isinstance(array, Unknown) else Array(array.shape, "int64")


def _digitized(run: Run, values: Value, bins: Value, *_: Value, **__: Value) -> Value:
    return _searched(run, bins, values)


def _histogram(run: Run, value: Value, bins: Value = 10, *_: Value, density: Value = False,
               weights: Value = None, **__: Value) -> Value:  # fmt: skip
    edges = bins + 1 if isinstance(bins, int) else shape_of(bins)[0][0]
    kind = "int64" if density is not True and weights is None else "float64"
    return Array((edges - 1,), kind), Array((edges,), "float64")


def _histogram2d(run: Run, x: Value, y: Value, bins: Value = 10, *_: Value, **__: Value) -> Value:
    parts = bins if isinstance(bins, (list, tuple)) and len(bins) == 2 else (bins, bins)
    sizes = [part if isinstance(part, int) else shape_of(part)[0][0] - 1 for part in parts]
    return (Array(tuple(sizes), "float64"), *(Array((size + 1,), "float64") for size in sizes))


def _partition(run: Run, x: Array, *_: Value, axis: Value = -1, **__: Value) -> Value:
    return Array((x.size,) if axis is None else x.shape, x.dtype)


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


def _inserted(run: Run, x: Array, where: Value, values: Value, axis: Value = None) -> Value:
    shape = list(x.shape) if axis is not None else [x.size]
    at = axis if axis is not None else 0
    places = 1 if isinstance(where, (int, SomeNumber)) else prod(shape_of(where)[0])
    put = make(run, values)
    if isinstance(put, Unknown):
        return put
    given = put.shape[at] if axis is not None and len(put.shape) == len(shape) else put.size
    shape[at] += max(places, given if axis is None or len(put.shape) == len(shape) else 1)
    return Array(tuple(shape), x.dtype)


def _at_least(rank: int) -> Callable[..., Value]:
    def one(run: Run, x: Array) -> Value:
        missing = rank - len(x.shape)
        if missing <= 0:
            return x
        shape = (1,) * missing + x.shape
        if rank == 3:
            shape = {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[len(x.shape)]
        return Array(shape, x.dtype)

    single = of_array(one)
    return lambda run, *parts: (
        single(run, parts[0]) if len(parts) == 1 else [single(run, each) for each in parts]
    )


def _rotated(run: Run, x: Array, k: Value = 1, axes: Value = (0, 1)) -> Value:
    shape = list(x.shape)
    first, second = as_shape(axes)
    if not isinstance(k, int):
        if shape[first] == shape[second]:
            return Array(x.shape, x.dtype)
        return run.unknown("how often a picture is turned", k)
    if k % 2:
        shape[first], shape[second] = shape[second], shape[first]
    return Array(tuple(shape), x.dtype)


def _rolled_axis(run: Run, x: Array, axis: int, start: int = 0) -> Value:
    shape = list(x.shape)
    taken = shape.pop(axis)
    shape.insert(start if start <= axis % len(x.shape) else start - 1, taken)
    return Array(tuple(shape), x.dtype)


def _triangle(upper: bool) -> Callable[..., Value]:
    def call(run: Run, n: Value, k: Value = 0, m: Value = None) -> Value:
        unknown = first_unknown(n, k, m)
        if unknown is not None:
            return unknown
        columns = n if m is None else m
        per_row = (max(0, columns - max(0, row + k)) if upper else
                min(columns, max(0, row + k + 1)) for row in range(min(n, 10**5)))  # fmt: skip
        count = sum(per_row)
        return Array((count,), "int64"), Array((count,), "int64")

    return call


def _diag_indices(run: Run, n: Value, ndim: Value = 2) -> Value:
    return tuple(Array((n,), "int64") for _ in range(min(ndim, 32)))


def _unravelled(run: Run, where: Value, shape: Value, *_: Value) -> Value:
    if isinstance(where, (int, SomeNumber)) or getattr(where, "shape", None) == ():
        return tuple(run.number("an index out of data") for _ in as_shape(shape))
    array = make(run, where)
    return array if isinstance(array, Unknown) else (
        tuple(Array(array.shape, "int64") for _ in as_shape(shape)))  # fmt: skip


def _ravelled(run: Run, where: Value, *_: Value, **__: Value) -> Value:
    return _searched(run, None, where[0])


def _broadcast(run: Run, *parts: Value) -> Value:
    arrays = [make(run, part) for part in parts]
    unknown = first_unknown(*arrays)
    if unknown is not None:
        return unknown
    shape = spread(*(array.shape for array in arrays))
    return [Array(shape, array.dtype) for array in arrays]


def _along(run: Run, x: Array, where: Value, axis: Value = -1) -> Value:
    return Array(shape_of(where)[0], x.dtype)


def _selected(run: Run, tests: Value, values: Value, default: Value = 0) -> Value:
    result = make(run, values[0])
    for value in [*values[1:], *tests]:
        if isinstance(result, Unknown):
            return result
        other = make(run, value)
        kind = result.dtype if other.dtype == "bool" else promote(result.dtype, other.dtype)
        result = Array(spread(result.shape, other.shape), kind)
    return result


def _chosen(run: Run, where: Value, values: Value, *_: Value, **__: Value) -> Value:
    return Array(shape_of(where)[0], make(run, values[0]).dtype)


def _applied(run: Run, function: Value, axis: Value, x: Value, *args: Value) -> Value:
    array = make(run, x)
    if isinstance(array, Unknown):
        return array
    at = axis % len(array.shape)
    line = Array((array.shape[at],), array.dtype)
    result = make(run, run.interp.call(function, [line, *args], {}))
    if isinstance(result, Unknown):
        return result
    return Array((*array.shape[:at], *result.shape, *array.shape[at + 1 :]), result.dtype)


class Vectorized(Native):
    """`np.vectorize(f)`."""

    label = "vectorize"

    def init(self, run: Run, function: Value, *_: Value, **__: Value) -> None:
        """Keep the function."""
        self.function = function

    def call(self, interp: Interpreter, *args: Value, **_: Value) -> Value:
        """Call it for one item; the others are like it."""
        run: Run = interp.run
        arrays = [make(run, argument) for argument in args]
        unknown = first_unknown(*arrays)
        if unknown is not None:
            return unknown
        items = [run.number("an item out of data") for _ in arrays]
        result = make(run, interp.call(self.function, items, {}))
        if isinstance(result, Unknown):
            return result
        return Array(spread(*(each.shape for each in arrays)), result.dtype)


def _from_iter(run: Run, items: Value, dtype: Value = None, *_: Value, **__: Value) -> Value:
    array = make(run, list(run.interp.iterate(items)))
    return (
        array if isinstance(array, Unknown) else Array(array.shape, dtype_name(dtype, array.dtype))
    )


def _from_buffer(run: Run, data: Value, dtype: Value = None, *_: Value, **__: Value) -> Value:
    kind = dtype_name(dtype, "float64")
    if isinstance(data, bytes):
        return Array((len(data) // ITEM_BYTES.get(kind, 8),), kind)
    return run.unknown("an array out of a file's bytes", data)


def _united(run: Run, left: Value, right: Value, *_: Value, **__: Value) -> Value:
    return _set_of(run, left, right, lambda a, b: set(a) | set(b), lambda n, m: n + m)


def _common(run: Run, left: Value, right: Value, *_: Value, **__: Value) -> Value:
    return _set_of(run, left, right, lambda a, b: set(a) & set(b), min)


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


def _unsure(run: Run, *_: Value, **__: Value) -> Value:
    return run.unknown("a condition on data")


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


def _geometric(run: Run, start: Value, stop: Value, num: Value = 50, **_: Value) -> Value:
    return Array((num,), "float64")


def _lexsort(run: Run, keys: Value, *_: Value) -> Value:
    return Array(shape_of(keys)[0][1:], "int64")


def _compared(run: Run, left: Value, right: Value, *_: Value, **__: Value) -> Value:
    result = binary(run, left, right)
    return result if isinstance(result, Unknown) else run.unknown("a condition on data")


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "bincount": _bincount, "searchsorted": _searched, "digitize": _digitized,
    "histogram": _histogram, "histogram2d": _histogram2d, "partition": of_array(_partition),
    "argpartition": of_array(methods.ordered), "delete": of_array(_removed),
    "insert": of_array(_inserted), "rot90": of_array(_rotated), "rollaxis": of_array(_rolled_axis),
    "triu_indices": _triangle(True), "tril_indices": _triangle(False),
    "diag_indices": _diag_indices, "unravel_index": _unravelled, "ravel_multi_index": _ravelled,
    "broadcast_arrays": _broadcast, "take_along_axis": of_array(_along), "select": _selected,
    "choose": _chosen, "apply_along_axis": _applied, "fromiter": _from_iter,
    "frombuffer": _from_buffer, "fromstring": _from_buffer, "union1d": _united,
    "intersect1d": _common, "setdiff1d": _without, "allclose": _compared,
    "array_equal": _unsure, "ndim": _rank, "shape": _shape, "size": _size, "dtype": _dtype,
    "geomspace": _geometric, "lexsort": _lexsort, "diagonal": of_array(methods.diagonal),
    "can_cast": _unsure, **dict.fromkeys(
        ("fill_diagonal", "put_along_axis", "put", "place", "copyto", "putmask", "savetxt",
         "seterr", "testing"), methods.nothing),
    **{f"atleast_{rank}d": _at_least(rank) for rank in (1, 2, 3)},
}  # fmt: skip
"""Functions of `numpy` by name."""
