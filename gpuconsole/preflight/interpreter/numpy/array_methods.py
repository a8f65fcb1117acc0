"""Methods and properties of NumPy arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.dimensions import extent_of
from gpuconsole.preflight.interpreter.domain.int_bounds import keeping
from gpuconsole.preflight.interpreter.domain.values import Bound, ShapeFault, Value
from gpuconsole.preflight.interpreter.numpy import contents
from gpuconsole.preflight.interpreter.numpy.array import (
    Array,
    DType,
    dtype_name,
    promote,
    reduced,
    reshaped,
    shape_of,
    spread,
)
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, ITEM_BYTES, as_shape

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_LISTED = 10_000


def whole(dtype: str) -> str:
    """Return the type of a sum: whole numbers are added up in 64 bits."""
    return dtype if dtype in FLOATS or dtype.startswith("complex") else "int64"


def real(dtype: str) -> str:
    """Return the type of a mean or a root: whole numbers become float64."""
    return dtype if dtype in FLOATS or dtype.startswith("complex") else "float64"


def same(dtype: str) -> str:
    """Return the type as it is."""
    return dtype


REDUCTIONS: dict[str, Callable[[str], str]] = {
    "sum": whole, "prod": whole, "mean": real, "std": real, "var": real, "median": real,
    "max": same, "min": same, "amax": same, "amin": same, "ptp": same, "percentile": real,
    "quantile": real, "average": real, "nansum": whole, "nanmean": real, "nanmax": same,
    "nanmin": same, "argmax": lambda dtype: "int64", "argmin": lambda dtype: "int64",
    "any": lambda dtype: "bool", "all": lambda dtype: "bool", "count_nonzero":
    lambda dtype: "int64",
}  # fmt: skip
_KNOWN: dict[str, Callable[..., Value]] = {
    "sum": sum, "max": max, "min": min, "amax": max, "amin": min,
    "argmax": lambda data: data.index(max(data)), "argmin": lambda data: data.index(min(data)),
}  # fmt: skip


def reduction(name: str) -> Callable[..., Value]:
    """Return a reduction as a function of a run and an array."""
    kind = REDUCTIONS[name]

    def call(run: Run, array: Array, *args: Value, axis: Value = None, keepdims: Value = False,
             dtype: Value = None, **_: Value) -> Value:  # fmt: skip
        percent = name in ("percentile", "quantile")
        places = args[1:] if percent else args
        axis = places[0] if axis is None and places else axis
        if percent and args and isinstance(args[0], (list, tuple, Array)):
            several = args[0].shape if isinstance(args[0], Array) else (len(args[0]),)
            result = reduced(array, axis, keepdims, kind(array.dtype))
            return Array((*several, *result.shape), "float64" if axis is None else result.dtype)
        if axis is None and isinstance(array.data, list) and name in (*_KNOWN, "prod"):
            value = _of_known(name, array.data)
            if value is not None:
                return Array((), kind(array.dtype), value)
        if axis is None and name in ("max", "amax") and array.high is not None:
            result = reduced(array, axis, keepdims, kind(array.dtype))
            result.data = array.high if type(array.high) is int and not result.shape else None
            result.high = array.high
            return result
        return reduced(array, axis, keepdims, dtype_name(dtype, kind(array.dtype)))

    return call


def _of_known(name: str, data: list[Value]) -> Value:
    while data and all(isinstance(part, list) for part in data):
        data = [inner for part in data for inner in part]
    if not data or not all(isinstance(item, (int, float)) for item in data):
        return None
    if name in _KNOWN:
        return _KNOWN[name](data)
    product = 1
    for item in data:
        product *= item
    return product if abs(product) < 2**63 else None


def transposed(run: Run, x: Array, *order: Value) -> Value:
    """Permute the axes; without an order turn them round."""
    axes = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
    if not axes:
        return x.viewed(x.shape[::-1])
    if len(axes) != len(x.shape):
        raise ShapeFault(f"transpose of {list(x.shape)} by {list(axes)}", x.shape, tuple(axes))
    return x.viewed(tuple(x.shape[axis] for axis in axes))


def swapped(run: Run, x: Array, first: int, second: int) -> Value:
    """Swap two axes."""
    shape = list(x.shape)
    shape[first], shape[second] = shape[second], shape[first]
    return x.viewed(tuple(shape))


def moved(run: Run, x: Array, source: int, target: int) -> Value:
    """Move an axis to another place."""
    shape = list(x.shape)
    shape.insert(target % len(shape), shape.pop(source))
    return x.viewed(tuple(shape))


def squeezed(run: Run, x: Array, axis: Value = None) -> Value:
    """Drop axes of one."""
    axes = None if axis is None else {place % len(x.shape) for place in as_shape(axis)}
    left = (extent for place, extent in enumerate(x.shape)
            if (extent != 1 if axes is None else place not in axes))  # fmt: skip
    return x.viewed(tuple(left))


def repeated(run: Run, x: Array, count: Value, axis: Value = None) -> Value:
    """Repeat each item."""
    if not isinstance(count, int):
        return run.unknown("how often items are repeated", count)
    if axis is None:
        return Array((x.size * count,), x.dtype)
    shape = list(x.shape)
    shape[axis] *= count
    return Array(tuple(shape), x.dtype)


def as_type(run: Run, x: Array, dtype: Value = None, **_: Value) -> Value:
    """Convert."""
    kind = dtype_name(dtype, x.dtype)
    return Array(x.shape, kind, contents.cast(x, kind) if kind != x.dtype else x.data)


def listed(run: Run, x: Array) -> Value:
    """Turn into nested lists, of the numbers where they are known."""
    if x.data is not None:
        return x.data
    number = run.number("a number out of data that the script does not state")
    if not x.shape:
        return number
    if x.shape[0] > MAX_LISTED:
        return run.unknown("a long list of numbers out of data")
    inner = Array(x.shape[1:], x.dtype)
    return [listed(run, inner) if inner.shape else number for _ in range(x.shape[0])]


def item(run: Run, x: Array, *_: Value) -> Value:
    """Take one number."""
    if isinstance(x.data, (int, float)):
        return x.data
    return run.number("a number out of data that the script does not state")


def flat(run: Run, x: Array, *_: Value) -> Value:
    """Flatten."""
    return Array((x.size,), x.dtype, x.data if len(x.shape) == 1 else None)


def keep(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    """Give an array like this one."""
    return Array(x.shape, x.dtype)


def copied(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    """Copy."""
    return Array(x.shape, x.dtype, x.data)


def ordered(run: Run, x: Array, *args: Value, axis: Value = -1, **_: Value) -> Value:
    """Give an index for each item."""
    return Array((x.size,) if axis is None else x.shape, "int64")


def accumulated(
    run: Run, x: Array, axis: Value = None, dtype: Value = None, *_: Value, **__: Value
) -> Value:
    """Add or multiply up; without an axis over all items in a row."""
    kind = dtype_name(dtype, whole(x.dtype))
    return Array((x.size,) if axis is None else x.shape, kind)


def added_up(
    run: Run, x: Array, axis: Value = None, dtype: Value = None, *_: Value, **__: Value
) -> Value:
    """Add up; of a row of known numbers the sums are known."""
    sums = accumulated(run, x, axis, dtype)
    row = contents.of(x)
    if isinstance(row, list) and len(x.shape) == 1 and sums.dtype == whole(x.dtype):
        sums.data = contents.held(list(itertools.accumulate(row)), sums.dtype)
    return sums


def diagonal(
    run: Run, x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, *_: Value
) -> Value:
    """Take the items with two equal indices."""
    first, second = axis1 % len(x.shape), axis2 % len(x.shape)
    rows, columns = x.shape[first] + min(offset, 0), x.shape[second] - max(offset, 0)
    rest = (extent for place, extent in enumerate(x.shape) if place not in (first, second))
    return Array((*rest, max(0, min(rows, columns))), x.dtype)


def traced(run: Run, x: Array, *args: Value, **kwargs: Value) -> Value:
    """Add up the diagonal."""
    return Array(diagonal(run, x, *args, **kwargs).shape[:-1], whole(x.dtype))


def taken(run: Run, x: Array, where: Value, axis: Value = None, **_: Value) -> Value:
    """Take items by their places along an axis."""
    shape, _dtype = shape_of(where)
    if axis is None:
        return Array(shape, x.dtype)
    axis %= len(x.shape)
    return Array((*x.shape[:axis], *shape, *x.shape[axis + 1 :]), x.dtype)


def searched(run: Run, x: Array, values: Value, *_: Value, **__: Value) -> Value:
    """Find where values would stand."""
    return Array(shape_of(values)[0], "int64")


def raw(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    """Return unknown bytes."""
    return run.unknown("the bytes of an array")


def found(run: Run, x: Array, *_: Value) -> Value:
    """Give the places of what is not zero: at most all."""
    return tuple(Array((Bound(x.size),), "int64") for _ in x.shape)


def resized(run: Run, array: Array, *shape: Value, **_: Value) -> None:
    """`x.resize(...)`."""
    array.shape = tuple(as_shape(shape[0] if len(shape) == 1 else list(shape)))
    array.forget()


def times(run: Run, x: Array, other: Value) -> Value:
    """Multiply matrices as `np.matmul` and `dot` do for one and two axes and batches."""
    shape, dtype = shape_of(other)
    left, right = x.shape, shape
    if not left or not right:
        return Array(left or right, promote(x.dtype, dtype))
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner and Bound not in (type(left[-1]), type(inner)):
        raise ShapeFault(f"a product of {list(left)} and {list(right)}", left, right)
    outer = spread(left[:-2], right[:-2])
    tail = (*left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
    return Array((*outer, *tail), promote(x.dtype, dtype))


def nothing(run: Run, x: Value = None, *_: Value, **__: Value) -> None:
    """Change no sizes."""


def overwritten(run: Run, x: Array, *_: Value, **__: Value) -> None:
    """Change numbers in place: they are not known any more."""
    x.forget()


def reshape(run: Run, x: Array, *shape: Value, **_: Value) -> Value:
    """Reshape; the shape is one list or several numbers."""
    return reshaped(x, shape[0] if len(shape) == 1 else list(shape))


def _part(dtype: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def _strides(x: Array) -> tuple[int, ...]:
    step, strides = ITEM_BYTES.get(x.dtype, 8), []
    for extent in reversed(x.shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


METHODS: dict[str, Callable[..., Value]] = {
    **{name: reduction(name) for name in REDUCTIONS},
    "astype": as_type, "reshape": reshape, "transpose": transposed, "swapaxes": swapped,
    "flatten": flat, "ravel": flat, "squeeze": squeezed, "copy": copied, "tolist": listed,
    "item": item, "repeat": repeated, "clip": keep, "round": keep,
    "cumsum": added_up, "cumprod": accumulated, "argsort": ordered, "argpartition": ordered,
    "resize": resized,
    "diagonal": diagonal, "trace": traced, "take": taken, "searchsorted": searched,
    "tobytes": raw, "tostring": raw, "partition": overwritten, "put": overwritten,
    "setflags": nothing,
    "dump": nothing, "tofile": nothing, "byteswap": keep, "nonzero": found,
    "dot": times, "fill": overwritten,
    "sort": overwritten, "view": as_type, "conj": keep, "__array__": keep, "numpy": copied,
}  # fmt: skip
PROPERTIES: dict[str, Callable[[Array], Value]] = {
    "shape": lambda x: tuple(map(extent_of, x.shape)), "size": lambda x: extent_of(x.size),
    "ndim": lambda x: len(x.shape),
    "dtype": lambda x: DType(x.dtype), "T": lambda x: x.viewed(x.shape[::-1]),
    "nbytes": lambda x: x.size * ITEM_BYTES.get(x.dtype, 8),
    "flat": lambda x: Array((x.size,), x.dtype),
    "itemsize": lambda x: ITEM_BYTES.get(x.dtype, 8),
    "real": lambda x: Array(x.shape, _part(x.dtype)),
    "imag": lambda x: Array(x.shape, _part(x.dtype)),
    "strides": lambda x: _strides(x), "base": lambda x: None,
}  # fmt: skip


_KEEPING = ("astype", "reshape", "transpose", "swapaxes", "flatten", "ravel", "squeeze", "copy",
            "repeat", "view")  # fmt: skip
"""Methods with a result that holds the numbers of the array."""


def install() -> None:
    """Give arrays their methods and properties."""
    for name in _KEEPING:
        METHODS[name] = keeping(METHODS[name])

    def method(call: Callable[..., Value]) -> Callable[..., Value]:
        return lambda self, run, *args, **kwargs: call(run, self, *args, **kwargs)

    def reader(give: Callable[[Array], Value]) -> Callable[..., Value]:
        return lambda self, run: give(self)

    for name, call in METHODS.items():
        exposed.add(Array, "methods", name, method(call))
    for name, give in PROPERTIES.items():
        exposed.add(Array, "properties", name, reader(give))


install()
