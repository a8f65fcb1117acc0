"""Operators with geometry or state of their own: convolution, pooling, norms, losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod, trunc

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, ITEM_BYTES, Tensor


def spread(value: Value, rank: int) -> list[int]:
    """Return `rank` whole numbers from one or from a list."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value] * rank
    if isinstance(value, (list, tuple)) and len(value) == rank:
        if all(isinstance(item, int) for item in value):
            return list(value)
    elif isinstance(value, (list, tuple)) and len(value) == 1:
        return spread(value[0], rank)
    raise TypeError(f"expected a whole number or {rank} of them")


def paddings(value: Value, rank: int, kernel: Sequence[int], stride: Sequence[int],
             dilation: Sequence[int], spatial: Sequence[int]) -> list[tuple[int, int]]:  # fmt: skip
    """Return (before, after) per axis from Paddle's ways to say it."""
    if isinstance(value, str):
        if value.upper() == "VALID":
            return [(0, 0)] * rank
        both = []
        for size, k, s, d in zip(spatial, kernel, stride, dilation, strict=True):
            total = max(0, (ceil(size / s) - 1) * s + d * (k - 1) + 1 - size)
            both.append((total // 2, total - total // 2))
        return both
    if isinstance(value, (list, tuple)) and len(value) == 2 * rank:
        flat = spread(value, 2 * rank)
        return [(flat[2 * place], flat[2 * place + 1]) for place in range(rank)]
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)):
        pairs = [tuple(spread(pair, 2)) for pair in value]
        return [(pair[0], pair[1]) for pair in pairs[-rank:]]
    return [(extent, extent) for extent in spread(value, rank)]


def conv(run: Run, x: Tensor, weight: Tensor, bias: Tensor | None, *, stride: Value = 1,
         padding: Value = 0, dilation: Value = 1, groups: int = 1,
         data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Convolve; `weight` is [out, in/groups, *kernel].

    The CPU back end unfolds one sample at a time into a buffer of in/groups x kernel x output.
    """
    rank = len(weight.shape) - 2
    last = data_format in ("NLC", "NHWC", "NDHWC")
    if len(x.shape) != rank + 2:
        raise ShapeFault(
            f"a {rank}-D convolution needs {rank + 2} dimensions, {len(x.shape)} arrive",
            x.shape,
            weight.shape,
        )
    channels = x.shape[-1] if last else x.shape[1]
    if channels != weight.shape[1] * groups:
        raise ShapeFault(
            f"convolution expects {weight.shape[1] * groups} input channels, {channels} arrive",
            x.shape,
            weight.shape,
        )
    x = _as_2d(run, x, rank)
    spatial = x.shape[1:-1] if last else x.shape[2:]
    kernel = weight.shape[2:]
    strides, dilations = spread(stride, rank), spread(dilation, rank)
    sides = paddings(padding, rank, kernel, strides, dilations, spatial)
    extents = [
        trunc((size + before + after - d * (k - 1) - 1) / s) + 1
        for size, k, s, d, (before, after) in zip(
            spatial, kernel, strides, dilations, sides, strict=True
        )
    ]
    if any(extent < 1 for extent in extents):
        raise ShapeFault(
            f"a {list(kernel)} kernel does not fit into {list(spatial)}", x.shape, weight.shape
        )
    out_shape = [x.shape[0], weight.shape[0], *extents]
    if last:
        out_shape = [x.shape[0], *extents, weight.shape[0]]
    unfold = weight.shape[1] * prod(kernel) * prod(extents) * ITEM_BYTES[x.dtype]
    if prod(kernel) == 1 and all(stride == 1 for stride in strides):
        unfold = 0
    flops = 2.0 * prod(out_shape) * weight.shape[1] * prod(kernel)
    out = _biased(run, row_of(x, weight), x, weight, bias, out_shape, unfold, flops, last)
    return _as_2d(run, out, rank)


def _as_2d(run: Run, x: Tensor, rank: int) -> Tensor:
    """Return the argument or result of a 2-D kernel in place of a 1-D one: a view of the same.

    A program has no views: there it is a tensor of its own.
    """
    return ops.view(run, x, x.shape) if rank == 1 and run.program.drafting is not None else x


def pool(run: Run, name: str, x: Tensor, shape: Sequence[int], rank: int, *, flops: float,
         second: Tensor | None = None) -> Tensor:  # fmt: skip
    """Pool to a shape; in one dimension by the kernel of two."""
    x = _as_2d(run, x, rank)
    return _as_2d(run, ops.apply(run, name, (x,), shape, second=second, flops=flops), rank)


def _biased(run: Run, row: str, x: Tensor, weight: Tensor, bias: Tensor | None,
            shape: Sequence[int], unfold: int, flops: float, last: bool) -> Tensor:  # fmt: skip
    temp = work = workspace(run, x, unfold)
    if run.on_cpu and last:
        # The CPU kernel turns pictures to channels-first and back.
        turned = x.nbytes + prod(shape) * ITEM_BYTES[x.dtype]
        temp, work = temp + turned, work + turned + x.nbytes
    out = ops.apply(run, row, (x, weight), shape, temp=temp, work=work, flops=flops)
    if bias is None:
        return out
    line = bias.shape if last else (1, bias.shape[0], *[1] * (len(shape) - 2))
    return ops.binary(run, "add", out, ops.view(run, bias, line))


def row_of(x: Tensor, weight: Tensor) -> str:
    """Return the row of a convolution: a 1-D one keeps its weight in a shape of its own."""
    if len(weight.shape) == 3:
        return "conv1d"
    depthwise = weight.shape[1] == 1 and weight.shape[0] % x.shape[1] == 0 and x.shape[1] > 1
    if len(weight.shape) == 5:
        return "conv3d"
    return "depthwise_conv" if depthwise else "conv"


def workspace(run: Run, x: Tensor, unfold: int) -> int:
    """Return a convolution's scratch bytes on the CPU: the unfold buffer.

    What cuDNN takes depends on card and version, so other back ends get one allowance for the
    whole run: here we only note the largest input of a convolution.
    """
    if run.on_cpu:
        return unfold
    if unfold:
        run.tape.widest_conv = max(run.tape.widest_conv, x.nbytes)
    return 0


def conv_transpose(
    run: Run,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: Value = 1,
    padding: Value = 0,
    output_padding: Value = 0,
    dilation: Value = 1,
    groups: int = 1,
    output_size: Value = None,
    data_format: Value = "",
) -> Tensor:
    """Convolve backwards; `weight` is [in, out/groups, *kernel]."""
    rank = len(weight.shape) - 2
    if data_format in ("NLC", "NHWC", "NDHWC"):
        raise TypeError("a transposed convolution with the channels last")
    if len(x.shape) != rank + 2 or x.shape[1] != weight.shape[0]:
        raise ShapeFault(
            f"transposed convolution expects {weight.shape[0]} input channels, "
            f"{x.shape[1] if len(x.shape) > 1 else 0} arrive",
            x.shape,
            weight.shape,
        )
    kernel, strides = weight.shape[2:], spread(stride, rank)
    dilations, more = spread(dilation, rank), spread(output_padding, rank)
    sides = paddings(padding, rank, kernel, strides, dilations, x.shape[2:])
    extents = [
        (size - 1) * s - before - after + d * (k - 1) + 1 + extra
        for size, k, s, d, extra, (before, after) in zip(
            x.shape[2:], kernel, strides, dilations, more, sides, strict=True
        )
    ]
    if output_size is not None:
        extents = spread(output_size, rank)[-rank:]
    shape = [x.shape[0], weight.shape[1] * groups, *extents]
    unfold = weight.shape[1] * prod(kernel) * prod(x.shape[2:]) * ITEM_BYTES[x.dtype]
    flops = 2.0 * x.size * weight.shape[1] * prod(kernel)
    return _biased(run, "conv_transpose", x, weight, bias, shape, unfold, flops, False)


def pooled(
    x: Tensor,
    kernel: Value,
    stride: Value,
    padding: Value,
    ceil_mode: bool,
    rank: int,
    *,
    last: bool = False,
) -> tuple[list[int], float]:
    """Return the shape after pooling and how many elements are looked at."""
    if len(x.shape) != rank + 2:
        raise ShapeFault(
            f"{rank}-D pooling needs {rank + 2} dimensions, {len(x.shape)} arrive", x.shape
        )
    spatial = x.shape[1:-1] if last else x.shape[2:]
    sizes = spread(kernel, rank)
    strides = spread(kernel if stride is None else stride, rank)
    sides = paddings(padding, rank, sizes, strides, [1] * rank, spatial)
    # Paddle's division leaves less than a whole step out, also below zero.
    step = ceil if ceil_mode else trunc
    extents = [
        step((size + before + after - k) / s) + 1
        for size, k, s, (before, after) in zip(spatial, sizes, strides, sides, strict=True)
    ]
    if 0 in extents:
        raise TypeError("a window that makes an empty tensor")
    if any(extent < 1 for extent in extents):
        raise ShapeFault(f"a {sizes} window does not fit into {list(spatial)}", x.shape)
    shape = [x.shape[0], *extents, x.shape[-1]] if last else [*x.shape[:2], *extents]
    return shape, float(prod(shape) * prod(sizes))


def adaptive_pool(run: Run, name: str, x: Tensor, size: Value, rank: int) -> Tensor:
    """Pool to a given size; None keeps an axis."""
    wanted = list(size) if isinstance(size, (list, tuple)) else [size] * rank
    extents = [
        old if new is None else int(new) for old, new in zip(x.shape[2:], wanted, strict=True)
    ]
    return pool(run, f"adaptive_{name}", x, [*x.shape[:2], *extents], rank, flops=x.size)


def batch_norm(run: Run, x: Tensor, weight: Tensor | None, bias: Tensor | None,
               channels: int, *, channels_last: bool = False) -> Tensor:  # fmt: skip
    """Normalise over batch and space; two statistics per channel are saved."""
    actual = x.shape[-1 if channels_last or len(x.shape) == 2 else 1] if len(x.shape) > 1 else 0
    if actual != channels:
        raise ShapeFault(
            f"BatchNorm expects {channels} channels, {actual} arrive", x.shape, (channels,)
        )
    given = [tensor for tensor in (weight, bias) if tensor is not None]
    return ops.apply(run, "batch_norm", (x, *given), x.shape, flops=4.0 * x.size)


def norm(run: Run, name: str, x: Tensor, given: Sequence[Tensor], rows: int) -> Tensor:
    """Run a norm that saves a mean and a variance for each of `rows` groups."""
    return ops.apply(run, name, (x, *given), x.shape, groups=rows, flops=5.0 * x.size)


def dropout(run: Run, x: Tensor, p: Value, training: bool) -> Tensor:
    """Drop elements: the output and one mask byte each; nothing at all when p is 0."""
    if isinstance(p, (int, float)) and p == 0:
        return x
    if not training:
        return ops.apply(run, "dropout_eval", (x,), x.shape)
    return ops.apply(run, "dropout", (x,), x.shape, flops=x.size)


def embedding(run: Run, ids: Tensor, weight: Tensor, *, sparse: bool = False) -> Tensor:
    """Look rows up; the ids stay saved, the weight is not needed.

    A sparse gradient holds a row for each id, in the output's size, instead of the whole table;
    the programs of Paddle 3 have none (measured).
    """
    if ids.dtype in FLOATS:
        raise ShapeFault(
            f"embedding looks up whole numbers, {ids.dtype} arrives", ids.shape, weight.shape
        )
    (weight,) = ops.amp_inputs(run, "full", (weight,), "embedding")
    run.tape.bytes += ids.nbytes + 2 * prod(ids.shape) * weight.shape[1] * ITEM_BYTES[weight.dtype]
    shape = (*ids.shape, weight.shape[1])
    out = run.tensor(shape, weight.dtype)
    ops.attach(run, (weight,), [out], (ids.storage,), "new")
    return by_rows(out) if sparse and run.program.drafting is None else out


def by_rows(out: Tensor) -> Tensor:
    """Let the gradient of a table be a row for each id that was looked up."""
    if out.node is not None:
        out.node.edges[0].rows, out.node.edges[0].nbytes = True, out.nbytes
    return out


def cross_entropy_kernel(
    run: Run, logits: Tensor, label: Tensor, soft_label: bool, axis: int
) -> tuple[Tensor, Tensor]:
    """Softmax and negative log likelihood; the softmax is saved and becomes the gradient."""
    rank = len(logits.shape)
    axis = check_label(logits, label, soft_label, axis)
    shape = (*logits.shape[:axis], 1, *logits.shape[axis + 1 :])
    (logits,) = ops.amp_inputs(run, "full", (logits,), "cross_entropy")
    copies = ops.contiguous(run, (logits,))
    if run.on_cpu and axis != rank - 1:
        copies.append(run.storage(0, "workspace"))
    softmax = run.tensor(logits.shape, logits.dtype)
    out = run.tensor(shape, logits.dtype)
    del copies
    run.tape.flops += 5.0 * logits.size
    run.tape.bytes += 2 * logits.nbytes + out.nbytes
    ops.attach(run, (logits,), [out], (softmax.storage, label.storage), "saved")
    return softmax, out


def check_label(logits: Tensor, label: Tensor, soft_label: bool, axis: int) -> int:
    """Return the axis of the classes; ShapeFault for labels that cannot be meant."""
    axis = ops.check_axis(axis, len(logits.shape))
    what = "soft labels" if soft_label else "labels"
    wanted = list(logits.shape)
    if not soft_label:
        wanted[axis] = 1
        if label.dtype in FLOATS and not logits.needs_grad:
            raise TypeError("class numbers that are floats: only the backward pass refuses them")
        if label.dtype in FLOATS:
            raise ShapeFault(
                f"cross_entropy takes class numbers, labels of {label.dtype} arrive",
                logits.shape,
                label.shape,
            )
    if list(label.shape) != wanted:
        raise ShapeFault(
            f"cross_entropy of logits {list(logits.shape)} and {what} {list(label.shape)}",
            logits.shape,
            label.shape,
        )
    return axis
