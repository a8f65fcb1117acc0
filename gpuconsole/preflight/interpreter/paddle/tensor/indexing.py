"""Functions of `paddle` that pick, place and choose elements by indices or masks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, SomeNumber, Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array, shape_of
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.creation import dtype_of
from gpuconsole.preflight.interpreter.paddle.tensor.manipulation import expand
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, Tensor, broadcast


def as_index(index: Value) -> Tensor:
    """Return a tensor of whole numbers; ShapeFault for floats, TypeError for anything else."""
    tensor = _tensor(index)
    if tensor.dtype in FLOATS:
        raise ShapeFault(f"indices are whole numbers, {tensor.dtype} arrives", tensor.shape)
    return tensor


def where(run: Run, condition: Tensor, x: Value = None, y: Value = None, *_: Value) -> Value:
    """`paddle.where`: the condition stays saved; what is smaller is expanded first."""
    if x is None and y is None:
        return run.unknown("places that depend on data")
    like = next((side.dtype for side in (x, y) if isinstance(side, Tensor)), run.mode.dtype)
    sides = [_as_tensor(run, side, like) for side in (x, y)]
    shape = condition.shape
    for side in sides:
        joined = broadcast(shape, side.shape)
        if joined is None:
            raise ShapeFault(f"where of {list(shape)} and {list(side.shape)}", shape, side.shape)
        shape = joined
    wanted = list(shape)
    if condition.shape != shape:
        condition = expand(run, condition, wanted)
    first, second = (side if side.shape == shape else expand(run, side, wanted) for side in sides)
    del sides, x, y
    dtype = ops.promote(first, second)
    first, second = ops.cast(run, first, dtype), ops.cast(run, second, dtype)
    out = run.tensor(shape, dtype)
    run.tape.bytes += 3 * out.nbytes + condition.nbytes
    ops.attach(run, (first, second), [out], (condition.storage,), "new")
    return out


def _as_tensor(run: Run, value: Value, like: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Unknown) and not isinstance(value, SomeNumber):
        raise TypeError("a tensor that is not known")
    return run.tensor((), like)


def masked_fill(run: Run, x: Tensor, mask: Tensor, value: Value = 0.0, *_: Value) -> Value:
    """`paddle.masked_fill`: the mask stays saved, in a block of its own."""
    shape = broadcast(x.shape, mask.shape)
    if shape is None:
        raise ShapeFault(
            f"masked_fill of {list(x.shape)} by {list(mask.shape)}", x.shape, mask.shape
        )
    if mask.dtype != "bool":
        mask = ops.cast(run, mask, "bool")
    value = value if isinstance(value, Tensor) else run.tensor((), x.dtype)
    # The CPU kernel lays a smaller mask out in full.
    temp = prod(shape) if run.on_cpu and mask.shape != shape else 0
    return ops.apply(run, "masked_fill", (x, mask), shape, temp=temp)


def gather(run: Run, x: Tensor, index: Value, axis: Value = 0, *_: Value, **__: Value) -> Value:
    """`paddle.gather`: along other axes than the first, floats are places too."""
    place = ops.check_axis(0 if axis is None else axis, len(x.shape))
    index = as_index(index) if place == 0 else _tensor(index)
    shape = (*x.shape[:place], *_listed(index), *x.shape[place + 1 :])
    return ops.apply(run, "gather", (x, index), shape)


def _tensor(index: Value) -> Tensor:
    if isinstance(index, Tensor):
        return index
    raise TypeError("an index that is not a tensor")


def _listed(index: Tensor) -> tuple[int, ...]:
    """Return the shape of an index; a column of places is a row of them."""
    return index.shape[:1] if len(index.shape) == 2 and index.shape[1] == 1 else index.shape


def index_select(run: Run, x: Tensor, index: Value, axis: int = 0, *_: Value) -> Value:
    """`paddle.index_select`."""
    index = as_index(index)
    place = ops.check_axis(axis, len(x.shape))
    shape = (*x.shape[:place], *_listed(index), *x.shape[place + 1 :])
    return ops.apply(run, "index_select", (x, index), shape)


def gather_nd(run: Run, x: Tensor, index: Value, *_: Value) -> Value:
    """`paddle.gather_nd`."""
    index = as_index(index)
    depth = index.shape[-1] if index.shape else 0
    if depth > len(x.shape):
        raise ShapeFault(
            f"gather_nd of {list(x.shape)} by indices of {depth} axes", x.shape, index.shape
        )
    return ops.apply(run, "gather_nd", (x, index), (*index.shape[:-1], *x.shape[depth:]))


def index_sample(run: Run, x: Tensor, index: Value) -> Value:
    """`paddle.index_sample`: some columns of each row."""
    index = as_index(index)
    if len(x.shape) != 2 or len(index.shape) != 2 or x.shape[0] != index.shape[0]:
        raise ShapeFault(
            f"index_sample of {list(x.shape)} by {list(index.shape)}", x.shape, index.shape
        )
    return ops.apply(run, "index_sample", (x, index), index.shape)


def take_kernel(run: Run, x: Tensor, index: Value) -> Value:
    """Pick along an axis, shapes made equal before."""
    return ops.apply(run, "take_along_axis", (x, _tensor(index)), index.shape)


def put(row: str) -> Callable[..., Value]:
    """Return what places along an axis, shapes made equal before; `row` says how."""

    def call(run: Run, x: Tensor, values: Tensor, index: Value) -> Value:
        return ops.apply(run, row, (x, values, as_index(index)), x.shape)

    return call


def scattered(name: str) -> Callable[..., Value]:
    """Return `paddle.scatter` and `scatter_nd_add`: rows placed into a copy."""

    def call(run: Run, x: Tensor, index: Value, updates: Tensor, *_: Value,
             **__: Value) -> Value:  # fmt: skip
        index = as_index(index)
        rows, places = updates.shape[:1], index.shape[:1]
        if name == "scatter" and places and (not rows or rows[0] < places[0]):
            raise ShapeFault(
                f"scatter of {list(updates.shape)} to {list(index.shape)} places",
                updates.shape, index.shape,
            )  # fmt: skip
        return ops.apply(run, name, (x, updates, index), x.shape)

    return call


def scatter_nd(run: Run, index: Value, updates: Tensor, shape: Value, *_: Value) -> Value:
    """`paddle.scatter_nd`: into zeros."""
    zeros = run.tensor(tuple(shape), updates.dtype)
    return scattered("scatter_nd_add")(run, zeros, index, updates)


def index_add(run: Run, x: Tensor, index: Value, axis: int, value: Tensor, *_: Value) -> Value:
    """`paddle.index_add`."""
    ops.check_axis(axis, len(x.shape))
    return ops.apply(run, "index_add", (x, value, as_index(index)), x.shape)


def index_fill(run: Run, x: Tensor, index: Value, axis: int, value: Value, *_: Value) -> Value:
    """`paddle.index_fill`."""
    ops.check_axis(axis, len(x.shape))
    as_index(index)
    return ops.apply(run, "index_fill", (x,), x.shape)


def index_put(run: Run, x: Tensor, indices: Value, value: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.index_put`."""
    picked = [as_index(index) if index.dtype != "bool" else index for index in indices]
    return ops.apply(run, "index_put", (x, value, *picked[:1]), x.shape)


def one_hot(run: Run, x: Tensor, num_classes: int, name: Value = None) -> Tensor:
    """`F.one_hot`."""
    as_index(x)
    if not isinstance(num_classes, int) or num_classes < 1:
        raise TypeError("one_hot needs a known number of classes")
    return run.tensor((*x.shape, num_classes), "float32")


def searchsorted(run: Run, sorted_sequence: Tensor, values: Tensor, out_int32: Value = False,
                 *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.searchsorted`."""
    return run.tensor(values.shape, "int32" if out_int32 is True else "int64")


def bucketize(run: Run, x: Tensor, sorted_sequence: Value, out_int32: Value = False, *_: Value,
              **__: Value) -> Value:  # fmt: skip
    """`paddle.bucketize`."""
    return run.tensor(x.shape, "int32" if out_int32 is True else "int64")


def sequence_mask(run: Run, x: Tensor, maxlen: Value = None, dtype: Value = "int64",
                  *_: Value) -> Value:  # fmt: skip
    """`F.sequence_mask`: without `maxlen` as wide as the longest, which is data."""
    if not isinstance(maxlen, int):
        return run.unknown("the longest sequence of sequence_mask")
    return run.tensor((*x.shape, maxlen), dtype_of(run, dtype, "int64"))


def extents_of(part: Value) -> tuple[int, ...]:
    """Return the shape of an index, which may be a list, or lists in a list."""
    if isinstance(part, (Tensor, Array)):
        return part.shape
    nested = any(isinstance(item, (list, tuple)) for item in part)
    return shape_of(part)[0] if nested else (len(part),)


def cell(shape: tuple[int, ...], parts: list[Value]) -> tuple[list[int], int]:
    """Return the shape that several index tensors give together and the axes they take up."""
    extents: tuple[int, ...] = ()
    for part in parts:
        extent = extents_of(part)
        joined = broadcast(extents, extent)
        if joined is None:
            raise ShapeFault(
                f"indices of {list(extents)} and {list(extent)} do not go together", extents, extent
            )
        extents = joined
    return list(extents), len(parts)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "where": where, "masked_fill": masked_fill, "gather": gather, "gather_nd": gather_nd,
    "index_select": index_select, "index_sample": index_sample, "index_add": index_add,
    "index_fill": index_fill, "index_put": index_put, "take_kernel": take_kernel,
    "put_kernel": put("put_along_axis"), "put_reduced": put("put_added"),
    "scatter": scattered("scatter"), "scatter_nd": scatter_nd,
    "scatter_nd_add": scattered("scatter_nd_add"), "searchsorted": searchsorted,
    "bucketize": bucketize,
}  # fmt: skip
