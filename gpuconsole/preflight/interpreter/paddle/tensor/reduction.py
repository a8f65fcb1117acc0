"""Functions of `paddle` that reduce, rank or run along axes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod

from gpuconsole.preflight.interpreter.domain.values import Bound, ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor import linalg
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import (
    FLOATS,
    ITEM_BYTES,
    Tensor,
    broadcast,
)


def reduction(name: str) -> Callable[..., Value]:
    """Return a reduction with a gradient."""

    def call(run: Run, x: Tensor, axis: Value = None, *args: Value, keepdim: Value = False,
             dim: Value = None, **_: Value) -> Value:  # fmt: skip
        axis = dim if axis is None else axis
        if isinstance(axis, bool):
            axis, keepdim = None, axis
        if any(argument is True for argument in args):
            keepdim = True
        if x.dtype not in FLOATS:
            if name == "mean":
                x = ops.cast(run, x, run.mode.dtype)
            elif name in ("sum", "prod") and x.dtype in ("bool", "int32", "uint8", "int8"):
                x = ops.cast(run, x, "int64")
        return ops.reduce(run, name, x, axis, keepdim is True)

    return call


def index_reduction(dtype: str) -> Callable[..., Value]:
    """Return `argmax`, `all` and the like: no gradient."""

    def call(run: Run, x: Tensor, axis: Value = None, keepdim: Value = False, *_: Value,
             **__: Value) -> Value:  # fmt: skip
        if not x.shape and keepdim is True and dtype == "int64":
            raise TypeError("a kept axis of a tensor without axes")
        shape = ops.reduced_shape(x, axis, keepdim is True)
        return run.tensor(tuple(shape), dtype)

    return call


def ranked(name: str) -> Callable[..., Value]:
    """Return `topk` and `kthvalue`: values and their places."""

    def call(run: Run, x: Tensor, k: Value = 1, axis: Value = None, *args: Value,
             keepdim: Value = False, **_: Value) -> Value:  # fmt: skip
        if not x.shape and keepdim is True:
            raise TypeError("a kept axis of a tensor without axes")
        place = ops.check_axis(-1 if axis is None else axis, len(x.shape))
        extent = [k] if name == "topk" else ([1] if keepdim is True else [])
        if name == "topk" and isinstance(k, int) and k > x.shape[place]:
            raise ShapeFault(f"topk of {k} along an axis of {x.shape[place]}", x.shape)
        shape = (*x.shape[:place], *extent, *x.shape[place + 1 :])
        index = run.tensor(shape, "int64")
        turned = _turned(run, x, place, index, index.size * ITEM_BYTES[x.dtype])
        out = ops.apply(run, name, (x,), shape, temp=turned, work=turned, second=index)
        return (out, index)

    return call


def mode(run: Run, x: Tensor, axis: Value = -1, keepdim: Value = False, *_: Value) -> Value:
    """`paddle.mode`: the value that is there most often, and its place."""
    return ranked("mode")(run, x, 1, axis, keepdim=keepdim)


def _turned(run: Run, x: Tensor, place: int, index: Tensor, values: int) -> float:
    """Return the bytes of turned copies: CPU kernels rank along the last axis alone."""
    if not run.on_cpu or place == len(x.shape) - 1:
        return 0.0
    return float(x.nbytes + index.nbytes + values)


def sort(run: Run, x: Tensor, axis: Value = -1, *_: Value, **__: Value) -> Value:
    """`paddle.sort`: the places stay saved for the backward pass."""
    place = ops.check_axis(axis, len(x.shape))
    index = run.tensor(x.shape, "int64")
    turned = _turned(run, x, place, index, x.nbytes)
    out = ops.apply(run, "argsort_values", (x,), x.shape, temp=turned, work=turned, second=index)
    del index
    return out


def argsort(run: Run, x: Tensor, axis: Value = -1, *_: Value, **__: Value) -> Value:
    """`paddle.argsort`."""
    place = ops.check_axis(axis, len(x.shape))
    out = run.tensor(x.shape, "int64")
    run.scratch(x.nbytes + _turned(run, x, place, out, x.nbytes))
    return out


def running(name: str) -> Callable[..., Value]:
    """Return `cumsum` and the like; without an axis over all elements."""

    def call(run: Run, x: Tensor, axis: Value = None, *_: Value, dim: Value = None,
             **__: Value) -> Value:  # fmt: skip
        axis = dim if axis is None else axis
        if axis is None:
            x = ops.flatten(run, x)
        if name == "cummax":
            index = run.tensor(x.shape, "int64")
            return (ops.apply(run, name, (x,), x.shape, second=index), index)
        return ops.apply(run, name, (x,), x.shape, flops=x.size)

    return call


def norm(run: Run, x: Tensor, p: Value = None, axis: Value = None, keepdim: Value = False,
         *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.norm` of a vector or, over two axes, of a matrix."""
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        axis = axis[0]
    keepdims = keepdim is True
    if isinstance(axis, (list, tuple)):
        if p != "fro":
            return _matrix_norm(run, x, 2 if p is None else p, list(axis), keepdims)
        shape = ops.reduced_shape(x, list(axis), keepdims)
        return ops.apply(run, "frobenius_norm", (x,), shape, flops=2.0 * x.size)
    if axis is None:
        shape = ops.reduced_shape(x, None, keepdims)
        return ops.apply(run, "norm", (x,), shape, flops=2.0 * x.size)
    if not x.shape:
        raise TypeError("the norm of a number along an axis")
    place = ops.check_axis(axis, len(x.shape))
    shape = ops.reduced_shape(x, place, keepdims)
    return ops.apply(run, "norm", (x,), shape, flops=2.0 * x.size)


def _matrix_norm(run: Run, x: Tensor, p: Value, axes: list[Value], keepdims: bool) -> Value:
    """Norm over two axes: 2 (also the default) and -2 are of the singular values."""
    if len(axes) != 2 or p not in (1, -1, 2, -2, inf, -inf, "nuc"):
        raise TypeError(f"a norm of order {p} over the axes {axes}")
    first, second = (ops.check_axis(axis, len(x.shape)) for axis in axes)
    pick = "sum" if p == "nuc" else "max" if p > 0 else "min"
    if p in (1, -1, inf, -inf):
        if abs(p) == inf:
            first, second = second, first
        sums = norm(run, x, 1, first, keepdims)
        place = second - (0 if keepdims or first > second else 1)
        return ops.reduce(run, pick, sums, place, keepdims)
    others = [axis for axis in range(len(x.shape)) if axis not in (first, second)]
    values = linalg.singular(run, ops.transpose(run, x, [*others, first, second]))
    out = ops.reduce(run, pick, values, -1, False)
    return ops.reshape(run, out, ops.reduced_shape(x, [first, second], True)) if keepdims else out


def median(run: Run, x: Tensor, axis: Value = None, keepdim: Value = False, *_: Value,
           **__: Value) -> Value:  # fmt: skip
    """`paddle.median`: both middle places stay saved."""
    shape = ops.reduced_shape(x, axis, keepdim is True)
    index = run.tensor((*shape, 2), "int64")
    return ops.apply(run, "median", (x,), shape, second=index)


def counted(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.bincount`, `unique`, `nonzero`: how many there are depends on data."""
    return run.unknown("a tensor with a length that depends on data")


def masked_select(run: Run, x: Tensor, mask: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.masked_select`: at most all of the elements; the mask stays saved."""
    shape = broadcast(x.shape, mask.shape)
    if shape is None:
        raise ShapeFault(
            f"masked_select of {list(x.shape)} by {list(mask.shape)}", x.shape, mask.shape
        )
    run.doubted(run.unknown("a tensor with a length that depends on data"))
    return ops.apply(run, "masked_select", (x, mask), (Bound(prod(shape)),))


def bincount(run: Run, x: Tensor, weights: Value = None, minlength: Value = 0,
             name: Value = None) -> Value:  # fmt: skip
    """`paddle.bincount`: at least `minlength` long."""
    if isinstance(minlength, int) and minlength > 0:
        return run.tensor((minlength,), weights.dtype if weights is not None else "int64")
    return run.unknown("a count of values that depend on data")


def histogram(run: Run, x: Tensor, bins: Value = 100, *_: Value, **__: Value) -> Value:
    """`paddle.histogram`."""
    return run.tensor((bins,), "int64")


def numel(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.numel`: a tensor of one whole number."""
    return run.tensor((), "int64")


def trace(run: Run, x: Tensor, offset: Value = 0, axis1: int = 0, axis2: int = 1,
          *_: Value) -> Value:  # fmt: skip
    """`paddle.trace`."""
    gone = {ops.check_axis(axis, len(x.shape)) for axis in (axis1, axis2)}
    shape = [extent for place, extent in enumerate(x.shape) if place not in gone]
    return ops.apply(run, "trace", (x,), shape)


def dist(run: Run, x: Tensor, y: Tensor, *_: Value) -> Value:
    """`paddle.dist`."""
    return ops.apply(run, "dist", (x, y), ())


def equal_all(run: Run, x: Tensor, y: Tensor, *_: Value) -> Value:
    """`paddle.equal_all`."""
    run.scratch(x.size)
    return run.tensor((), "bool")


def accuracy(run: Run, input: Tensor, label: Tensor, k: int = 1, *_: Value, **__: Value) -> Value:
    """`paddle.metric.accuracy`."""
    with_top = ranked("topk")(run, input, k)
    del with_top
    return run.tensor((), "float32")


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{name: reduction(name) for name in ("mean", "sum", "max", "min", "amax", "amin", "prod",
                                          "logsumexp")},
    **dict.fromkeys(("argmax", "argmin"), index_reduction("int64")),
    **dict.fromkeys(("all", "any"), index_reduction("bool")),
    **{name: ranked(name) for name in ("topk", "kthvalue")}, "mode": mode,
    **{name: running(name) for name in ("cumsum", "cumprod", "logcumsumexp", "cummax")},
    "cummin": running("cummax"), "sort": sort, "argsort": argsort, "norm": norm, "dist": dist,
    "median": median, "bincount": bincount, "histogram": histogram, "numel": numel,
    "trace": trace, "equal_all": equal_all, "unique": counted, "nonzero": counted,
    "masked_select": masked_select, "unique_consecutive": counted,
}  # fmt: skip
