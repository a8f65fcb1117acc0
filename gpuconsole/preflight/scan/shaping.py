"""Functions of `paddle` that join, cut and reshape tensors."""

from __future__ import annotations

from gpuconsole.preflight.scan import ops
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.tensors import (
    Tensor,
    as_shape,
)
from gpuconsole.preflight.scan.values import (
    ShapeFault,
    Value,
    first_unknown,
)


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
            sections[sections.index(-1)] = extent - sum(one for one in sections if one != -1)
        if sum(sections) != extent:
            raise ShapeFault(f"split of {extent} into {sections}", x.shape)
    return ops.split(run, x, sections, place)


def unbind(run: Run, x: Tensor, axis: Value = 0) -> Value:
    """`paddle.unbind`."""
    place = ops.check_axis(axis, len(x.shape))
    shape = [*x.shape[:place], *x.shape[place + 1 :]]
    return [ops.sliced(run, x, shape, strided=place > 0) for _ in range(x.shape[place])]


def reshape(run: Run, x: Tensor, *shape: Value, **options: Value) -> Value:
    """`paddle.reshape`."""
    wanted = options.get("shape", shape[0] if len(shape) == 1 else list(shape))
    unknown = first_unknown(wanted)
    if unknown is not None:
        return unknown
    return ops.reshape(run, x, as_shape(wanted))


def transpose(run: Run, x: Tensor, perm: Value = None, *more: Value, **_: Value) -> Value:
    """`paddle.transpose` and `permute`."""
    order = [perm, *more] if isinstance(perm, int) else list(perm)
    return ops.transpose(run, x, order)


def turned(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.t` and `.T`."""
    return ops.transpose(run, x, list(range(len(x.shape)))[::-1])


def swapped(run: Run, x: Tensor, first: int, second: int) -> Value:
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
    axes = set(range(rank)) if axis is None else {ops.check_axis(a, rank) for a in as_shape(axis)}
    shape = [one for place, one in enumerate(x.shape) if place not in axes or one != 1]
    return ops.view(run, x, shape, strided=x.strided)


def unsqueeze(run: Run, x: Tensor, axis: Value, *_: Value) -> Value:
    """`paddle.unsqueeze`."""
    shape = list(x.shape)
    for one in as_shape(axis):
        shape.insert(one if one >= 0 else len(shape) + 1 + one, 1)
    return ops.view(run, x, shape, strided=x.strided)


def expand(run: Run, x: Tensor, *shape: Value, **options: Value) -> Value:
    """`paddle.expand`: a copy in Paddle."""
    wanted = list(as_shape(options.get("shape", shape[0] if len(shape) == 1 else list(shape))))
    gap = len(wanted) - len(x.shape)
    for place, extent in enumerate(x.shape):
        if wanted[gap + place] == -1:
            wanted[gap + place] = extent
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
