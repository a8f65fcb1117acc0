"""NumPy as far as shapes go: arrays have a shape and a type, their contents are not kept."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from gpuconsole.preflight.scan import lengths
from gpuconsole.preflight.scan.tensors import FLOATS, as_shape, broadcast
from gpuconsole.preflight.scan.values import (
    Bound,
    Length,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    ShapeFault,
    Unknown,
    Value,
    first_unknown,
    plain,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.scan.run import Run


class DType(Native):
    """`np.float32` and the like: a type that is also a conversion."""

    label = "dtype"

    def __init__(self, name: str = "float32") -> None:
        super().__init__()
        self.name = name

    def call(self, calls: Any, value: Value = 0) -> Value:
        """Convert a scalar or an array."""
        if isinstance(value, Array):
            return Array(value.shape, self.name)
        if isinstance(value, (list, tuple)):
            return make(calls.run, value, self.name)
        return Array((), self.name)


def dtype_name(value: Value, default: str) -> str:
    """Return a type's name from whatever a script passes as `dtype`."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, str):
        return {"float": "float64", "int": "int64", "bool_": "bool"}.get(value, value)
    if isinstance(value, (NativeClass, NativeFunction)):
        return {"float": "float64", "int": "int64", "bool": "bool"}.get(value.name, default)
    return default


class Array(Native):
    """A NumPy array: shape and type."""

    label = "ndarray"

    def __init__(self, shape: tuple[int, ...] = (), dtype: str = "float64") -> None:
        super().__init__()
        self.shape = shape
        self.dtype = dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def length(self) -> int | None:
        """Length of the first axis."""
        return self.shape[0] if self.shape else None

    def get_shape(self, run: Run) -> Value:
        """Give `array.shape`."""
        return self.shape

    def get_size(self, run: Run) -> Value:
        """Give `array.size`."""
        return self.size

    def get_ndim(self, run: Run) -> Value:
        """Give `array.ndim`."""
        return len(self.shape)

    def get_dtype(self, run: Run) -> Value:
        """Give `array.dtype`."""
        return DType(self.dtype)

    def get_T(self, run: Run) -> Value:  # noqa: N802 - NumPy's name
        """Give the transpose."""
        return Array(self.shape[::-1], self.dtype)

    def do_astype(self, run: Run, dtype: Value, **_: Value) -> Value:
        """Convert."""
        return Array(self.shape, dtype_name(dtype, self.dtype))

    def do_reshape(self, run: Run, *shape: Value, **_: Value) -> Value:
        """Reshape, inferring -1."""
        wanted = list(as_shape(shape[0] if len(shape) == 1 else list(shape)))
        known = prod(one for one in wanted if one != -1)
        if -1 in wanted and known and self.size % known == 0:
            wanted[wanted.index(-1)] = self.size // known
        if prod(wanted) != self.size:
            raise ShapeFault(
                f"reshape of {list(self.shape)} to {wanted}", self.shape, tuple(wanted)
            )
        return Array(tuple(wanted), self.dtype)

    def do_transpose(self, run: Run, *order: Value) -> Value:
        """Permute the axes."""
        axes = order[0] if len(order) == 1 and isinstance(order[0], (list, tuple)) else order
        if not axes:
            return self.get_T(run)
        return Array(tuple(self.shape[one] for one in axes), self.dtype)

    def do_flatten(self, run: Run) -> Value:
        """Flatten."""
        return Array((self.size,), self.dtype)

    do_ravel = do_flatten

    def do_squeeze(self, run: Run, axis: Value = None) -> Value:
        """Drop axes of one."""
        return Array(tuple(one for one in self.shape if one != 1), self.dtype)

    def do_copy(self, run: Run) -> Value:
        """Copy."""
        return Array(self.shape, self.dtype)

    def do_tolist(self, run: Run) -> Value:
        """Turn into nested lists of numbers that reading cannot tell."""
        if not self.shape:
            return run.number("a number out of data")
        if self.shape[0] > 10_000:
            return run.unknown("a long list of numbers out of data")
        inner = Array(self.shape[1:], self.dtype)
        number = run.number("a number out of data that the script does not state")
        return [inner.do_tolist(run) if inner.shape else number for _ in range(self.shape[0])]

    def do_item(self, run: Run, *_: Value) -> Value:
        """Take one number."""
        return run.number("a number out of data that the script does not state")

    def _reduced(self, run: Run, axis: Value = None, keepdims: bool = False, **_: Value) -> Value:
        if axis is None:
            return Array((), self.dtype)
        axes = {one % max(len(self.shape), 1) for one in as_shape(axis)}
        shape = [
            1 if place in axes else one
            for place, one in enumerate(self.shape)
            if keepdims or place not in axes
        ]
        return Array(tuple(shape), self.dtype)

    do_sum = do_mean = do_max = do_min = do_std = do_var = do_prod = _reduced
    do_argmax = do_argmin = do_any = do_all = _reduced

    def iterate(self, calls: Any) -> Any:
        """Give the rows; of one that may be shorter, as many as there can be."""
        if self.shape and type(self.shape[0]) is Bound:
            calls.run.flags.add("variable-shape")
        for _ in range(self.shape[0] if self.shape else 0):
            calls.tick()
            yield Array(self.shape[1:], self.dtype)


def make(run: Run, value: Value, dtype: Value = None, **_: Value) -> Value:
    """Build an array from nested lists, numbers or arrays."""
    wanted = dtype_name(dtype, "")
    if isinstance(value, Unknown):
        # A number that nobody knows still makes a 0-d array when a type is asked for with it.
        return value
    shape, found = shape_of(value)
    return Array(shape, wanted or found)


def shape_of(value: Value) -> tuple[tuple[int, ...], str]:
    """Return shape and type of what `np.array` would make; TypeError when it cannot be told."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return shape, value.dtype
    if isinstance(value, bool):
        return (), "bool"
    if isinstance(value, int):
        return (), "int64"
    if isinstance(value, float):
        return (), "float64"
    if isinstance(value, Unknown):
        return (), "int64"
    pixels = getattr(value, "pixels", None)
    if pixels is not None:
        return pixels(), "uint8"
    if isinstance(value, (list, tuple)):
        if not value:
            return (0,), "float64"
        items = lengths.items_of(value) or [lengths.likeness(value[0])]
        inner, dtype = shape_of(items[0])
        for one in items[1:64]:
            other, kind = shape_of(one)
            if other != inner:
                raise TypeError("rows of different shapes")
            dtype = kind if kind in FLOATS else dtype
        return (_extent(lengths.length_of(value)), *inner), dtype
    raise TypeError("not something that an array is made of")


def _extent(length: Value) -> int:
    """Return the extent that a length makes: itself, or the largest that it can be."""
    if isinstance(length, int):
        return length
    if isinstance(length, Length) and length.high is not None:
        return Bound(length.high)
    raise TypeError("how long the longest sequence is")


def _filled(default: str) -> Callable[..., Value]:
    def build(run: Run, shape: Value, *args: Value, dtype: Value = None, **_: Value) -> Value:
        unknown = first_unknown(shape)
        if unknown is not None:
            return plain(unknown)
        positional = args[0] if args and isinstance(args[0], (str, DType, NativeFunction)) else None
        return Array(as_shape(shape), dtype_name(dtype or positional, default))

    return build


def _like(run: Run, value: Value, *args: Value, dtype: Value = None, **_: Value) -> Value:
    return Array(value.shape, dtype_name(dtype, value.dtype))


def _arange(run: Run, *args: Value, dtype: Value = None) -> Value:
    unknown = first_unknown(list(args))
    if unknown is not None:
        return plain(unknown)
    if all(isinstance(one, int) for one in args):
        return Array((len(range(*args)),), dtype_name(dtype, "int64"))
    start, stop, step = (0.0, args[0], 1.0) if len(args) == 1 else (*args, 1.0)[:3]
    return Array((max(0, -int(-(stop - start) // step)),), dtype_name(dtype, "float64"))


def _linspace(run: Run, start: Value, stop: Value, num: Value = 50, **_: Value) -> Value:
    return Array(as_shape(num), "float64")


def _same(run: Run, value: Value, *_: Value, **__: Value) -> Value:
    if isinstance(value, Array):
        return Array(value.shape, value.dtype if value.dtype in FLOATS else "float64")
    return run.number("a number that reading cannot tell")


def _pairwise(run: Run, left: Value, right: Value, *_: Value, **__: Value) -> Value:
    (one, kind), (other, _kind) = shape_of(left), shape_of(right)
    shape = broadcast(one, other)
    if shape is None:
        raise ShapeFault("arrays do not broadcast", one, other)
    return Array(shape, kind)


def _join(run: Run, parts: Value, axis: Value = 0, **_: Value) -> Value:
    shapes = [shape_of(one) for one in parts]
    shape = list(shapes[0][0])
    shape[axis] = sum(one[0][axis] for one in shapes)
    return Array(tuple(shape), shapes[0][1])


def _stack(run: Run, parts: Value, axis: Value = 0, **_: Value) -> Value:
    if isinstance(parts, Unknown):
        return parts
    unknown = first_unknown(*parts)
    if unknown is not None:
        return plain(unknown)
    inner, dtype = shape_of(parts[0])
    place = axis % (len(inner) + 1)
    return Array((*inner[:place], len(parts), *inner[place:]), dtype)


def _expand(run: Run, value: Value, axis: Value) -> Value:
    place = axis % (len(value.shape) + 1)
    return Array((*value.shape[:place], 1, *value.shape[place:]), value.dtype)


def _method(name: str) -> Callable[..., Value]:
    def call(run: Run, value: Value, *args: Value, **kwargs: Value) -> Value:
        if isinstance(value, Unknown):
            return value
        array = value if isinstance(value, Array) else make(run, value)
        return getattr(array, "do_" + name)(run, *args, **kwargs)

    return call


def _grid(run: Run, *args: Value, **_: Value) -> Value:
    shapes = tuple(shape_of(one)[0][0] for one in args)
    return [Array(shapes, "float64") for _ in args]


class MGrid(Native):
    """`np.mgrid`: open or dense grids by slices."""

    label = "mgrid"

    def item(self, calls: Any, key: Value) -> Value:
        """Give the grids, one per axis."""
        keys = key if isinstance(key, tuple) else (key,)
        sizes = tuple(len(range(one.start or 0, one.stop, one.step or 1)) for one in keys)
        return Array((len(sizes), *sizes), "int64")


class Random(Native):
    """`np.random.RandomState`, `default_rng`, and the module's own functions."""

    label = "RandomState"

    def do_rand(self, run: Run, *shape: Value) -> Value:
        """Draw floats of a shape given as arguments."""
        unknown = first_unknown(*shape)
        return plain(unknown) if unknown else Array(as_shape(list(shape)), "float64")

    do_randn = do_rand

    def do_random(self, run: Run, size: Value = None, dtype: Value = None, **_: Value) -> Value:
        """Draw floats."""
        return self._drawn(run, size, dtype_name(dtype, "float64"))

    do_random_sample = do_standard_normal = do_random

    def do_uniform(self, run: Run, low: Value = 0, high: Value = 1, size: Value = None) -> Value:
        """Draw floats between two bounds."""
        return self._drawn(run, size, "float64")

    do_normal = do_uniform

    def do_randint(self, run: Run, low: Value, high: Value = None, size: Value = None,
                   dtype: Value = None, **_: Value) -> Value:  # fmt: skip
        """Draw whole numbers."""
        return self._drawn(run, size, dtype_name(dtype, "int64"))

    do_integers = do_randint

    def do_choice(self, run: Run, a: Value, size: Value = None, *_: Value, **__: Value) -> Value:
        """Draw from a list."""
        return self._drawn(run, size, "int64")

    def do_permutation(self, run: Run, n: Value) -> Value:
        """Shuffle."""
        return Array((n,), "int64") if isinstance(n, int) else Array(n.shape, n.dtype)

    def do_binomial(self, run: Run, n: Value, p: Value, size: Value = None) -> Value:
        """Draw counts."""
        return self._drawn(run, size, "int64")

    def do_seed(self, run: Run, *_: Value) -> None:
        """Seed."""

    def do_shuffle(self, run: Run, *_: Value) -> None:
        """Shuffle in place."""

    def _drawn(self, run: Run, size: Value, dtype: str) -> Value:
        unknown = first_unknown(size)
        if unknown is not None:
            return plain(unknown)
        if size is None:
            return run.number("a number drawn at random")
        return Array(as_shape(size), dtype)


class RandomModule(Random):
    """`np.random`."""

    label = "np.random"

    def get_RandomState(self, run: Run) -> Value:  # noqa: N802 - NumPy's name
        """Give the class."""
        return NativeClass(Random, "RandomState")

    get_default_rng = get_RandomState


def namespace() -> Namespace:
    """Return `numpy`."""
    names: dict[str, Value] = {"random": RandomModule(), "mgrid": MGrid(), "newaxis": None,
                               "pi": 3.141592653589793, "inf": float("inf"),
                               "ndarray": NativeClass(Array, "ndarray")}  # fmt: skip
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"):
        names[name] = DType(name)
    names.update(bool_=DType("bool"), int_=DType("int64"), float_=DType("float64"))
    table: dict[str, Callable[..., Value]] = {
        "array": make, "asarray": make, "ascontiguousarray": make, "zeros": _filled("float64"),
        "ones": _filled("float64"), "empty": _filled("float64"), "full": _filled("float64"),
        "zeros_like": _like, "ones_like": _like, "empty_like": _like, "full_like": _like,
        "arange": _arange, "linspace": _linspace, "concatenate": _join, "stack": _stack,
        "expand_dims": _expand, "meshgrid": _grid, "maximum": _pairwise, "minimum": _pairwise,
        "power": _pairwise, "outer": lambda run, a, b: Array((a.size, b.size), "float64"),
        "eye": lambda run, n, *a, **k: Array((n, n), "float64"),
        "vstack": _join, "hstack": lambda run, p: _join(run, p, 1),
    }  # fmt: skip
    for name in ("sin", "cos", "tanh", "exp", "log", "sqrt", "abs", "clip", "round", "square",
                 "floor", "ceil", "sign"):  # fmt: skip
        table[name] = _same
    for name in ("reshape", "transpose", "squeeze", "sum", "mean", "max", "min", "std", "var",
                 "argmax", "argmin", "ravel", "prod"):  # fmt: skip
        table[name] = _method(name)
    names.update({name: NativeFunction(call, f"np.{name}") for name, call in table.items()})
    return Namespace("numpy", names)
