"""Functions of `paddle` that join, cut and reshape tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

from gpuconsole.preflight.interpreter.domain.values import (
    ShapeFault,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor, as_shape, broadcast


def concat(run: Run, x: Value, axis: Value = 0, *_: Value, **__: Value) -> Value:
    """`paddle.concat`."""
    unknown = first_unknown(x)
    if unknown is not None:
        run.block(unknown)
        return unknown
    return ops.concat(run, list(x), axis)


def stack(run: Run, x: Value, axis: Value = 0, *_: Value) -> Value:
    """`paddle.stack`."""
    return ops.stack(run, list(x), axis)


def split(run: Run, x: Tensor, num_or_sections: Value, axis: Value = 0, *_: Value) -> Value:
    """`paddle.split`."""
    place = ops.check_axis(axis, len(x.shape))
    extent = x.shape[place]
    if isinstance(num_or_sections, int):
        if extent % num_or_sections:
            raise ShapeFault(f"split of {extent} into {num_or_sections} equal parts", x.shape)
        sections = [extent // num_or_sections] * num_or_sections
    else:
        sections = list(num_or_sections)
        if -1 in sections:
            sections[sections.index(-1)] = extent - sum(
                section for section in sections if section != -1
            )
        if not extent:
            raise TypeError("sections of an empty axis")
        if sum(sections) != extent:
            raise ShapeFault(f"split of {extent} into {sections}", x.shape)
    return ops.split(run, x, sections, place)


def unbind(run: Run, x: Tensor, axis: Value = 0, *_: Value) -> Value:
    """`paddle.unbind`: views, with gradients that are stacked at once."""
    place = ops.check_axis(axis, len(x.shape))
    shape = (*x.shape[:place], *x.shape[place + 1 :])
    parts = [Tensor(shape, x.dtype, x.storage) for _ in range(x.shape[place])]
    for part in parts:
        part.strided = x.strided or prod(x.shape[:place]) > 1
    ops.attach(run, (x,), parts, (), "fill")
    return parts


def unstack(run: Run, x: Tensor, axis: Value = 0, num: Value = None, *_: Value) -> Value:
    """`paddle.unstack`: copies."""
    place = ops.check_axis(axis, len(x.shape))
    shape = (*x.shape[:place], *x.shape[place + 1 :])
    copies = ops.contiguous(run, (x,))
    parts = [run.tensor(shape, x.dtype) for _ in range(x.shape[place])]
    del copies
    ops.attach(run, (x,), parts, (), "fill")
    return parts


def chunk(run: Run, x: Tensor, chunks: Value, axis: Value = 0, *_: Value, **__: Value) -> Value:
    """`paddle.chunk`."""
    return split(run, x, chunks, axis)


def tensor_split(run: Run, x: Tensor, num_or_indices: Value, axis: Value = 0, *_: Value) -> Value:
    """`paddle.tensor_split`: parts of nearly one length, or cut at places."""
    place = ops.check_axis(axis, len(x.shape))
    extent = x.shape[place]
    if isinstance(num_or_indices, int):
        base, more = divmod(extent, num_or_indices)
        sections = [base + 1] * more + [base] * (num_or_indices - more)
        return ops.split(run, x, sections, place)
    ends = [0, *num_or_indices, extent]
    return [cut(run, x, [place], [low], [high]) for low, high in pairwise(ends)]


def cut(run: Run, x: Tensor, axes: Value, starts: Value, ends: Value, strides: Value = None,
        *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.slice` and `strided_slice`: views."""
    shape = list(x.shape)
    strided = x.strided
    steps = strides if strides is not None else [1] * len(axes)
    for axis, low, high, step in zip(axes, starts, ends, steps, strict=True):
        place = ops.check_axis(axis, len(shape))
        if not all(isinstance(bound, int) for bound in (low, high, step)):
            raise TypeError("a slice of unknown ends")
        length = len(range(*slice(low, high, step).indices(x.shape[place])))
        whole = prod(shape[:place]) == 1
        strided = strided or (length != x.shape[place] and not whole) or step != 1
        shape[place] = length
    return ops.sliced(run, x, shape, strided=strided)


def reshape(run: Run, x: Tensor, *shape: Value, **options: Value) -> Value:
    """`paddle.reshape`."""
    wanted = options.get("shape", shape[0] if len(shape) == 1 else list(shape))
    unknown = first_unknown(wanted)
    if unknown is not None:
        return unknown
    return ops.reshape(run, x, as_shape(wanted))


def transpose(run: Run, x: Tensor, perm: Value = None, *more: Value, **options: Value) -> Value:
    """`paddle.transpose` and `permute`."""
    perm = options.get("dims", perm)
    order = [perm, *more] if isinstance(perm, int) else list(perm)
    return ops.transpose(run, x, order)


def turned(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.t` and `.T`."""
    return ops.transpose(run, x, list(range(len(x.shape)))[::-1])


def swapped(run: Run, x: Tensor, first: int, second: int, *_: Value) -> Value:
    """`paddle.swapaxes`."""
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return ops.transpose(run, x, order)


def flatten(run: Run, x: Tensor, start_axis: int = 0, stop_axis: int = -1, *_: Value) -> Value:
    """`paddle.flatten`."""
    return ops.flatten(run, x, start_axis, stop_axis)


def squeeze(run: Run, x: Tensor, axis: Value = None, *_: Value) -> Value:
    """`paddle.squeeze`."""
    rank = len(x.shape)
    named = () if axis is None else as_shape(axis)
    axes = {ops.check_axis(place, rank) for place in named} or set(range(rank))
    shape = [extent for place, extent in enumerate(x.shape) if place not in axes or extent != 1]
    return ops.view(run, x, shape, strided=x.strided)


def unsqueeze(run: Run, x: Tensor, axis: Value, *_: Value) -> Value:
    """`paddle.unsqueeze`."""
    shape = list(x.shape)
    for place in as_shape(axis):
        shape.insert(place if place >= 0 else len(shape) + 1 + place, 1)
    return ops.view(run, x, shape, strided=x.strided)


def expand(run: Run, x: Tensor, *shape: Value, **options: Value) -> Value:
    """`paddle.expand`: a copy in Paddle."""
    wanted = list(as_shape(options.get("shape", shape[0] if len(shape) == 1 else list(shape))))
    gap = len(wanted) - len(x.shape)
    if gap < 0:
        raise ShapeFault(f"expand of {list(x.shape)} to {wanted}", x.shape, tuple(wanted))
    for place, extent in enumerate(x.shape):
        if wanted[gap + place] == -1:
            wanted[gap + place] = extent
        elif not extent:
            raise TypeError("an empty axis that is expanded")
        elif extent not in (1, wanted[gap + place]):
            raise ShapeFault(f"expand of {list(x.shape)} to {wanted}", x.shape, tuple(wanted))
    return ops.apply(run, "expand", (x,), wanted)


def expand_as(run: Run, x: Tensor, y: Tensor, *_: Value) -> Value:
    """`paddle.expand_as`."""
    return expand(run, x, list(y.shape))


def tile(run: Run, x: Tensor, *times: Value, **options: Value) -> Value:
    """`paddle.tile`."""
    repeats = list(as_shape(options.get("repeat_times", times[0] if len(times) == 1 else times)))
    shape = [1] * (len(repeats) - len(x.shape)) + list(x.shape)
    repeats = [1] * (len(shape) - len(repeats)) + repeats
    return ops.apply(run, "tile", (x,), [a * b for a, b in zip(shape, repeats, strict=True)])


def contiguous(run: Run, x: Tensor, *_: Value) -> Value:
    """`x.contiguous()`: a copy of what is out of order, nothing otherwise."""
    if not x.strided:
        return x
    out = run.tensor(x.shape, x.dtype)
    ops.attach(run, (x,), [out], (), "new")
    return out


def matrix_turned(run: Run, x: Tensor, *_: Value) -> Value:
    """`x.mT`: the last two axes change places."""
    return swapped(run, x, -1, -2)


def moved(run: Run, x: Tensor, source: Value, destination: Value, *_: Value) -> Value:
    """`paddle.moveaxis`."""
    rank = len(x.shape)
    left = [ops.check_axis(place, rank) for place in as_shape(source)]
    right = [ops.check_axis(place, rank) for place in as_shape(destination)]
    order: list[int] = [axis for axis in range(rank) if axis not in left]
    for place, axis in sorted(zip(right, left, strict=True)):
        order.insert(place, axis)
    return ops.transpose(run, x, order)


def unflatten(run: Run, x: Tensor, axis: Value, shape: Value, *_: Value) -> Value:
    """`paddle.unflatten`."""
    place = ops.check_axis(axis, len(x.shape))
    parts = list(as_shape(shape))
    product = prod(part for part in parts if part != -1)
    if -1 in parts and product:
        parts[parts.index(-1)] = x.shape[place] // product
    if not x.size:
        raise TypeError("an axis of an empty tensor")
    return ops.reshape(run, x, [*x.shape[:place], *parts, *x.shape[place + 1 :]])


def at_least(rank: int) -> Callable[..., Value]:
    """Return `paddle.atleast_2d` and the like."""

    def call(run: Run, x: Tensor, *_: Value) -> Value:
        missing = rank - len(x.shape)
        if missing <= 0:
            return x
        shape = (1,) * missing + x.shape
        if rank == 3:
            shape = (1,) * (missing - 1) + x.shape + (1,)
        return ops.view(run, x, shape, strided=x.strided)

    return call


def repeat_interleave(run: Run, x: Tensor, repeats: Value, axis: Value = None,
                      *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.repeat_interleave`."""
    if not isinstance(repeats, int):
        raise TypeError("repeats that depend on data")
    if axis is None:
        x, axis = ops.flatten(run, x), 0
    place = ops.check_axis(axis, len(x.shape))
    shape = list(x.shape)
    shape[place] *= repeats
    return ops.apply(run, "repeat_interleave", (x,), shape)


def broadcast_tensors(run: Run, inputs: Value, *_: Value) -> Value:
    """`paddle.broadcast_tensors`: copies of all, in one node for each."""
    shape: tuple[int, ...] = ()
    for tensor in inputs:
        joined = broadcast(shape, tensor.shape)
        if joined is None:
            raise ShapeFault("shapes do not broadcast together", shape, tensor.shape)
        shape = joined
    return [ops.apply(run, "expand", (tensor,), shape) for tensor in inputs]


def meshgrid(run: Run, *inputs: Value, **_: Value) -> Value:
    """`paddle.meshgrid`."""
    parts = list(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else inputs
    shape = tuple(part.size for part in parts)
    outs = [run.tensor(shape, part.dtype) for part in parts]
    ops.attach(run, list(parts), outs, [part.storage for part in parts], "fill")
    return outs


def diag(run: Run, x: Tensor, offset: int = 0, *_: Value, **__: Value) -> Value:
    """`paddle.diag`: a matrix of a row, or the diagonal of a matrix."""
    if len(x.shape) == 1:
        side = x.shape[0] + abs(offset)
        return ops.apply(run, "diag", (x,), (side, side))
    rows, columns = x.shape
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    return ops.apply(run, "diag", (x,), (max(0, length),))


def diagonal(run: Run, x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1,
             *_: Value) -> Value:  # fmt: skip
    """`paddle.diagonal`: a strided view."""
    first, second = (ops.check_axis(axis, len(x.shape)) for axis in (axis1, axis2))
    rows, columns = x.shape[first], x.shape[second]
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    rest = [extent for place, extent in enumerate(x.shape) if place not in (first, second)]
    return ops.sliced(run, x, [*rest, max(0, length)], strided=True)


def diag_embed(run: Run, x: Tensor, offset: int = 0, *_: Value, **__: Value) -> Value:
    """`paddle.diag_embed`: written into zeros, no gradient reaches the input."""
    side = x.shape[-1] + abs(offset)
    return run.tensor((*x.shape[:-1], side, side), x.dtype)


def crop(run: Run, x: Tensor, shape: Value = None, *_: Value, **__: Value) -> Value:
    """`paddle.crop`."""
    wanted = [old if new == -1 else new for old, new in zip(x.shape, as_shape(shape), strict=True)]
    return ops.apply(run, "crop", (x,), wanted)


def as_strided(run: Run, x: Tensor, shape: Value, *_: Value, **__: Value) -> Value:
    """`paddle.as_strided`: a view."""
    return ops.sliced(run, x, as_shape(shape), strided=True)


def windows(run: Run, x: Tensor, axis: Value, size: Value, step: Value, *_: Value) -> Value:
    """`paddle.unfold`: overlapping windows along an axis, looked at in place."""
    place = ops.check_axis(axis, len(x.shape))
    if size > x.shape[place]:
        raise ShapeFault(f"windows of {size} out of {x.shape[place]}", x.shape)
    count = (x.shape[place] - size) // step + 1
    shape = [*x.shape[:place], count, *x.shape[place + 1 :], size]
    return ops.sliced(run, x, shape, strided=True)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "concat": concat, "cat": concat, "stack": stack, "split": split, "chunk": chunk,
    "tensor_split": tensor_split, "unbind": unbind, "unstack": unstack, "slice": cut,
    "strided_slice": cut, "reshape": reshape, "view": reshape, "transpose": transpose,
    "permute": transpose, "t": turned, "swapaxes": swapped, "swapdims": swapped,
    "moveaxis": moved, "movedim": moved, "flatten": flatten,
    "ravel": flatten, "squeeze": squeeze, "unsqueeze": unsqueeze, "expand": expand,
    "broadcast_to": expand, "expand_as": expand_as, "tile": tile, "unflatten": unflatten,
    "atleast_1d": at_least(1), "atleast_2d": at_least(2), "atleast_3d": at_least(3),
    "repeat_interleave": repeat_interleave, "broadcast_tensors": broadcast_tensors,
    "meshgrid": meshgrid, "diag": diag, "diagonal": diagonal, "diag_embed": diag_embed,
    "crop": crop, "as_strided": as_strided,
}  # fmt: skip
