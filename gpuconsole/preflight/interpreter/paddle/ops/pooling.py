"""Pooling, resizing, padding and unfolding of pictures: `paddle.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops import kernels
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, Tensor, as_shape

_LAST = ("NLC", "NHWC", "NDHWC", "NWC")
_INTERPOLATE = {
    "nearest": "interpolate", "bilinear": "bilinear_interp", "bicubic": "bicubic_interp",
    "linear": "linear_interp", "trilinear": "trilinear_interp", "area": "adaptive_avg_pool",
}  # fmt: skip


def pooling(kind: str, rank: int) -> Callable[..., Value]:
    """Return `F.max_pool2d` and the like."""

    def call(run: Run, x: Tensor, kernel_size: Value, stride: Value = None, padding: Value = 0,
             *args: Value, ceil_mode: Value = False, return_mask: Value = False,
             data_format: Value = "", **_: Value) -> Value:  # fmt: skip
        flags = [argument for argument in args if isinstance(argument, bool)]
        if kind == "max":
            return_mask = flags[0] if flags else return_mask
            ceil_mode = flags[1] if len(flags) > 1 else ceil_mode
        elif flags and rank == 2:
            ceil_mode = flags[0]
        last = data_format in _LAST
        shape, cells = kernels.pooled(
            x, kernel_size, stride, padding, ceil_mode is True, rank, last=last
        )
        if return_mask is True:
            mask = run.tensor(tuple(shape), "int32")
            # The places are an output here; the row counts them as saved.
            out = kernels.pool(run, "max_pool_mask", x, shape, rank, second=mask, flops=cells)
            return (out, mask)
        name = f"{kind}_pool3d" if rank == 3 else f"{kind}_pool"
        return kernels.pool(run, name, x, shape, rank, flops=cells)

    return call


def lp_pool(run: Run, x: Tensor, norm_type: Value, kernel_size: Value, stride: Value = None,
            padding: Value = 0, ceil_mode: Value = False, *_: Value,
            **__: Value) -> Value:  # fmt: skip
    """`F.lp_pool2d`."""
    shape, cells = kernels.pooled(x, kernel_size, stride, padding, ceil_mode is True, 2)
    return ops.apply(run, "lp_pool", (x,), shape, flops=cells)


def max_unpool(rank: int) -> Callable[..., Value]:
    """Return `F.max_unpool2d` and the like."""

    def call(run: Run, x: Tensor, indices: Tensor, kernel_size: Value, stride: Value = None,
             padding: Value = 0, data_format: Value = "", output_size: Value = None,
             *_: Value) -> Value:  # fmt: skip
        if x.shape != indices.shape:
            raise ShapeFault(
                f"max_unpool of {list(x.shape)} with indices {list(indices.shape)}",
                x.shape, indices.shape,
            )  # fmt: skip
        sizes = kernels.spread(kernel_size, rank)
        steps = kernels.spread(kernel_size if stride is None else stride, rank)
        sides = kernels.spread(padding, rank)
        if output_size is not None:
            extents = list(as_shape(output_size))[-rank:]
        else:
            extents = [
                (old - 1) * step - 2 * side + size
                for old, step, side, size in zip(x.shape[2:], steps, sides, sizes, strict=True)
            ]
        return ops.apply(run, "max_unpool", (x, indices), (*x.shape[:2], *extents))

    return call


def adaptive(kind: str, rank: int) -> Callable[..., Value]:
    """Return `F.adaptive_avg_pool2d` and the like."""

    def call(run: Run, x: Tensor, output_size: Value, return_mask: Value = False, *_: Value,
             data_format: Value = "", **__: Value) -> Value:  # fmt: skip
        if data_format in _LAST or return_mask in _LAST:
            raise TypeError("an adaptive pooling with the channels last")
        out = kernels.adaptive_pool(run, f"{kind}_pool", x, output_size, rank)
        if return_mask is True:
            return (out, run.tensor(out.shape, "int32"))
        return out

    return call


def interpolate(run: Run, x: Tensor, size: Value = None, scale_factor: Value = None,
                mode: Value = "nearest", *_: Value, data_format: Value = "NCHW",
                **__: Value) -> Value:  # fmt: skip
    """`F.interpolate` and `F.upsample`."""
    name = _INTERPOLATE.get(mode if isinstance(mode, str) else "nearest", "interpolate")
    last = data_format in _LAST
    old = x.shape[1:-1] if last else x.shape[2:]
    if size is not None:
        given = list(size) if isinstance(size, (list, tuple)) else size
        extents = kernels.spread(given, len(old))
    else:
        factors = (
            list(scale_factor) if isinstance(scale_factor, (list, tuple))
            else [scale_factor] * len(old)
        )  # fmt: skip
        extents = [int(extent * factor) for extent, factor in zip(old, factors, strict=True)]
    head, tail = (x.shape[:1], x.shape[-1:]) if last else (x.shape[:2], ())
    shape = (*head, *extents, *tail)
    return ops.apply(run, name, (x,), shape, flops=4.0 * prod(shape))


def pad(run: Run, x: Tensor, pad: Value, mode: Value = "constant", value: Value = 0.0,
        data_format: Value = "", pad_from_left_axis: Value = True,
        name: Value = None) -> Value:  # fmt: skip
    """`F.pad`: pairs from the last axis forwards, or for all axes in order."""
    flat = list(as_shape(pad)) if not isinstance(pad, int) else [pad] * (2 * (len(x.shape) - 2))
    shape = list(x.shape)
    rank = len(shape)
    pairs = [sum(flat[place : place + 2]) for place in range(0, len(flat), 2)][:rank]
    if mode == "constant" and len(flat) == 2 * rank and pad_from_left_axis is not False:
        places = list(range(rank))
    elif data_format in _LAST and len(data_format) == rank and len(pairs) == rank - 2:
        places = [rank - 2 - place for place in range(len(pairs))]
    else:
        places = [rank - 1 - place for place in range(len(pairs))]
    for place, more in zip(places, pairs, strict=True):
        shape[place] += more
    plain = mode == "constant" and len(flat) != 2 * (rank - 2)
    return ops.apply(run, "pad" if plain else "pad3d", (x,), shape)


def unfold(run: Run, x: Tensor, kernel_sizes: Value, strides: Value = 1, paddings: Value = 0,
           dilations: Value = 1, name: Value = None) -> Value:  # fmt: skip
    """`F.unfold`."""
    kernel, stride = kernels.spread(kernel_sizes, 2), kernels.spread(strides, 2)
    apart = kernels.spread(dilations, 2)
    sides = kernels.paddings(paddings, 2, kernel, stride, apart, x.shape[2:])
    blocks = 1
    for size, k, s, d, (a, b) in zip(x.shape[2:], kernel, stride, apart, sides, strict=True):
        blocks *= (size + a + b - d * (k - 1) - 1) // s + 1
    return ops.apply(run, "unfold", (x,), (x.shape[0], x.shape[1] * prod(kernel), blocks))


def fold(run: Run, x: Tensor, output_sizes: Value, kernel_sizes: Value, *_: Value,
         **__: Value) -> Value:  # fmt: skip
    """`F.fold`."""
    kernel = kernels.spread(kernel_sizes, 2)
    if x.shape[1] % prod(kernel):
        raise ShapeFault(f"fold of {x.shape[1]} channels by a kernel of {kernel}", x.shape)
    extents = kernels.spread(output_sizes, 2)
    return ops.apply(run, "fold", (x,), (x.shape[0], x.shape[1] // prod(kernel), *extents))


def shuffled(name: str) -> Callable[..., Value]:
    """Return `F.pixel_shuffle`, `pixel_unshuffle` or `channel_shuffle`."""

    def call(run: Run, x: Tensor, factor: int, data_format: Value = "NCHW",
             *_: Value) -> Value:  # fmt: skip
        last = data_format == "NHWC"
        n, h, w, c = x.shape if last else (x.shape[0], *x.shape[2:], x.shape[1])
        if name == "pixel_shuffle":
            c, h, w, rest = c // factor**2, h * factor, w * factor, c % factor**2
        elif name == "pixel_unshuffle":
            c, h, w, rest = c * factor**2, h // factor, w // factor, (h % factor) + (w % factor)
        else:
            rest = c % factor
        if rest:
            raise ShapeFault(f"{name} of {list(x.shape)} by {factor}", x.shape)
        return ops.apply(run, name, (x,), (n, h, w, c) if last else (n, c, h, w))

    return call


def grid_sample(run: Run, x: Tensor, grid: Tensor, mode: Value = "bilinear", *_: Value,
                **__: Value) -> Value:  # fmt: skip
    """`F.grid_sample`."""
    rank = len(x.shape) - 2
    if len(grid.shape) != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ShapeFault(
            f"grid_sample of {list(x.shape)} by a grid of {list(grid.shape)}", x.shape, grid.shape
        )
    shape = (*x.shape[:2], *grid.shape[1:-1])
    bilinear = mode == "bilinear" and run.on_cpu
    # Weights and distances of the four corners for every point, in units of the grid.
    temp, work = (17.0, 19.0) if bilinear else (1.0 if run.on_cpu else 0.0, 0.0)
    return ops.apply(run, "grid_sample", (x, grid), shape, temp=temp * grid.nbytes,
                     work=work * grid.nbytes, flops=8.0 * prod(shape))  # fmt: skip


def affine_grid(run: Run, theta: Tensor, out_shape: Value, *_: Value, **__: Value) -> Value:
    """`F.affine_grid`."""
    extents = as_shape(out_shape)
    shape = (extents[0], *extents[2:], len(extents) - 2)
    item = ITEM_BYTES[theta.dtype]
    # The base grid of all samples, and what it is made of once.
    area = prod(extents[2:])
    base = ((len(extents) - 1) * extents[0] * area + 8 * area + sum(extents[2:])) * item
    base = base if run.on_cpu else 0
    return ops.apply(run, "affine_grid", (theta,), shape, temp=base, work=base)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{f"{kind}_pool{rank}d": pooling(kind, rank)
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"adaptive_{kind}_pool{rank}d": adaptive(kind, rank)
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{f"max_unpool{rank}d": max_unpool(rank) for rank in (1, 2, 3)},
    "lp_pool2d": lp_pool, "interpolate": interpolate, "upsample": interpolate, "pad": pad,
    "unfold": unfold, "fold": fold, "grid_sample": grid_sample, "affine_grid": affine_grid,
    "pixel_shuffle": shuffled("pixel_shuffle"), "pixel_unshuffle": shuffled("pixel_unshuffle"),
    "channel_shuffle": shuffled("channel_shuffle"),
}  # fmt: skip
