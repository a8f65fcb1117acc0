"""Functions of `paddle` that make tensors."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain import int_bounds
from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    NativeFunction,
    SomeNumber,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array, DType, shape_of
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import (
    FLOATS,
    ITEM_BYTES,
    Tensor,
    as_shape,
)

MOST_TOLD = 64
"""Numbers of `linspace` that are computed."""


def dtype_of(run: Run, value: Value, default: str = "") -> str:
    """Return a tensor type's name from what a script passes."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, str):
        name = value.removeprefix("paddle.")
        return name if name in ITEM_BYTES else {"float": "float32", "int": "int32"}.get(name, name)
    if isinstance(value, NativeFunction):
        return {"float": "float32", "int": "int64", "bool": "bool"}.get(value.name, default)
    return default or run.mode.dtype


def to_tensor(run: Run, data: Value, dtype: Value = None, place: Value = None,
              stop_gradient: Value = True, **_: Value) -> Value:  # fmt: skip
    """`paddle.to_tensor`; of a tensor it makes a copy that no gradient leads through."""
    if isinstance(data, Tensor):
        copy = run.tensor(data.shape, data.dtype)
        copy.high, copy.numbers = data.high, data.numbers
        out = ops.cast(run, copy, dtype_of(run, dtype, data.dtype))
        out.stop_gradient = stop_gradient is not False
        return out
    if isinstance(data, Unknown):
        # Only of a number is the rank known.
        if isinstance(data, SomeNumber):
            return data if dtype is None else run.tensor((), dtype_of(run, dtype))
        return run.unsized_tensor(data)
    shape, found_dtype = shape_of(data)
    if not isinstance(data, Array) and found_dtype == "float64":
        found_dtype = run.mode.dtype
    out = run.tensor(shape, dtype_of(run, dtype, found_dtype))
    out.stop_gradient = stop_gradient is not False
    out.high = int_bounds.high_of(data) if out.dtype not in FLOATS else None
    return out


def filled(default: str = "") -> Callable[..., Value]:
    """Return a function that makes a tensor of a shape."""

    def build(run: Run, shape: Value, *args: Value, dtype: Value = None, **_: Value) -> Value:
        unknown = first_unknown(shape)
        if unknown is None and isinstance(shape, Tensor):
            unknown = run.unknown("a shape held by a tensor")
        if unknown is not None:
            return run.unsized_tensor(unknown)
        given = dtype if dtype is not None else next(
            (arg for arg in args if isinstance(arg, (str, DType))), None
        )  # fmt: skip
        return run.tensor(as_shape(shape), dtype_of(run, given, default))

    return build


def varargs(default: str = "") -> Callable[..., Value]:
    """Return a maker that takes its shape as one list or as several numbers."""
    build = filled(default)

    def call(run: Run, *shape: Value, **options: Value) -> Value:
        whole = shape[0] if shape and isinstance(shape[0], (list, tuple, Unknown)) else list(shape)
        rest = shape[1:] if shape and isinstance(shape[0], (list, tuple)) else ()
        return build(run, options.pop("shape", whole), *rest, **options)

    return call


def like(run: Run, x: Tensor, *args: Value, dtype: Value = None, **_: Value) -> Tensor:
    """`zeros_like`, `ones_like`, `full_like`."""
    if dtype is None:
        dtype = next((arg for arg in args if isinstance(arg, (str, DType))), None)
    return run.tensor(x.shape, dtype_of(run, dtype, x.dtype))


def randint(run: Run, low: Value = 0, high: Value = None, shape: Value = (1,), dtype: Value = None,
            name: Value = None) -> Value:  # fmt: skip
    """`paddle.randint`."""
    tensor = filled("int64")(run, shape, dtype=dtype)
    last = low if high is None else high
    if isinstance(tensor, Tensor) and isinstance(last, int):
        tensor.high = Bound(last - 1)
    return tensor


def normal(run: Run, mean: Value = 0.0, std: Value = 1.0, shape: Value = None, *_: Value) -> Value:
    """`paddle.normal`."""
    return filled()(run, shape if shape is not None else mean.shape)


def uniform(run: Run, shape: Value, dtype: Value = None, *_: Value, **__: Value) -> Value:
    """`paddle.uniform`."""
    return filled()(run, shape, dtype=dtype)


def arange(run: Run, start: Value = 0, end: Value = None, step: Value = 1, dtype: Value = None,
           name: Value = None) -> Value:  # fmt: skip
    """`paddle.arange`."""
    if end is None:
        start, end = 0, start
    unknown = first_unknown(start, end, step)
    if unknown is not None:
        return run.unsized_tensor(unknown)
    whole = all(isinstance(bound, int) for bound in (start, end, step))
    length = max(0, -int(-(end - start) // step))
    tensor = run.tensor((length,), dtype_of(run, dtype, "int64" if whole else run.mode.dtype))
    if whole and length and step > 0:
        tensor.high = int(start + (length - 1) * step)
    return tensor


def linspace(run: Run, start: Value, stop: Value, num: int, *_: Value, **__: Value) -> Value:
    """`paddle.linspace`: a few numbers, such as rates of layers, are known."""
    tensor = run.tensor((num,))
    if isinstance(start, (int, float)) and isinstance(stop, (int, float)) and 1 < num <= MOST_TOLD:
        tensor.numbers = tuple(
            _single(start + (stop - start) * place / (num - 1)) for place in range(num)
        )
    return tensor


def _single(number: float) -> float:
    """Return a number as `float32` holds it."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def logspace(run: Run, start: Value, stop: Value, num: int, *_: Value, **__: Value) -> Value:
    """`paddle.logspace`."""
    return run.tensor((num,))


def eye(run: Run, num_rows: int, num_columns: Value = None, dtype: Value = None,
        *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.eye`."""
    columns = num_columns if isinstance(num_columns, int) else num_rows
    return run.tensor((num_rows, columns), dtype_of(run, dtype))


def randperm(run: Run, n: int, dtype: Value = "int64", *_: Value) -> Value:
    """`paddle.randperm`."""
    return run.tensor((n,), dtype_of(run, dtype, "int64"))


def randint_like(run: Run, x: Tensor, low: Value = 0, high: Value = None, dtype: Value = None,
                 *_: Value) -> Value:  # fmt: skip
    """`paddle.randint_like`: whole numbers first, then cast."""
    whole = run.storage(8 * x.size, "workspace")
    out = run.tensor(x.shape, dtype_of(run, dtype, x.dtype))
    del whole
    return out


def multinomial(run: Run, x: Tensor, num_samples: int = 1, *_: Value, **__: Value) -> Value:
    """`paddle.multinomial`."""
    return run.tensor((*x.shape[:-1], num_samples), "int64")


def tril_indices(run: Run, row: int, col: Value = None, offset: int = 0, *_: Value,
                 **__: Value) -> Value:  # fmt: skip
    """`paddle.tril_indices`."""
    columns = col if isinstance(col, int) else row
    count = sum(min(columns, max(0, place + offset + 1)) for place in range(row))
    return run.tensor((2, count), "int64")


def triu_indices(run: Run, row: int, col: Value = None, offset: int = 0, *_: Value,
                 **__: Value) -> Value:  # fmt: skip
    """`paddle.triu_indices`."""
    columns = col if isinstance(col, int) else row
    count = sum(columns - min(columns, max(0, place + offset)) for place in range(row))
    return run.tensor((2, count), "int64")


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "to_tensor": to_tensor, "full": filled(), "randint": randint, "normal": normal,
    "uniform": uniform, "arange": arange, "range": arange, "linspace": linspace,
    "logspace": logspace, "eye": eye, "randperm": randperm, "randint_like": randint_like,
    "multinomial": multinomial, "tril_indices": tril_indices, "triu_indices": triu_indices,
    **{name: varargs() for name in ("zeros", "ones", "empty", "rand", "randn",
                                    "standard_normal")},
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
                     "empty_like", "bernoulli", "poisson"), like),
}  # fmt: skip
