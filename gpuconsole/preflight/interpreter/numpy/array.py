"""NumPy arrays as far as shapes and types go; contents only of a few written-out numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import exposed, lengths
from gpuconsole.preflight.interpreter.domain.dimensions import extent_of, sliced
from gpuconsole.preflight.interpreter.domain.numpy_scalars import Double
from gpuconsole.preflight.interpreter.domain.values import (
    OPEN,
    Bound,
    Length,
    Native,
    NativeClass,
    NativeFunction,
    ShapeFault,
    SomeNumber,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, ITEM_BYTES, as_shape

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run
    from gpuconsole.preflight.memory.trace import Storage

MAX_DATA = 1024
"""Numbers that an array remembers."""
ALIASES = {
    "float": "float64", "int": "int64", "bool_": "bool", "double": "float64", "single": "float32",
    "half": "float16", "long": "int64", "intp": "int64", "uint": "int64", "f": "float32",
    "d": "float64", "i": "int32", "float_": "float64", "int_": "int64", "<f4": "float32",
    "f4": "float32", "f8": "float64", "i4": "int32", "i8": "int64", "u1": "uint8", "complex":
    "complex128", "uint16": "int16", "uint32": "int32", "uint64": "int64", "str": "str",
}  # fmt: skip
_WIDTH = {"bool": 0, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8}
_FLOAT_WIDTH = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


class DType(Native):
    """`np.float32` and the like: a type that is also a conversion."""

    label = "dtype"

    def __init__(self, name: str = "float32") -> None:
        super().__init__()
        self.name = name

    @exposed.prop("name", "str", "char")
    def get_name(self, run: Run) -> Value:
        """Give `dtype.name`."""
        return self.name

    @property
    def text(self) -> str:
        """The result of `str(dtype)`."""
        return self.name

    def equals(self, other: Value) -> bool:
        """Whether `==` holds: with another type, or a type by its name."""
        return bool(dtype_name(other, "") == self.name)

    @exposed.prop("itemsize")
    def get_itemsize(self, run: Run) -> Value:
        """Give the bytes of an item."""
        return ITEM_BYTES.get(self.name, 8)

    @exposed.prop("kind")
    def get_kind(self, run: Run) -> Value:
        """Give the letter of its kind."""
        return "b" if self.name == "bool" else self.name[0]

    @exposed.prop("type")
    def get_type(self, run: Run) -> Value:
        """Return the type that it represents."""
        return self

    def call(self, interp: Interpreter, value: Value = 0) -> Value:
        """Convert a scalar or an array."""
        if isinstance(value, Array):
            return Array(value.shape, self.name, value.data)
        if isinstance(value, (list, tuple)):
            return make(interp.run, value, self.name)
        number = value if isinstance(value, (int, float)) else None
        return Array((), self.name, number)


def dtype_name(value: Value, default: str) -> str:
    """Return a type's name from whatever a script passes as `dtype`."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, str):
        return ALIASES.get(value, value)
    if isinstance(value, (NativeClass, NativeFunction)):
        return {"float": "float64", "int": "int64", "bool": "bool"}.get(value.name, default)
    return default


def of_objects(dtype: Value) -> bool:
    """Whether a type says that an array holds objects of any kind."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", "")
    return name in ("object", "object_", "O")


def promote(left: str, right: str) -> str:
    """Return the type of an operation on two arrays, as NumPy promotes them."""
    if left == right:
        return left
    if left in _FLOAT_WIDTH and right in _FLOAT_WIDTH:
        return max(left, right, key=_FLOAT_WIDTH.__getitem__)
    for first, other in ((left, right), (right, left)):
        if first in _FLOAT_WIDTH and other in _WIDTH:
            # A float holds integers of at most half its width.
            wide = {0: "float16", 1: "float16", 2: "float32"}.get(_WIDTH[other], "float64")
            return max(first, wide, key=_FLOAT_WIDTH.__getitem__)
    if left in _WIDTH and right in _WIDTH:
        if {left, right} == {"uint8", "int8"}:
            return "int16"
        return max(left, right, key=_WIDTH.__getitem__)
    return left if left.startswith("complex") else right


def with_scalar(dtype: str, scalar: Value) -> str:
    """Return the type of an array and a Python number; the array's type takes precedence."""
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, Double):
        return promote(dtype, "float64")
    if isinstance(scalar, float) and dtype in _WIDTH:
        return "float64"
    return "int64" if dtype == "bool" else dtype


def spread(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the broadcast shape; ShapeFault where there is none."""
    out: list[int] = []
    for extents in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        wide = [extent for extent in extents if extent != 1]
        exact = [extent for extent in wide if type(extent) is not Bound]
        if any(extent != exact[0] for extent in exact):
            words = " and ".join(str(list(shape)) for shape in shapes)
            raise ShapeFault(f"arrays of {words} do not broadcast", *shapes)
        out.append(exact[0] if exact else wide[0] if wide else 1)
    return tuple(reversed(out))


class Array(Native):
    """A NumPy array: shape, type, and the numbers where a script wrote a few out.

    `keeps` is memory of Paddle that it looks at: on the CPU `x.numpy()` is a copy made there.
    """

    label = "ndarray"

    def __init__(self, shape: tuple[int, ...] = (), dtype: str = "float64", data: Value = None,
                 keeps: Storage | None = None) -> None:  # fmt: skip
        super().__init__()
        self.shape, self.dtype, self.data, self.keeps = shape, dtype, data, keeps
        self.high: int | None = None
        """The largest number in it, a `Bound` where it may be smaller; None if not known."""
        self.base: Array | None = None
        """The array that this is a part of, where its numbers are known."""

    def viewed(self, shape: tuple[int, ...], data: Value = None) -> Array:
        """Return a view of another shape; a single element is a copy."""
        array = Array(shape, self.dtype, data, self.keeps if shape else None)
        if self.high is not None:
            array.high = Bound(self.high)
        if data is not None and shape:
            array.base = self
        return array

    def forget(self) -> None:
        """Forget the numbers: something else was written into it, or into a part of it."""
        self.data = None
        if self.base is not None:
            self.base.forget()

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def length(self) -> int | None:
        """Length of the first axis."""
        return self.shape[0] if self.shape else None

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the rows; of one that may be shorter, as many as there can be."""
        if self.shape and self.shape[0] >= OPEN:
            yield from lengths.walk(lengths.opened(row(self, 0), extent_of(self.shape[0])))
            return
        if self.shape and type(self.shape[0]) is Bound:
            interp.run.findings.flags.add("variable-shape")
        for place in range(self.shape[0] if self.shape else 0):
            interp.tick()
            yield row(self, place)


def row(array: Array, place: int) -> Value:
    """Return `array[place]`."""
    data = array.data[place] if isinstance(array.data, list) else None
    return array.viewed(array.shape[1:], data)


def extents(run: Run, shape: Value) -> tuple[int, ...] | Unknown:
    """Return a shape; an extent that is only bounded is the largest that it can be."""
    parts = [shape] if isinstance(shape, (int, Unknown, Array)) else list(lengths.walk(shape))
    if isinstance(shape, Array) and shape.shape:
        parts = list(shape.data) if isinstance(shape.data, list) else [shape]
    out: list[int] = []
    for part in parts:
        if isinstance(part, Array) and isinstance(part.data, int):
            part = part.data
        if isinstance(part, Length):
            out.append(Bound.of(part))
        elif isinstance(part, int) and not isinstance(part, bool):
            out.append(part)
        elif isinstance(part, float) and part.is_integer():
            out.append(int(part))
        elif isinstance(part, Unknown):
            return Unknown(part.file, part.line, part.reason, part.root)
        else:
            return run.unknown("a shape that comes out of data")
    return tuple(out)


def make(run: Run, value: Value, dtype: Value = None, *_: Value, **__: Value) -> Value:
    """Build an array from nested lists, numbers or arrays."""
    wanted = dtype_name(dtype, "")
    if isinstance(value, Unknown):
        if isinstance(value, SomeNumber):
            return Array((), wanted or ("int64" if isinstance(value, Length) else "float64"))
        return value
    if of_objects(dtype) and isinstance(value, (list, tuple)) and not _holds_numbers(value):
        return list(value)
    unsized = getattr(value, "unsized", None)
    picture = None if unsized is None else unsized(run, wanted)
    if picture is not None:
        return picture
    if isinstance(value, Native) and not hasattr(value, "pixels") and value.label != "ndarray":
        listed = getattr(value, "iterate", None)
        if listed is not None and getattr(value, "shape", None) is None:
            value = list(run.interp.iterate(value))
    shape, kind = shape_of(value)
    seen = getattr(value, "storage", None) if run.on_cpu else None
    keeps = None if seen is None else run.storage(seen.nbytes)
    return Array(shape, wanted or kind, known_data(value), keeps)


def _holds_numbers(items: Sequence[Value]) -> bool:
    """Whether items are no objects that are kept as they are, such as tensors."""
    objects = (item is None or (isinstance(item, Native) and not isinstance(item, Array))
               for item in items[:MAX_DATA])  # fmt: skip
    return not any(objects)


def known_data(value: Value) -> Value:
    """Return the numbers of a short list, or a number; None where they are not known."""
    if isinstance(value, Array):
        return value.data
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple, range)) and 0 < len(value) <= MAX_DATA:
        if all(isinstance(item, (int, float)) for item in value):
            return list(value)
        if all(isinstance(item, (list, tuple)) for item in value):
            rows = [known_data(item) for item in value]
            return rows if all(isinstance(row, list) for row in rows) else None
    return None


def shape_of(value: Value) -> tuple[tuple[int, ...], str]:
    """Return shape and type of what `np.array` would make; TypeError if unknown."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return shape, value.dtype
    if isinstance(value, bool):
        return (), "bool"
    if isinstance(value, (int, Length)):
        return (), "int64"
    if isinstance(value, float):
        return (), "float64"
    if isinstance(value, SomeNumber):
        return (), "int64"
    if isinstance(value, Unknown):
        raise TypeError("an item of an array that is not known")
    pixels = getattr(value, "pixels", None)
    if pixels is not None:
        return pixels(), "uint8"
    if isinstance(value, range):
        return (len(value),), "int64"
    if isinstance(value, str):
        return (), "str"
    if isinstance(value, (list, tuple)):
        return _listed(value)
    raise TypeError("not something that an array is made of")


def _listed(value: Sequence[Value]) -> tuple[tuple[int, ...], str]:
    if not value:
        return (0,), "float64"
    items = lengths.items_of(value) or [lengths.likeness(value[0])]
    inner, dtype = shape_of(items[0])
    for item in items[1:64]:
        other, kind = shape_of(item)
        if other != inner:
            raise TypeError("rows of different shapes")
        dtype = kind if kind in FLOATS and dtype not in FLOATS else dtype
        dtype = promote(dtype, kind) if isinstance(item, Array) else dtype
    return (_extent(lengths.length_of(value)), *inner), dtype


def _extent(length: Value) -> int:
    """Return the extent that a length makes: itself, or the largest that it can be."""
    if isinstance(length, int):
        return length
    if isinstance(length, Length):
        return Bound.of(length)
    raise TypeError("how long the longest sequence is")


def reshaped(array: Array, shape: Value) -> Array:
    """Reshape, inferring -1."""
    wanted = list(as_shape(shape))
    product = prod(extent for extent in wanted if extent != -1)
    size = array.size
    if -1 in wanted and product and size % product == 0:
        wanted[wanted.index(-1)] = size // product
    if prod(wanted) != size:
        raise ShapeFault(f"reshape of {list(array.shape)} to {wanted}", array.shape, tuple(wanted))
    return array.viewed(tuple(wanted))


def reduced(array: Array, axis: Value, keepdims: Value, dtype: str) -> Array:
    """Return what a reduction over one, several or all axes leaves."""
    if axis is None:
        return Array((1,) * len(array.shape) if keepdims is True else (), dtype)
    axes = {place % max(len(array.shape), 1) for place in as_shape(axis)}
    shape = [
        1 if place in axes else extent
        for place, extent in enumerate(array.shape)
        if keepdims is True or place not in axes
    ]
    return Array(tuple(shape), dtype)


def picked(run: Run, array: Array, key: Value) -> Value:
    """Return `array[key]`; a mask or an open slice picks at most as many as there are."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(each, bool) for each in keys):
        raise TypeError("a condition that picks all or nothing")
    if any(key is Ellipsis for key in keys):
        at = next(place for place, key_ in enumerate(keys) if key_ is Ellipsis)
        used = sum(_axes(key) for key in keys if key is not None and key is not Ellipsis)
        keys[at : at + 1] = [slice(None)] * (len(array.shape) - used)
    exact = isinstance(keys[0], int) and not isinstance(keys[0], (bool, Bound)) if keys else False
    written = isinstance(array.data, list) and len(keys) == 1 and exact
    if written and -len(array.data) <= keys[0] < len(array.data):
        return row(array, keys[0] % len(array.data))
    if isinstance(array.data, list) and len(keys) == 1 and _is_plain_slice(keys[0]):
        part = array.data[keys[0]]
        return array.viewed((len(part), *array.shape[1:]), part)
    out: list[int] = []
    taken: list[tuple[int, ...]] = []
    axis, place = 0, None
    for key_ in keys:
        if key_ is None:
            out.append(1)
            continue
        if axis + _axes(key_) > len(array.shape):
            raise ShapeFault(
                msg("too many indices for {shape}", shape=list(array.shape)), array.shape
            )
        extent = array.shape[axis]
        if isinstance(key_, slice):
            out.append(sliced(key_, extent))
        elif isinstance(key_, (int, SomeNumber)):
            if type(key_) is int and type(extent) is int and not -extent <= key_ < extent:
                raise ShapeFault(f"index {key_} on an axis of {extent}", array.shape)
        else:
            place = len(out) if place is None else place
            taken.append(_index(key_, extent))
        axis += _axes(key_)
    if place is None:
        return array.viewed((*out, *array.shape[axis:]))
    out[place:place] = spread(*taken)
    result = Array((*out, *array.shape[axis:]), array.dtype)
    result.high = None if array.high is None else Bound(array.high)
    return result


def _is_plain_slice(key: Value) -> bool:
    ends = (key.start, key.stop, key.step) if isinstance(key, slice) else (key,)
    exact = (end is None or (isinstance(end, int) and type(end) is not Bound) for end in ends)
    return isinstance(key, slice) and all(exact)


def _axes(key: Value) -> int:
    masks = isinstance(key, Array) and key.dtype == "bool"
    return len(key.shape) if masks and len(key.shape) else 1


def _index(key: Value, extent: int) -> tuple[int, ...]:
    shape, dtype = shape_of(key)
    if dtype == "bool":
        return (Bound(prod(shape)),)
    return shape


def binary(run: Run, left: Value, right: Value, *, divide: bool = False) -> Value:
    """Return the shape and type of an operator on arrays, lists and numbers."""
    shapes: list[tuple[int, ...]] = []
    dtype = ""
    scalars: list[Value] = []
    for side in (left, right):
        if isinstance(side, (int, float, Unknown)) and not isinstance(side, Array):
            if isinstance(side, Unknown) and not isinstance(side, SomeNumber):
                return side
            scalars.append(side)
            continue
        shape, kind = shape_of(side)
        shapes.append(shape)
        dtype = promote(dtype, kind) if dtype else kind
    for scalar in scalars:
        dtype = with_scalar(dtype, scalar)
    if divide and dtype in _WIDTH:
        dtype = "float64"
    return Array(spread(*shapes), dtype)
