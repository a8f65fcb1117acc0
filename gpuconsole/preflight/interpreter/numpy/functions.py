"""The functions of `numpy`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import int_bounds
from gpuconsole.preflight.interpreter.domain.numpy_scalars import Double
from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    Length,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Reshaped,
    SomeNumber,
    Unknown,
    Value,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.numpy import array_methods as methods
from gpuconsole.preflight.interpreter.numpy import (
    contents,
    files,
    indexing_sorting,
    joining,
    linalg_fft,
    ufuncs_grids,
)
from gpuconsole.preflight.interpreter.numpy.array import (
    Array,
    DType,
    binary,
    dtype_name,
    extents,
    make,
    of_objects,
    spread,
)
from gpuconsole.preflight.interpreter.numpy.random import RandomModule
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

Call = Callable[..., Value]
MAX_OBJECTS = 10_000
"""Objects of an array of objects, which is a list here."""
MAX_PLACES = 15
"""Decimals to which a number is rounded."""


def _filled(default: str, *, valued: bool = False) -> Call:
    """Return a maker of arrays of a shape; `valued` ones take what to fill them with first."""

    def build(run: Run, shape: Value, *args: Value, dtype: Value = None, **_: Value) -> Value:
        rest = args[1:] if valued else args
        wanted = dtype if dtype is not None else next(iter(rest), None)
        kind = default
        if valued and args:
            number = isinstance(args[0], (int, SomeNumber))
            kind = "int64" if number else getattr(args[0], "dtype", "float64")
            kind = "bool" if isinstance(args[0], bool) else kind
        sizes = extents(run, shape)
        if isinstance(sizes, Unknown):
            return sizes
        if of_objects(wanted):
            first = args[0] if valued and args else None
            several = len(sizes) != 1 or not 0 <= sizes[0] <= MAX_OBJECTS
            return run.unknown("an array of objects") if several else [first] * sizes[0]
        return Array(sizes, dtype_name(wanted, kind))

    return build


def _full(run: Run, shape: Value, fill_value: Value = 0.0, dtype: Value = None,
          **_: Value) -> Value:  # fmt: skip
    array = _filled("float64", valued=True)(run, shape, fill_value, dtype=dtype)
    if isinstance(array, Array) and array.size and array.dtype not in FLOATS:
        array.high = int_bounds.high_of(fill_value)
    return array


def _like(run: Run, value: Value, *args: Value, dtype: Value = None, **_: Value) -> Value:
    array = make(run, value)
    if isinstance(array, Unknown):
        return array
    return Array(array.shape, dtype_name(dtype, array.dtype))


def _full_like(run: Run, value: Value, fill: Value = 0, dtype: Value = None, **_: Value) -> Value:
    return _like(run, value, dtype=dtype)


def _arange(run: Run, *args: Value, dtype: Value = None, **_: Value) -> Value:
    plain_args = [arg.data if isinstance(arg, Array) and arg.data is not None else arg
                  for arg in args]  # fmt: skip
    if len(args) == 1 and isinstance(args[0], Length):
        return Array((Bound.of(args[0]),), dtype_name(dtype, "int64"))
    unknown = first_unknown(plain_args)
    if unknown is not None:
        return plain(unknown)
    if all(isinstance(plain_arg, int) for plain_arg in plain_args):
        numbers = range(*plain_args)
        data = list(numbers) if len(numbers) <= 64 else None
        array = Array((len(numbers),), dtype_name(dtype, "int64"), data)
        array.high = int_bounds.high_of(numbers)
        return array
    start, stop, step = (0.0, plain_args[0], 1.0) if len(args) == 1 else (*plain_args, 1.0)[:3]
    return Array((max(0, math.ceil((stop - start) / step)),), dtype_name(dtype, "float64"))


def _linspace(run: Run, start: Value, stop: Value, num: Value = 50, endpoint: Value = True,
              *_: Value, dtype: Value = None, **__: Value) -> Value:  # fmt: skip
    shape = extents(run, num)
    if isinstance(shape, Unknown):
        return shape
    data = None
    if type(num) is not bool and isinstance(num, int) and 1 < num <= 64:
        numbers = isinstance(start, (int, float)) and isinstance(stop, (int, float))
        steps = num - 1 if endpoint is not False else num
        data = [start + (stop - start) * i / steps for i in range(num)] if numbers else None
    return Array(shape, dtype_name(dtype, "float64"), data)


def _eye(run: Run, n: Value, m: Value = None, *_: Value, dtype: Value = None, **__: Value) -> Value:
    shape = extents(run, [n, n if m is None else m])
    return shape if isinstance(shape, Unknown) else Array(shape, dtype_name(dtype, "float64"))


_COMPUTED: dict[str, Call] = {
    "sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor, "log": math.log, "log2": math.log2,
    "log10": math.log10, "exp": math.exp, "abs": abs, "sin": math.sin, "cos": math.cos,
    "absolute": abs, "square": lambda x: x * x, "round": round, "log1p": math.log1p,
    "tanh": math.tanh, "rint": round,
}  # fmt: skip


def _elementwise(name: str, kind: Callable[[str], str]) -> Call:
    """Return a function of each item; of a plain number it is computed."""
    compute = _COMPUTED.get(name)

    def call(run: Run, value: Value, *_: Value, **__: Value) -> Value:
        if isinstance(value, Array) and value.data is not None and not value.shape:
            value = value.data
        if isinstance(value, (int, float)) and compute is not None:
            number = compute(value)
            return Double(number) if name not in ("abs", "absolute", "square") else number
        if isinstance(value, SomeNumber):
            return run.number("a number that reading cannot tell")
        if isinstance(value, Unknown):
            return value
        array = make(run, value)
        if isinstance(array, Unknown):
            return array
        return Array(
            array.shape, kind(array.dtype), contents.mapped(compute, array, kind(array.dtype))
        )

    return call


def _rounded(run: Run, value: Value, decimals: Value = 0, *_: Value, **__: Value) -> Value:
    """Round to whole numbers; to decimals only what no size comes from."""
    if decimals == 0:
        return _elementwise("round", methods.same)(run, value)
    if (
        isinstance(value, (int, float))
        and isinstance(decimals, int)
        and abs(decimals) <= MAX_PLACES
    ):
        # As NumPy does it: not always equal to Python's own rounding.
        scale = 10.0**decimals
        return Double(round(value * scale) / scale)
    return _elementwise("", methods.same)(run, value)


def _pairwise(kind: str = "", name: str = "") -> Call:
    compute = contents.PAIRWISE.get(name)

    def call(run: Run, left: Value, right: Value, *_: Value, **__: Value) -> Value:
        if compute is not None and all(isinstance(side, (int, float)) for side in (left, right)):
            data = contents.paired(compute, left, right, _kind_of(name, left, right))
            if data is not None:
                return data
        if not any(isinstance(side, (Array, list, tuple)) for side in (left, right)):
            unknown = first_unknown(left, right)
            return unknown or run.number("a number that reading cannot tell")
        result = binary(run, left, right, divide=kind == "divide")
        if isinstance(result, Array) and kind == "bool":
            return Array(result.shape, "bool")
        if isinstance(result, Array):
            result.data = contents.paired(compute, left, right, result.dtype)
        return result

    return call


def _kind_of(name: str, *numbers: Value) -> str:
    whole = name != "divide" and all(isinstance(number, int) for number in numbers)
    return "int64" if whole else "float64"


def _power(run: Run, left: Value, right: Value, **_: Value) -> Value:
    if isinstance(left, (int, float)) and isinstance(right, (int, float)) and abs(right) < 64:
        return left**right
    return _pairwise("", "power")(run, left, right)


def _method(call: Call) -> Call:
    """Return a method of arrays as a function."""

    def function(run: Run, value: Value, *args: Value, **kwargs: Value) -> Value:
        if isinstance(value, Unknown):
            return value
        array = make(run, value)
        return array if isinstance(array, Unknown) else call(run, array, *args, **kwargs)

    return function


def _reshape(run: Run, value: Value, *args: Value, **kwargs: Value) -> Value:
    """Reshape an array; unknown data have the shape that is wanted, where it says all extents."""
    if isinstance(value, Unknown):
        wanted = args[0] if args else kwargs.get("shape", kwargs.get("newshape"))
        shape = tuple(wanted) if isinstance(wanted, (list, tuple)) else (wanted,)
        if all(isinstance(extent, int) and extent >= 0 for extent in shape):
            return Reshaped(value.file, value.line, value.reason, value.root, shape)
    return _method(methods.METHODS["reshape"])(run, value, *args, **kwargs)


def _reduce(name: str) -> Call:
    call = _method(methods.reduction(name))

    def function(run: Run, value: Value, *args: Value, **kwargs: Value) -> Value:
        if isinstance(value, (int, float)) and name in ("prod", "sum", "max", "min", "mean"):
            return value
        result = call(run, value, *args, **kwargs)
        if isinstance(result, Array) and isinstance(result.data, (int, float)):
            return result.data
        return result

    return function


def _sorted(run: Run, value: Value, *_: Value, **__: Value) -> Value:
    if isinstance(value, Unknown):
        return value
    array = make(run, value)
    is_plain = isinstance(array.data, list) and all(isinstance(x, (int, float)) for x in array.data)
    return Array(array.shape, array.dtype, sorted(array.data) if is_plain else None)


def _where(run: Run, test: Value, *sides: Value) -> Value:
    if isinstance(test, Unknown):
        return plain(test)
    array = make(run, test)
    if not sides:
        return methods.found(run, array)
    chosen: Value = Array((), "float64" if any(isinstance(x, float) for x in sides) else "int64")
    if any(isinstance(side, (Array, list)) for side in sides):
        chosen = binary(run, sides[0], sides[1])
    if isinstance(chosen, Unknown):
        return chosen
    return Array(spread(array.shape, chosen.shape), chosen.dtype)


def _unique(run: Run, value: Value, *_: Value, return_inverse: Value = False,
            return_counts: Value = False, return_index: Value = False, axis: Value = None,
            **__: Value) -> Value:  # fmt: skip
    if isinstance(value, Unknown):
        return value
    array = make(run, value)
    if isinstance(array.data, list) and all(isinstance(x, (int, float)) for x in array.data):
        data = sorted(set(array.data))
        few = Array((len(data),), array.dtype, data)
        counts = contents.counts(array.data)
    else:
        few, counts = Array((Bound(array.size),), array.dtype), None
    more = [Array(few.shape, "int64")] if return_index is True else []
    more += [Array((array.size,), "int64")] if return_inverse is True else []
    more += [Array(few.shape, "int64", counts)] if return_counts is True else []
    return (few, *more) if more else few


def _clip(run: Run, value: Value, low: Value = None, high: Value = None, *_: Value,
          **__: Value) -> Value:  # fmt: skip
    plain_ends = all(end is None or isinstance(end, (int, float)) for end in (low, high))
    if isinstance(value, (int, float)) and plain_ends and not isinstance(value, bool):
        value = value if low is None else max(value, low)
        return value if high is None else min(value, high)
    if isinstance(value, (int, float, Unknown)):
        return value if isinstance(value, Unknown) else run.number("a clipped number")
    return methods.keep(run, make(run, value))


def _diff(run: Run, value: Array, n: int = 1, axis: int = -1, **_: Value) -> Value:
    shape = list(value.shape)
    shape[axis] = max(0, shape[axis] - n)
    return Array(tuple(shape), value.dtype)


def _diag(run: Run, value: Array, *_: Value) -> Value:
    if len(value.shape) == 1:
        return Array(value.shape * 2, value.dtype)
    return Array((min(value.shape),), value.dtype)


def _outer(run: Run, left: Value, right: Value) -> Value:
    first, other = make(run, left), make(run, right)
    return Array((first.size, other.size), binary(run, first, Array((), other.dtype)).dtype)


def _isscalar(run: Run, value: Value) -> Value:
    return isinstance(value, (int, float, str))


class Grid(Native):
    """`np.mgrid` and `np.ogrid`: grids by slices."""

    label = "mgrid"

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__()
        self.is_open = is_open

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give the grids, one per axis."""
        return ufuncs_grids.grid(key, is_open=self.is_open)


def _plain() -> dict[str, Call]:
    """Return the functions that have a model each."""
    return {
        "array": make, "asarray": make, "ascontiguousarray": make, "asanyarray": make,
        "copy": make, "zeros": _filled("float64"), "ones": _filled("float64"),
        "empty": _filled("float64"), "full": _full, "zeros_like": _like, "ones_like": _like,
        "empty_like": _like, "full_like": _full_like, "arange": _arange, "linspace": _linspace,
        "logspace": _linspace, "eye": _eye, "identity": _eye, "tri": _eye, "power": _power,
        "where": _where, "unique": _unique, "clip": _clip,
        "outer": _outer, "sort": _sorted, "isscalar": _isscalar, "diff": _method(_diff),
        "diag": _method(_diag), "take": _method(methods.taken), "load": files.load_array,
        "fromfile": files.load_raw,
        "loadtxt": files.load_text, "genfromtxt": files.load_text, "save": files.save_array,
        "savez": files.save_arrays, "savez_compressed": files.save_arrays,
        "matmul": _method(methods.times), "dot": _method(methods.times),
        "moveaxis": _method(methods.moved), "argwhere": _method(_argwhere),
    }  # fmt: skip


def _tables() -> dict[str, Call]:
    table = _plain()
    real, same = methods.real, methods.same
    for name in ("sin", "cos", "tan", "tanh", "exp", "log", "log2", "log10", "log1p", "expm1",
                 "sqrt", "arctan", "arcsin", "arccos", "sinh", "cosh", "deg2rad", "rad2deg",
                 "radians", "degrees", "cbrt", "sinc", "reciprocal", "nan_to_num",
                 "exp2", "angle", "arcsinh", "arctanh", "arccosh", "i0"):  # fmt: skip
        table[name] = _elementwise(name, real)
    for name in ("abs", "absolute", "round", "around", "square", "floor", "ceil", "sign", "rint",
                 "negative", "fabs", "trunc", "flip", "fliplr", "flipud", "roll", "triu", "tril",
                 "conj", "invert"):  # fmt: skip
        table[name] = _elementwise(name, same)
    for name in ("isnan", "isinf", "isfinite", "logical_not", "isin", "in1d"):
        table[name] = _elementwise(name, lambda dtype: "bool")
    for name in ("maximum", "minimum", "add", "subtract", "multiply", "mod", "fmod", "hypot",
                 "arctan2", "floor_divide", "fmax", "fmin", "bitwise_and",
                 "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "remainder", "gcd",
                 "lcm", "heaviside", "copysign", "logaddexp"):  # fmt: skip
        table[name] = _pairwise("", name)
    table["divide"] = table["true_divide"] = _pairwise("divide", "divide")
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
                 "logical_and", "logical_or", "logical_xor", "isclose"):  # fmt: skip
        table[name] = _pairwise("bool")
    table["round"] = table["around"] = _rounded
    table.update({name: _reduce(name) for name in methods.REDUCTIONS})
    # Names of NumPy before 2.0, which the NumPy of a job may still have.
    table["product"], table["round_"] = table["prod"], table["round"]
    table["reshape"] = _reshape
    for name in ("transpose", "squeeze", "ravel", "repeat", "swapaxes", "argsort",
                 "nonzero", "cumsum", "cumprod"):  # fmt: skip
        table[name] = _method(methods.METHODS[name])
    table["flatnonzero"] = _method(lambda run, x: Array((Bound(x.size),), "int64"))
    for name in ("real", "imag"):
        table[name] = _method(lambda run, x, give=methods.PROPERTIES[name]: give(x))
    table = {**table, **joining.FUNCTIONS, **linalg_fft.FUNCTIONS, **indexing_sorting.FUNCTIONS}
    for name in _KEEPING:
        table[name] = int_bounds.keeping(table[name])
    return table


_KEEPING = (
    "array", "asarray", "ascontiguousarray", "copy", "reshape", "ravel", "squeeze", "transpose",
    "repeat", "tile", "concatenate", "stack", "hstack", "vstack", "sort", "unique", "expand_dims",
    "flip", "roll", "broadcast_to",
)  # fmt: skip
"""Functions with a result that holds the numbers of their arguments."""


def _argwhere(run: Run, x: Array) -> Value:
    return Array((Bound(x.size), len(x.shape)), "int64")


def namespace() -> Namespace:
    """Return `numpy`."""
    names: dict[str, Value] = {"random": RandomModule(), "mgrid": Grid(),
                               "ogrid": Grid(is_open=True),
                               "newaxis": None, "pi": math.pi, "e": math.e, "inf": math.inf,
                               "Inf": math.inf, "nan": math.nan, "NaN": math.nan,
                               "ndarray": NativeClass(Array, "ndarray")}  # fmt: skip
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
                 "complex64", "complex128"):  # fmt: skip
        names[name] = DType(name)
    names.update(bool_=DType("bool"), int_=DType("int64"), float_=DType("float64"),
                 long=DType("int64"), double=DType("float64"), single=DType("float32"),
                 half=DType("float16"), uint16=DType("int16"), uint32=DType("int32"),
                 uint64=DType("int64"), intp=DType("int64"), longlong=DType("int64"))  # fmt: skip
    names.update(bool=DType("bool"), float=DType("float64"), int=DType("int64"))
    names.update({name: NativeFunction(call, f"np.{name}") for name, call in _tables().items()})
    names.update(linalg=linalg_fft.linalg(), fft=linalg_fft.fft(), r_=indexing_sorting.Joined(),
                 c_=indexing_sorting.Joined(columns=True))  # fmt: skip
    for name in ("iinfo", "finfo"):
        names[name] = NativeClass(indexing_sorting.Limits, f"np.{name}")
    tricks = Namespace("numpy.lib.stride_tricks", {
        name: NativeFunction(call, f"np.lib.stride_tricks.{name}")
        for name, call in (("sliding_window_view", joining.sliding_window_view),
                           ("broadcast_to", joining.broadcast_to))
    })  # fmt: skip
    names["lib"] = Namespace("numpy.lib", {"stride_tricks": tricks})
    for name in ("integer", "floating", "number", "generic", "inexact"):
        names[name] = NativeClass(Native, f"np.{name}")
    names["set_printoptions"] = NativeFunction(methods.nothing, "np.set_printoptions")
    return Namespace("numpy", names)
