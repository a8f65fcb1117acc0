"""Functions that change a tensor in place: `x.add_(y)`, `F.relu_(x)`.

Where the backward node needs what is overwritten, Paddle computes again and the old block stays
with the node; otherwise the tensor keeps its block.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops.table import rules
from gpuconsole.preflight.interpreter.paddle.source_functions import sourced
from gpuconsole.preflight.interpreter.paddle.tensor.creation import dtype_of
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, Tensor, broadcast

UNARY = (
    "relu", "tanh", "sigmoid", "exp", "sqrt", "rsqrt", "reciprocal", "floor", "ceil", "round",
    "scale", "clip", "abs", "sin", "cos", "log", "pow", "erf", "square", "leaky_relu", "elu",
    "softmax", "trunc", "tril", "triu", "cumsum", "tan", "acos", "atan", "sinh", "cosh", "expm1",
    "log2", "log10", "log1p", "digamma", "lgamma", "erfinv", "logit", "renorm", "i0", "cumprod",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "remainder", "lerp", "copysign")
PLACING = ("index_add", "index_fill", "index_put", "scatter", "scatter_nd_add")


def changed(name: str) -> Callable[..., Value]:
    """Return an operator that puts its result in the place of its first input."""

    def call(run: Run, x: Tensor, *args: Value, **_: Value) -> Tensor:
        other = next((arg for arg in args if isinstance(arg, Tensor)), None)
        row = name if name in BINARY and other is not None else _row(name)
        if other is not None and broadcast(x.shape, other.shape) != x.shape:
            raise ShapeFault(
                f"{name}_ of {list(x.shape)} with {list(other.shape)}", x.shape, other.shape
            )
        if "x" in rules()[row].save and x.needs_grad:
            result = ops.binary(run, row, x, other) if other is not None else ops.unary(run, row, x)
            return _put(x, result)
        return _within(run, row, x, other)

    return call


def _row(name: str) -> str:
    return "scale" if name in BINARY else name


def _put(x: Tensor, tensor: Tensor) -> Tensor:
    """Give a tensor the block and the history of another."""
    x.numbers = None
    x.storage, x.node, x.slot = tensor.storage, tensor.node, tensor.slot
    x.stop_gradient, x.strided = tensor.stop_gradient, tensor.strided
    return x


def _within(run: Run, row: str, x: Tensor, other: Tensor | None) -> Tensor:
    """Compute in the tensor's own block and hang a new node behind it."""
    before = _before(x)
    inputs = [before, other] if other is not None else [before]
    saved = [tensor.storage for word, tensor in (("out", x), ("y", other))
            if tensor is not None and word in rules()[row].save]  # fmt: skip
    run.tape.bytes += 2 * x.nbytes
    ops.attach(run, inputs, [x], saved, rules()[row].grad)
    return x


def filled(run: Run, x: Tensor, *_: Value, **__: Value) -> Tensor:
    """`x.zero_()`, `x.fill_(v)`, `x.normal_()`: the block stays."""
    x.numbers = None
    return x


def masked(run: Run, x: Tensor, mask: Tensor, value: Value = 0.0, *_: Value) -> Tensor:
    """`x.masked_fill_(mask, v)`: in place, the mask stays saved."""
    shape = broadcast(x.shape, mask.shape)
    if shape is None:
        raise ShapeFault(
            f"masked_fill_ of {list(x.shape)} by {list(mask.shape)}", x.shape, mask.shape
        )
    if shape != x.shape:
        raise TypeError("a tensor that grows in place")
    before = _before(x)
    ops.attach(run, [before], [x], [mask.storage, run.storage(x.size)], "inplace")
    return x


def placed(name: str) -> Callable[..., Value]:
    """Return `x.index_add_(…)` and the like: places are overwritten or added to in the block."""

    def call(run: Run, x: Tensor, *args: Value, **kwargs: Value) -> Tensor:
        given = [tensor for part in (*args, *kwargs.values())
                 for tensor in (part if isinstance(part, (list, tuple)) else [part])
                 if isinstance(tensor, Tensor)]  # fmt: skip
        places = [tensor.storage for tensor in given if tensor.dtype not in FLOATS]
        values = [tensor for tensor in given if tensor.dtype in FLOATS]
        ops.attach(run, [_before(x), *values], [x], places, rules()[name].grad)
        return x

    return call


def along(run: Run, x: Tensor, indices: Tensor, values: Value, axis: Value, *args: Value,
          **kwargs: Value) -> Tensor:  # fmt: skip
    """`x.put_along_axis_(…)`."""
    x.numbers = None
    if not run.mode.grad_enabled or not (x.needs_grad or _needing([values])):
        return x
    put = sourced("tensor", "put_along_axis")
    return _put(x, put(run, x, indices, values, axis, *args, **kwargs))


def cast(run: Run, x: Tensor, dtype: Value) -> Tensor:
    """`x.cast_(type)`: a new block where the type changes."""
    result = ops.cast(run, x, dtype_of(run, dtype, x.dtype))
    x.dtype = result.dtype
    return _put(x, result)


def _needing(values: Value) -> bool:
    return any(isinstance(value, Tensor) and value.needs_grad for value in values)


def _before(x: Tensor) -> Tensor:
    x.numbers = None
    before = Tensor(x.shape, x.dtype, x.storage)
    before.node, before.slot, before.stop_gradient = x.node, x.slot, x.stop_gradient
    return before


def reshaped(view: Callable[..., Value]) -> Callable[..., Value]:
    """Return `reshape_`, `squeeze_`, `unsqueeze_`, `flatten_`: another shape of the same block."""

    def call(run: Run, x: Tensor, *args: Value, **kwargs: Value) -> Tensor:
        result = view(run, x, *args, **kwargs)
        x.shape = result.shape
        return _put(x, result)

    return call


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{f"{name}_": changed(name) for name in (*UNARY, *BINARY)},
    **{f"{name}_": placed(name) for name in PLACING}, "neg_": changed("scale"),
    "masked_fill_": masked, "cast_": cast, "put_along_axis_": along,
    **dict.fromkeys(
        ("zero_", "fill_", "normal_", "uniform_", "exponential_", "bernoulli_", "copy_",
         "fill_diagonal_", "log_normal_", "cauchy_", "geometric_", "fill_diagonal_tensor_",
         "equal_", "nan_to_num_"), filled,
    ),
}  # fmt: skip
