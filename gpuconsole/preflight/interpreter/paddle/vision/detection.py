"""`paddle.vision.ops`: regions of interest, suppression, deformable convolution."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gpuconsole.preflight.interpreter.domain.values import (
    NativeClass,
    NativeFunction,
    ShapeFault,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops import kernels
from gpuconsole.preflight.interpreter.paddle.source_modules import Written
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, Tensor
from gpuconsole.preflight.interpreter.paddle.vision import detection_boxes as detector_boxes

IMAGES_AT_ONCE = 64
"""Of which `deform_conv2d` makes the sampled columns together."""


def roi_align(run: Run, x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Value,
              *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`roi_align`: a small map for each box; backward needs the boxes."""
    height, width = kernels.spread(output_size, 2)
    out = run.tensor((boxes.shape[0], x.shape[1], height, width), x.dtype)
    run.tape.flops += 16.0 * out.size
    ops.attach(run, (x,), [out], (boxes.storage, boxes_num.storage), "new")
    return out


def roi_pool(run: Run, x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Value,
             *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`roi_pool`: the same, and where each maximum was."""
    height, width = kernels.spread(output_size, 2)
    out = run.tensor((boxes.shape[0], x.shape[1], height, width), x.dtype)
    places = run.storage(8 * out.size)
    ops.attach(run, (x,), [out], (boxes.storage, places), "new")
    return out


def nms(run: Run, boxes: Tensor, *_: Value, top_k: Value = None, **__: Value) -> Tensor:
    """`nms`: how many boxes are left is in the data; at most all, or `top_k`."""
    run.findings.flags.add("variable-shape")
    count = boxes.shape[0]
    return run.tensor((min(count, top_k) if isinstance(top_k, int) else count,), "int64")


def deform_conv2d(run: Run, x: Tensor, offset: Tensor, weight: Tensor, bias: Value = None,
                  stride: Value = 1, padding: Value = 0, dilation: Value = 1,
                  deformable_groups: Value = 1, groups: int = 1, mask: Value = None,
                  name: Value = None) -> Tensor:  # fmt: skip
    """`deform_conv2d`: all that goes in stays; sampled columns are made for many images forward,
    for one at a time backward (measured)."""
    if x.shape[1] != weight.shape[1] * groups:
        raise ShapeFault(f"deform_conv2d expects {weight.shape[1] * groups} channels", x.shape)
    extents = offset.shape[2:]
    if first_unknown(list(extents)) is not None:
        raise TypeError("offsets of unknown extent")
    taken = [x, offset, *([mask] if isinstance(mask, Tensor) else []), weight]
    out = run.tensor((x.shape[0], weight.shape[0], *extents), x.dtype)
    columns = prod((x.shape[1], *weight.shape[2:], *extents)) * ITEM_BYTES[x.dtype]
    run.scratch(min(x.shape[0], IMAGES_AT_ONCE) * columns + out.nbytes)
    run.tape.flops += 2.0 * out.size * prod(weight.shape[1:])
    ops.attach(run, taken, [out], [tensor.storage for tensor in taken], "new",
               columns + weight.nbytes)  # fmt: skip
    if not isinstance(bias, Tensor):
        return out
    return ops.binary(run, "add", out, ops.view(run, bias, (1, bias.shape[0], 1, 1)))


class DeformConv2D(Layer):
    """`DeformConv2D`."""

    label = "DeformConv2D"

    def init(self, run: Run, in_channels: int, out_channels: int, kernel_size: Value,
             stride: Value = 1, padding: Value = 0, dilation: Value = 1,
             deformable_groups: Value = 1, groups: int = 1, weight_attr: Value = None,
             bias_attr: Value = None) -> None:  # fmt: skip
        """Make weight [out, in/groups, *kernel] and bias [out]."""
        kernel = kernels.spread(kernel_size, 2)
        self.weight(run, "weight", (out_channels, in_channels // groups, *kernel), weight_attr)
        self.weight(run, "bias", (out_channels,), bias_attr)
        self.groups = groups

    def forward(self, run: Run, x: Tensor, offset: Tensor, mask: Value = None) -> Value:
        """Convolve."""
        weight = self.tensor("weight")
        assert weight is not None
        bias = self.tensor("bias")
        return deform_conv2d(run, x, offset, weight, bias, groups=self.groups, mask=mask)


class RoIAlign(Layer):
    """`RoIAlign`."""

    label = "RoIAlign"

    def init(self, run: Run, output_size: Value, *_: Value, **__: Value) -> None:
        """Keep the size."""
        self.size = output_size

    def forward(self, run: Run, x: Tensor, boxes: Tensor, boxes_num: Tensor,
                *_: Value, **__: Value) -> Value:  # fmt: skip
        """Cut the boxes out."""
        return roi_align(run, x, boxes, boxes_num, self.size)


class RoIPool(RoIAlign):
    """`RoIPool`."""

    label = "RoIPool"

    def forward(self, run: Run, x: Tensor, boxes: Tensor, boxes_num: Tensor,
                *_: Value, **__: Value) -> Value:  # fmt: skip
        """Cut the boxes out and take the largest."""
        return roi_pool(run, x, boxes, boxes_num, self.size)


def names(run: Run) -> Written:
    """Return `paddle.vision.ops`."""
    functions: dict[str, Callable[..., Tensor]] = {
        "roi_align": roi_align, "roi_pool": roi_pool, "nms": nms, "deform_conv2d": deform_conv2d,
    }  # fmt: skip
    return Written(run, "paddle.vision.ops", "vision_ops", {
        **{name: NativeFunction(call, name) for name, call in functions.items()},
        "DeformConv2D": NativeClass(DeformConv2D, "DeformConv2D"),
        "RoIAlign": NativeClass(RoIAlign, "RoIAlign"), "RoIPool": NativeClass(RoIPool, "RoIPool"),
        **detector_boxes.names(),
    })  # fmt: skip
