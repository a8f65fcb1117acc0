"""`paddle.vision.ops` of detectors: losses, boxes and priors, measured with Paddle 3.3.1 (CPU)."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    NativeClass,
    NativeFunction,
    ShapeFault,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.ops import kernels
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

PRIOR_TEMPS = 10
"""Copies of the boxes that making priors takes for a moment."""


def yolo_loss(run: Run, x: Tensor, gt_box: Tensor, gt_label: Tensor, anchors: Value,
              anchor_mask: Value, class_num: int, ignore_thresh: Value, downsample_ratio: Value,
              gt_score: Value = None, *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`yolo_loss`: one figure for each picture; two masks and all that goes in stay saved."""
    count, channels, height, width = x.shape
    kinds = len(anchor_mask)
    if channels != kinds * (5 + class_num):
        raise ShapeFault(f"yolo_loss expects {kinds * (5 + class_num)} channels", x.shape)
    if gt_box.shape[:2] != gt_label.shape[:2] or gt_box.shape[0] != count:
        raise ShapeFault(f"boxes {list(gt_box.shape)} and labels {list(gt_label.shape)}",
                         gt_box.shape, gt_label.shape)  # fmt: skip
    out = run.tensor((count,), x.dtype)
    scores = 0 if isinstance(gt_score, Tensor) else 4 * gt_label.size
    masks = [run.storage(4 * count * kinds * height * width), run.storage(4 * gt_label.size)]
    run.scratch(scores)
    run.tape.flops += 20.0 * x.size
    ops.attach(run, (x,), [out], (x.storage, gt_box.storage, gt_label.storage, *masks), "new",
               scores)  # fmt: skip
    return out


def yolo_box(run: Run, x: Tensor, img_size: Value, anchors: Value, class_num: int,
             *_: Value, **__: Value) -> Value:  # fmt: skip
    """`yolo_box`: boxes and scores of all cells."""
    count = x.shape[0]
    cells = x.shape[2] * x.shape[3] * (len(anchors) // 2)
    return (run.tensor((count, cells, 4), x.dtype), run.tensor((count, cells, class_num), x.dtype))


def prior_box(run: Run, input: Tensor, image: Value, min_sizes: Value, max_sizes: Value = None,
              aspect_ratios: Value = (1.0,), variance: Value = None, flip: Value = False,
              *_: Value, **__: Value) -> Value:  # fmt: skip
    """`prior_box`: for each cell a box of each size and form, and its variances."""
    ratios = [1.0]
    for ratio in aspect_ratios if isinstance(aspect_ratios, (list, tuple)) else (aspect_ratios,):
        if all(abs(ratio - other) > 1e-6 for other in ratios):
            ratios += [ratio, 1.0 / ratio] if flip is True else [ratio]
    sizes = min_sizes if isinstance(min_sizes, (list, tuple)) else (min_sizes,)
    large = max_sizes if isinstance(max_sizes, (list, tuple)) else ()
    kinds = len(ratios) * len(sizes) + len(large)
    shape = (*input.shape[2:], kinds, 4)
    boxes = (run.tensor(shape, "float32"), run.tensor(shape, "float32"))
    run.scratch(boxes[0].nbytes * PRIOR_TEMPS if run.on_cpu else 0)
    return boxes


def box_coder(run: Run, prior_box: Tensor, prior_box_var: Value, target_box: Tensor,
              code_type: Value = "encode_center_size", *_: Value,
              **__: Value) -> Tensor:  # fmt: skip
    """`box_coder`: each target for each prior, or targets decoded."""
    if isinstance(code_type, str) and code_type.startswith("encode"):
        return run.tensor((target_box.shape[0], prior_box.shape[0], 4), target_box.dtype)
    return run.tensor(target_box.shape, target_box.dtype)


def psroi_pool(run: Run, x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Value,
               *_: Value, **__: Value) -> Tensor:  # fmt: skip
    """`psroi_pool`: each cell of the small map from channels of its own."""
    height, width = kernels.spread(output_size, 2)
    if x.shape[1] % (height * width):
        raise ShapeFault(f"psroi_pool to {height} x {width} of {x.shape[1]} channels", x.shape)
    channels = x.shape[1] // (height * width)
    out = run.tensor((boxes.shape[0], channels, height, width), x.dtype)
    ops.attach(run, (x,), [out], (x.storage, boxes.storage, boxes_num.storage), "new")
    return out


def distribute_fpn_proposals(run: Run, fpn_rois: Tensor, min_level: int, max_level: int,
                             refer_level: Value, refer_scale: Value, pixel_offset: Value = False,
                             rois_num: Value = None, name: Value = None) -> Value:  # fmt: skip
    """`distribute_fpn_proposals`: how many boxes a level gets is data; at most all."""
    run.findings.flags.add("variable-shape")
    levels = range(min_level, max_level + 1)
    rows = fpn_rois.shape[0]
    parts = [run.tensor((Bound(rows), 4), fpn_rois.dtype) for _ in levels]
    counts = [run.tensor(rois_num.shape, "int32") for _ in levels] if (
        isinstance(rois_num, Tensor)) else None  # fmt: skip
    return parts, run.tensor((rows, 1), "int32"), counts


def generate_proposals(run: Run, scores: Tensor, bbox_deltas: Value, img_size: Value,
                       anchors: Value, variances: Value, pre_nms_top_n: int = 6000,
                       post_nms_top_n: int = 1000, *_: Value, return_rois_num: Value = False,
                       **__: Value) -> Value:  # fmt: skip
    """`generate_proposals`: at most so many boxes as are kept of each picture."""
    run.findings.flags.add("variable-shape")
    count, kinds, height, width = scores.shape
    rows = Bound(count * min(post_nms_top_n, kinds * height * width))
    results = (run.tensor((rows, 4), scores.dtype), run.tensor((rows, 1), scores.dtype))
    number = run.tensor((count,), "int32") if return_rois_num is True else None
    return (*results, number)


def matrix_nms(run: Run, bboxes: Tensor, scores: Tensor, score_threshold: Value,
               post_threshold: Value, nms_top_k: int, keep_top_k: int, *_: Value,
               return_index: Value = False, return_rois_num: Value = True,
               **__: Value) -> Value:  # fmt: skip
    """`matrix_nms`: at most so many boxes as are kept of each picture."""
    run.findings.flags.add("variable-shape")
    most = bboxes.shape[1] * scores.shape[1]
    rows = Bound(bboxes.shape[0] * (min(keep_top_k, most) if keep_top_k > 0 else most))
    out = run.tensor((rows, 6), bboxes.dtype)
    number = run.tensor((bboxes.shape[0],), "int32") if return_rois_num is not False else None
    index = run.tensor((rows, 1), "int32") if return_index is True else None
    return out, number, index


class PSRoIPool(Layer):
    """`PSRoIPool`."""

    label = "PSRoIPool"

    def init(self, run: Run, output_size: Value, *_: Value, **__: Value) -> None:
        """Keep the size."""
        self.size = output_size

    def forward(self, run: Run, x: Tensor, boxes: Tensor, boxes_num: Tensor) -> Value:
        """Pool the boxes."""
        return psroi_pool(run, x, boxes, boxes_num, self.size)


def names() -> dict[str, Value]:
    """Return these names of `paddle.vision.ops`."""
    functions = (yolo_loss, yolo_box, prior_box, box_coder, psroi_pool, distribute_fpn_proposals,
                 generate_proposals, matrix_nms)  # fmt: skip
    by_name: dict[str, Value] = {
        function.__name__: NativeFunction(function, function.__name__) for function in functions
    }
    return {**by_name, "PSRoIPool": NativeClass(PSRoIPool, "PSRoIPool")}
