"""Extents that only data could tell: the largest that an operator can give.

An operator that is in no table here has no such bound, and a run that meets it is refused. Every
row is held against real runs on random data by `tests/real/meta/test_meta_bounds.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sizes import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from ..types import Attributes, Shape

    Shapes: TypeAlias = Sequence[Shape | None]
    Largest: TypeAlias = Callable[[Shapes, Attributes], int]
    """Of the operands' shapes (None where there is none) and the attributes to the largest extent;
    negative where there is no bound."""

RESERVED = {"batch_norm": 5, "batch_norm_": 5, "sync_batch_norm_": 5}
"""Results that only a fused kernel fills, by their place: elsewhere they are empty."""
DECIDING = {
    "masked_select": (1,), "nonzero": (0,), "unique": (0,), "unique_consecutive": (0,),
    "segment_pool": (1,), "nms": (0,), "repeat_interleave_with_tensor_index": (1,),
    "bincount": (0, 2), "sequence_mask": (0, 1), "graph_sample_neighbors": (0, 1, 2),
    "weighted_sample_neighbors": (0, 1, 2, 3), "reindex_graph": (0, 1, 2), "send_u_recv": (4,),
    "send_ue_recv": (6,), "affine_grid": (1,), "one_hot": (1,),
}  # fmt: skip
"""Operators that are computed for their shapes alone, and the arguments with the data that
decides these: where that is known, so are the shapes, whatever the other arguments hold."""


def largest(
    name: str,
    place: int,
    shapes: Shapes,
    attributes: Attributes,
    part: tuple[int, int] = (0, 1),
) -> int | None:
    """Return the largest that an open extent of an operator's result can be; None without bound.

    `place` is the result's; `shapes` are those of the operands; of a result that is a list `part`
    tells which it is, and of how many.
    """
    if RESERVED.get(name) == place:
        return 0
    if name in SHARED:
        return SHARED[name](place, shapes, *part)
    rule = LARGEST.get(name)
    most = -1 if rule is None else rule(shapes, attributes)
    return most if most >= 0 else None


def _given(shapes: Shapes, operand: int) -> Shape:
    """Return the shape of an operand that is there."""
    return shapes[operand] or ()


def _number(attributes: Attributes, name: str, default: int = -1) -> int:
    value = attributes.get(name, default)
    return value if isinstance(value, int) else default


def _all(shapes: Shapes, _: Attributes) -> int:
    return count(_given(shapes, 0))


def _joined(shapes: Shapes, _: Attributes) -> int:
    import numpy

    return count(numpy.broadcast_shapes(_given(shapes, 0), _given(shapes, 1)))


def _rows(shapes: Shapes, _: Attributes) -> int:
    return int(_given(shapes, 0)[0])


def _along(shapes: Shapes, attributes: Attributes) -> int:
    axis, shape = attributes.get("axis"), _given(shapes, 0)
    return int(shape[axis[0]]) if isinstance(axis, (list, tuple)) and axis else count(shape)


def _proposals(shapes: Shapes, attributes: Attributes) -> int:
    """scores: [N, anchors, height, width]."""
    images, *rest = _given(shapes, 0)
    each = count(rest)
    for name in ("pre_nms_top_n", "post_nms_top_n"):
        most = _number(attributes, name)
        each = min(each, most) if most > 0 else each
    return int(images * each)


def _levels(place: int, shapes: Shapes, part: int, parts: int) -> int:
    """boxes: [N, 4], of so many images [images]: what is made of all levels together has N rows,
    whichever level a box is of."""
    boxes = int(_given(shapes, 0)[0])
    if place == 0:
        return boxes * (part + 1) // parts - boxes * part // parts
    images = shapes[1]
    return boxes if place > 1 else int(images[0]) if images else 1


def _boxes(shapes: Shapes, attributes: Attributes) -> int:
    """scores: [N, classes, boxes], or of one batch of boxes [boxes, classes]."""
    scores, most = _given(shapes, 1), _number(attributes, "keep_top_k")
    images = scores[0] if len(scores) == 3 else 1
    each = count(scores) // max(1, images)
    counts = shapes[2] if len(scores) == 2 and len(shapes) > 2 else None
    if counts is not None:
        images = counts[0]
    return int(images * (min(each, most) if most > 0 else each))


def _repeated(_: Shapes, attributes: Attributes) -> int:
    return _number(attributes, "output_size")


def _sampled(place: int) -> Largest:
    def most(shapes: Shapes, attributes: Attributes) -> int:
        edges, nodes = _given(shapes, 0)[0], _given(shapes, place)[0]
        each = _number(attributes, "sample_size")
        # A node may be asked for more than once.
        return int(nodes * min(each, edges) if each > 0 else nodes * edges)

    return most


def _renumbered(shapes: Shapes, _: Attributes) -> int:
    return count(_given(shapes, 0)) + count(_given(shapes, 1))


LARGEST: dict[str, Largest] = {
    "masked_select": _joined, "masked_select_grad": _all, "nonzero": _all,
    "unique_consecutive": _along, "nms": _rows, "generate_proposals": _proposals,
    "multiclass_nms3": _boxes, "matrix_nms": _boxes, "graph_sample_neighbors": _sampled(2),
    "weighted_sample_neighbors": _sampled(3), "reindex_graph": _renumbered,
    "repeat_interleave_with_tensor_index": _repeated,
}  # fmt: skip
SHARED: dict[str, Callable[..., int]] = {"distribute_fpn_proposals": _levels}
"""Operators that share out what they are given, evenly for all that is known: by the place of the
result, the operands' shapes, and the part of a list."""
