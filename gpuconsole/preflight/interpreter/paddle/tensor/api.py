"""Functions of `paddle` on tensors, gathered from the modules that model them."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    NativeFunction,
    ShapeFault,
    SomeNumber,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.source_functions import all_sourced
from gpuconsole.preflight.interpreter.paddle.tensor import (
    creation,
    decompositions,
    geometric,
    indexing,
    inplace,
    linalg,
    manipulation,
    reduction,
)
from gpuconsole.preflight.interpreter.paddle.tensor import operators as tensor_operators
from gpuconsole.preflight.interpreter.paddle.tensor.creation import dtype_of
from gpuconsole.preflight.interpreter.paddle.tensor.reduction import accuracy
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, Tensor, broadcast

__all__ = ["FUNCTIONS", "accuracy", "astype", "binary", "cast", "namespaces", "unary"]

_UNARY = (
    "acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfinv exp expm1 floor lgamma log "
    "log10 log1p log2 logit reciprocal round rsqrt sigmoid sign sin sinh sqrt square stanh tan "
    "tanh trunc i0 i0e i1 i1e polygamma renorm tril triu roll flip clip scale"
)
_BINARY = (
    "add subtract multiply divide maximum minimum fmax fmin atan2 remainder heaviside copysign"
)
_COMPARISONS = (
    "equal not_equal greater_than less_than greater_equal less_equal logical_and logical_or "
    "logical_xor isclose"
)


def _of_known(*sides: Value) -> None:
    """Refuse what may be a tensor of any shape; an unknown number is a number."""
    for side in sides:
        if isinstance(side, Unknown) and not isinstance(side, SomeNumber):
            raise TypeError("a tensor that is not known")


def binary(name: str) -> Callable[..., Value]:
    """Return an elementwise function of two."""

    def call(run: Run, x: Value, y: Value, *_: Value, **__: Value) -> Value:
        _of_known(x, y)
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            if name == "divide" and x.dtype not in FLOATS and y.dtype not in FLOATS:
                x, y = ops.cast(run, x, run.mode.dtype), ops.cast(run, y, run.mode.dtype)
            return ops.binary(run, name, x, y)
        tensor = x if isinstance(x, Tensor) else y
        if name in ("add", "subtract", "multiply", "divide"):
            return ops.apply(run, "scale", (tensor,), tensor.shape, flops=tensor.size)
        full = run.tensor((), tensor.dtype)
        return ops.binary(run, name, tensor, full)

    return call


def unary(name: str) -> Callable[..., Value]:
    """Return an elementwise function of one; whole numbers become floats first."""

    def call(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
        if x.dtype not in FLOATS and name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos"):
            x = ops.cast(run, x, run.mode.dtype)
        return ops.unary(run, name, x)

    return call


def power(run: Run, x: Tensor, y: Value, *_: Value) -> Value:
    """`paddle.pow`: by a number, or element by element."""
    _of_known(y)
    if isinstance(y, Tensor):
        return ops.binary(run, "elementwise_pow", x, y)
    return ops.unary(run, "pow", x)


def compare(run: Run, x: Value, y: Value = None, *_: Value, **__: Value) -> Value:
    """Elementwise comparison and logic."""
    _of_known(x, y)
    return tensor_operators.compare(run, x, y)


def judged(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.isnan` and the like."""
    return run.tensor(x.shape, "bool")


def floor_divide(run: Run, x: Tensor, y: Value, *_: Value) -> Value:
    """`paddle.floor_divide`: no gradient."""
    _of_known(y)
    other = y if isinstance(y, Tensor) else run.tensor(x.shape, x.dtype)
    return tensor_operators.plain(run, x, other, x.dtype)


def bitwise(run: Run, x: Tensor, y: Value = None, *_: Value) -> Value:
    """`paddle.bitwise_and` and the like."""
    _of_known(y)
    other = y if isinstance(y, Tensor) else x
    return tensor_operators.plain(run, x, other, x.dtype)


def lerp(run: Run, x: Tensor, y: Tensor, weight: Value, *_: Value) -> Value:
    """`paddle.lerp`."""
    return ops.binary(run, "lerp", x, y)


def cast(run: Run, x: Tensor, dtype: Value, *_: Value) -> Value:
    """`paddle.cast`: a copy even where the type stays; `x.astype` is free then."""
    out = run.tensor(x.shape, dtype_of(run, dtype, x.dtype))
    run.tape.bytes += x.nbytes + out.nbytes
    ops.attach(run, (x,), [out], (), "new")
    return out


def astype(run: Run, x: Tensor, dtype: Value, *_: Value) -> Value:
    """`x.astype`: nothing where the type stays."""
    return ops.cast(run, x, dtype_of(run, dtype, x.dtype))


def angle(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.angle`: saves its input."""
    return ops.apply(run, "erf", (x,), x.shape)


def keep_shape(name: str) -> Callable[..., Value]:
    """Return a function with an output of the shape of its input."""

    def call(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
        return ops.apply(run, name, (x,), x.shape)

    return call


def shape_value(run: Run, x: Tensor) -> Value:
    """`paddle.shape`: as numbers, for they decide later shapes."""
    return list(x.shape)


def imagined(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.as_complex`: pairs of numbers along the last axis."""
    if x.shape[-1:] != (2,):
        raise ShapeFault(f"as_complex of {list(x.shape)}: the last axis is not of 2", x.shape)
    return _seen_as(run, x, x.shape[:-1], linalg.complex_of(x))


def paired(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.as_real`: pairs of numbers along a new last axis."""
    return _seen_as(run, x, (*x.shape, 2), linalg.real_of(x))


def _seen_as(run: Run, x: Tensor, shape: tuple[int, ...], dtype: str) -> Tensor:
    out = Tensor(shape, dtype, x.storage)
    out.strided = x.strided
    ops.attach(run, (x,), [out], (), "view")
    return out


def same(run: Run, x: Value, *_: Value) -> Value:
    """Give back what is there."""
    return x


def _shape_of_both(run: Run, *shapes: Value) -> Value:
    """`paddle.broadcast_shape`."""
    whole: tuple[int, ...] = ()
    for shape in shapes:
        joined = broadcast(whole, tuple(shape))
        if joined is None:
            raise ShapeFault(f"shapes {list(whole)} and {list(shape)} do not broadcast together",
                             whole, tuple(shape))  # fmt: skip
        whole = joined
    return list(whole)


def _by_axis(call: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that takes `dim` for `axis`, as Paddle's functions do."""

    def named(run: Run, *args: Value, **kwargs: Value) -> Value:
        if "dim" in kwargs and "axis" not in kwargs:
            kwargs["axis"] = kwargs.pop("dim")
        return call(run, *args, **kwargs)

    return named


_BY_AXES = {**manipulation.FUNCTIONS, **reduction.FUNCTIONS, **indexing.FUNCTIONS}
_TABLE: dict[str, Callable[..., Value]] = {
    **all_sourced("tensor"), **creation.FUNCTIONS,
    **{name: _by_axis(call) for name, call in _BY_AXES.items()},
    **linalg.FUNCTIONS, **inplace.FUNCTIONS, **decompositions.FUNCTIONS,
    **{name: unary(name) for name in _UNARY.split()},
    **{name: binary(name) for name in _BINARY.split()},
    **dict.fromkeys(_COMPARISONS.split(), compare),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "logical_not"), judged),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"), bitwise),
    "assign": keep_shape("assign"), "clone": keep_shape("assign"), "cast": cast, "pow": power,
    "mod": binary("remainder"), "floor_mod": binary("remainder"), "floor_divide": floor_divide,
    "neg": unary("scale"), "deg2rad": unary("scale"), "rad2deg": unary("scale"),
    "sigmoid": unary("sigmoid"), "lerp": lerp, "angle": angle, "shape": shape_value,
    "allclose": lambda run, x, y, *a, **k: run.tensor((), "bool"),
    **dict.fromkeys(("isneginf", "isposinf", "isreal"), judged), "conj": keep_shape("conj"),
    **dict.fromkeys(("gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift"), bitwise),
    **dict.fromkeys(("binomial", "standard_gamma"), creation.like), "nextafter": floor_divide,
    "gammaincc": binary("gammaincc"), "gammainc": binary("gammaincc"),
    "as_complex": imagined, "as_real": paired, "positive": same,
    "broadcast_shape": _shape_of_both, "broadcast_shapes": _shape_of_both,
    "is_empty": lambda run, x: run.tensor((), "bool"),
    "rank": lambda run, x: run.tensor((), "int32"),
    "is_complex": lambda run, x: x.dtype.startswith("complex"),
    "is_floating_point": lambda run, x: x.dtype in FLOATS,
    "is_integer": lambda run, x: x.dtype.startswith(("int", "uint")),
}  # fmt: skip
_OTHER_NAMES = {
    "eq": "equal", "ne": "not_equal", "gt": "greater_than", "ge": "greater_equal",
    "lt": "less_than", "le": "less_equal", "less": "less_than", "greater": "greater_than",
    "mul": "multiply", "sub": "subtract", "div": "divide", "true_divide": "divide",
    "negative": "neg", "clamp": "clip", "concatenate": "concat", "bitwise_invert": "bitwise_not",
    "reverse": "flip", "argwhere": "nonzero", "gammaln": "lgamma", "asarray": "to_tensor",
    "as_tensor": "to_tensor", "from_numpy": "to_tensor", "view_as_complex": "as_complex",
    "view_as_real": "as_real", "mul_": "multiply_", "sub_": "subtract_", "div_": "divide_",
    "clamp_": "clip_", "mod_": "remainder_", "floor_mod_": "remainder_",
}  # fmt: skip
"""Names that mean the same as others."""
FUNCTIONS: dict[str, Callable[..., Value]] = {
    **_TABLE, **{name: _TABLE[other] for name, other in _OTHER_NAMES.items()},
}  # fmt: skip


def namespaces() -> dict[str, Namespace]:
    """Return the modules of `paddle` that hold nothing but functions on tensors."""
    linear = {
        **linalg.LINALG, **decompositions.FUNCTIONS, "vector_norm": FUNCTIONS["norm"],
        **{name: FUNCTIONS[name] for name in ("norm", "multi_dot", "cdist", "cov", "corrcoef",
                                              "vecdot", "matrix_transpose", "diagonal")},
    }  # fmt: skip
    tables: dict[str, dict[str, Callable[..., Value]]] = {
        "linalg": linear, "fft": linalg.FOURIER, "geometric": geometric.FUNCTIONS,
    }  # fmt: skip
    return {
        name: Namespace(
            f"paddle.{name}", {key: NativeFunction(call, key) for key, call in table.items()}
        )
        for name, table in tables.items()
    }
