"""Functions of `paddle` on tensors."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from gpuconsole.preflight.scan import ops
from gpuconsole.preflight.scan.creation import (
    arange,
    dtype_of,
    filled,
    like,
    linspace,
    normal,
    randint,
    to_tensor,
    uniform,
    varargs,
)
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.shaping import (
    concat,
    expand,
    expand_as,
    flatten,
    reshape,
    split,
    squeeze,
    stack,
    swapped,
    tile,
    transpose,
    turned,
    unbind,
    unsqueeze,
)
from gpuconsole.preflight.scan.tensors import (
    FLOATS,
    Tensor,
    broadcast,
)
from gpuconsole.preflight.scan.values import (
    ShapeFault,
    Value,
)


def binary(name: str) -> Callable[..., Value]:
    """Return an elementwise function of two."""

    def call(run: Run, x: Value, y: Value, *_: Value, **__: Value) -> Value:
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            return ops.binary(run, name, x, y)
        x = x if isinstance(x, Tensor) else y
        return ops.apply(run, "scale", (x,), x.shape, flops=x.size)

    return call


def unary(name: str) -> Callable[..., Value]:
    """Return an elementwise function of one."""

    def call(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
        return ops.unary(run, name, x)

    return call


def compare(run: Run, x: Tensor, y: Value = None, *_: Value, **__: Value) -> Value:
    """Elementwise comparison and logic."""
    shape = broadcast(x.shape, y.shape) if isinstance(y, Tensor) else x.shape
    if shape is None:
        raise ShapeFault("shapes do not broadcast together", x.shape, y.shape)
    return run.tensor(shape, "bool")


def reduction(name: str) -> Callable[..., Value]:
    """Return a reduction."""

    def call(run: Run, x: Tensor, axis: Value = None, *args: Value, keepdim: Value = False,
             dtype: Value = None, **_: Value) -> Value:  # fmt: skip
        if any(one is True for one in args):
            keepdim = True
        if x.dtype not in FLOATS and name == "mean":
            x = ops.cast(run, x, run.dtype)
        return ops.reduce(run, name, x, axis, keepdim is True)

    return call


def variance(run: Run, x: Tensor, axis: Value = None, unbiased: Value = True,
             keepdim: Value = False, *_: Value) -> Value:  # fmt: skip
    """`paddle.var` and `std`, built of a mean and a square as Paddle builds them."""
    mean = ops.reduce(run, "mean", x, axis, True)
    square = ops.unary(run, "square", ops.binary(run, "subtract", x, mean))
    return ops.unary(run, "scale", ops.reduce(run, "sum", square, axis, keepdim is True))


def index_reduction(run: Run, x: Tensor, axis: Value = None, keepdim: Value = False, *_: Value,
                    **__: Value) -> Value:  # fmt: skip
    """`argmax`, `argmin`, `all`, `any`: no gradient."""
    rank = len(x.shape)
    gone = set(range(rank)) if axis is None else {ops.check_axis(axis, rank)}
    shape = [one for place, one in enumerate(x.shape) if place not in gone]
    return run.tensor(tuple(shape), "int64")


def where(run: Run, condition: Tensor, x: Value = None, y: Value = None, *_: Value) -> Value:
    """`paddle.where`: the condition stays saved."""
    tensors = [one for one in (x, y) if isinstance(one, Tensor)]
    shape = condition.shape
    for one in tensors:
        joined = broadcast(shape, one.shape)
        if joined is None:
            raise ShapeFault("where of shapes that do not go together", shape, one.shape)
        shape = joined
    if condition.shape != shape:
        condition = run.tensor(shape, "bool")
    tensors = [one if one.shape == shape else expand(run, one, list(shape)) for one in tensors]
    out = run.tensor(shape, tensors[0].dtype if tensors else run.dtype)
    ops.attach(run, tensors, [out], (condition.storage,), "new")
    return out


def masked_fill(run: Run, x: Tensor, mask: Tensor, value: Value, *_: Value) -> Value:
    """`paddle.masked_fill`."""
    return where(run, mask, x)


def gather(run: Run, x: Tensor, index: Tensor, axis: Value = 0, *_: Value, **__: Value) -> Value:
    """`paddle.gather` and `index_select`."""
    place = ops.check_axis(axis, len(x.shape))
    shape = (*x.shape[:place], *index.shape, *x.shape[place + 1 :])
    return ops.apply(run, "gather", (x, index), shape)


def gather_nd(run: Run, x: Tensor, index: Tensor, *_: Value) -> Value:
    """`paddle.gather_nd`."""
    shape = (*index.shape[:-1], *x.shape[index.shape[-1] :])
    return ops.apply(run, "gather", (x, index), shape)


def take_along(run: Run, x: Tensor, indices: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.take_along_axis`."""
    return ops.apply(run, "gather", (x, indices), indices.shape)


def topk(run: Run, x: Tensor, k: int, axis: Value = -1, *_: Value, **__: Value) -> Value:
    """`paddle.topk`."""
    place = ops.check_axis(axis, len(x.shape))
    shape = (*x.shape[:place], k, *x.shape[place + 1 :])
    index = run.tensor(shape, "int64")
    return (ops.apply(run, "gather", (x, index), shape), index)


def cast(run: Run, x: Tensor, dtype: Value, *_: Value) -> Value:
    """`paddle.cast`."""
    return ops.cast(run, x, dtype_of(run, dtype, x.dtype))


def keep_shape(name: str) -> Callable[..., Value]:
    """Return a function whose output is shaped as its input and saves nothing."""

    def call(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
        return ops.apply(run, name, (x,), x.shape)

    return call


def accuracy(run: Run, input: Tensor, label: Tensor, k: int = 1, *_: Value, **__: Value) -> Value:
    """`paddle.metric.accuracy`."""
    with_top = topk(run, input, k)
    del with_top
    return run.tensor((), "float32")


def shape_value(run: Run, x: Tensor) -> Value:
    """`paddle.shape`: as numbers, for they decide later shapes."""
    return list(x.shape)


def matmul(run: Run, x: Tensor, y: Tensor, transpose_x: Value = False, transpose_y: Value = False,
           *_: Value) -> Value:  # fmt: skip
    """`paddle.matmul`."""
    return ops.matmul(run, x, y, transpose_x is True, transpose_y is True)


def einsum(run: Run, equation: str, *operands: Tensor) -> Value:
    """`paddle.einsum` of one or two operands."""
    left, _, right = equation.replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    for letters, one in zip(left.split(","), operands, strict=True):
        if len(letters) != len(one.shape):
            raise ShapeFault(f"einsum {equation}", *(x.shape for x in operands))
        for letter, extent in zip(letters, one.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise ShapeFault(
                    f"einsum {equation}: {letter} differs", *(x.shape for x in operands)
                )
    flops = 2.0 * prod(extents.values())
    pair = list(operands) if len(operands) > 1 else [operands[0], operands[0]]
    return ops.apply(run, "matmul", pair, [extents[one] for one in right], flops=flops)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "to_tensor": to_tensor,
    "zeros": varargs(),
    "ones": varargs(),
    "empty": varargs(),
    "full": filled(),
    "rand": varargs(),
    "randn": varargs(),
    "randint": randint,
    "normal": normal,
    "uniform": uniform,
    "standard_normal": varargs(),
    "arange": arange,
    "linspace": linspace,
    "zeros_like": like,
    "ones_like": like,
    "full_like": like,
    "rand_like": like,
    "randn_like": like,
    "empty_like": like,
    "eye": lambda run, n, *a, **k: run.tensor((n, n)),
    "randperm": lambda run, n, *a, **k: run.tensor((n,), "int64"),
    "bernoulli": like,
    "assign": keep_shape("assign"),
    "clone": keep_shape("assign"),
    "add": binary("add"),
    "subtract": binary("subtract"),
    "multiply": binary("multiply"),
    "divide": binary("divide"),
    "maximum": binary("maximum"),
    "minimum": binary("minimum"),
    "pow": lambda run, x, y, *a: ops.unary(run, "square" if y == 2 else "pow", x),
    "matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "dot": matmul,
    "einsum": einsum,
    "mean": reduction("mean"),
    "sum": reduction("sum"),
    "max": reduction("max"),
    "min": reduction("min"),
    "prod": reduction("prod"),
    "logsumexp": reduction("logsumexp"),
    "amax": reduction("max"),
    "amin": reduction("min"),
    "var": variance,
    "std": variance,
    "norm": lambda run, x, p=None, axis=None, keepdim=False, *a: ops.reduce(
        run, "norm", x, axis, keepdim is True
    ),
    "argmax": index_reduction,
    "argmin": index_reduction,
    "all": index_reduction,
    "any": index_reduction,
    "concat": concat,
    "cat": concat,
    "stack": stack,
    "split": split,
    "chunk": split,
    "unbind": unbind,
    "unstack": unbind,
    "reshape": reshape,
    "transpose": transpose,
    "permute": transpose,
    "t": turned,
    "swapaxes": swapped,
    "flatten": flatten,
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "expand": expand,
    "broadcast_to": expand,
    "expand_as": expand_as,
    "tile": tile,
    "where": where,
    "masked_fill": masked_fill,
    "gather": gather,
    "index_select": gather,
    "gather_nd": gather_nd,
    "take_along_axis": take_along,
    "topk": topk,
    "cast": cast,
    "shape": shape_value,
    "tril": keep_shape("tril"),
    "triu": keep_shape("tril"),
    "roll": keep_shape("roll"),
    "flip": keep_shape("flip"),
    "cumsum": keep_shape("cumsum"),
    "clip": unary("clip"),
    "scale": unary("scale"),
    "argsort": index_reduction,
    "sort": keep_shape("roll"),
    **{
        name: unary(name)
        for name in (
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "abs",
            "square",
            "sin",
            "cos",
            "erf",
            "tanh",
            "reciprocal",
        )
    },
    "neg": unary("scale"),
    "sigmoid": unary("sigmoid"),
    "log1p": unary("log"),
    **dict.fromkeys(
        (
            "equal",
            "not_equal",
            "greater_than",
            "less_than",
            "greater_equal",
            "less_equal",
            "logical_and",
            "logical_or",
            "logical_not",
            "isnan",
            "isinf",
        ),
        compare,
    ),
    "equal_all": lambda run, x, y: run.tensor((), "bool"),
    "outer": lambda run, x, y: matmul(
        run, ops.reshape(run, x, [-1, 1]), ops.reshape(run, y, [1, -1])
    ),
}
