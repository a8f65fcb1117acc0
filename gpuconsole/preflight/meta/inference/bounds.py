"""Extents that only data could tell: the largest that an operator can give.

An operator that is in no table here has no such bound, and a run that meets it is refused. Every
row is held against real runs on random data by `tests/real/meta/test_meta_bounds.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..sizes import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Largest = Callable[[Any, Any], int]
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
    shapes: Sequence[tuple[int, ...] | None],
    attributes: Mapping[str, object],
    part: tuple[int, ...] = (0, 1),
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


def _all(shapes: Sequence[tuple[int, ...]], _: Mapping[str, list[bool]]) -> int:
    return count(shapes[0])


def _joined(shapes: Sequence[tuple[int, ...]], _: Mapping[str, list[bool]]) -> int:
    import numpy

    return count(numpy.broadcast_shapes(shapes[0], shapes[1]))


def _rows(shapes: Sequence[tuple[int, ...]], _: Mapping[str, float | list[bool]]) -> int:
    return int(shapes[0][0])


def _along(shapes: Any, attributes: Any) -> int:
    axis = attributes.get("axis") or ()
    return int(shapes[0][axis[0]]) if axis else count(shapes[0])


def _proposals(shapes: Any, attributes: Any) -> int:
    """scores: [N, anchors, height, width]."""
    images, *rest = shapes[0]
    each, before, after = count(rest), attributes["pre_nms_top_n"], attributes["post_nms_top_n"]
    for most in (before, after):
        each = min(each, most) if most > 0 else each
    return int(images * each)


def _levels(place: int, shapes: Sequence[tuple[int, ...]], part: int, parts: int) -> int:
    """boxes: [N, 4], of so many images [images]: what is made of all levels together has N rows,
    whichever level a box is of."""
    boxes = int(shapes[0][0])
    if place == 0:
        return boxes * (part + 1) // parts - boxes * part // parts
    images = shapes[1]
    return boxes if place > 1 else int(images[0]) if images else 1


def _boxes(shapes: Any, attributes: Any) -> int:
    """scores: [N, classes, boxes], or of one batch of boxes [boxes, classes]."""
    images = shapes[1][0] if len(shapes[1]) == 3 else 1
    each, most = count(shapes[1]) // max(1, images), attributes["keep_top_k"]
    if len(shapes[1]) == 2 and len(shapes) > 2 and shapes[2] is not None:
        images = shapes[2][0]
    return int(images * (min(each, most) if most > 0 else each))


def _repeated(_: Sequence[tuple[int, ...]], attributes: Any) -> int:
    return int(attributes.get("output_size", -1))


def _sampled(place: int) -> Largest:
    def most(shapes: Any, attributes: Any) -> int:
        edges, nodes, each = shapes[0][0], shapes[place][0], attributes["sample_size"]
        # A node may be asked for more than once.
        return int(nodes * min(each, edges) if each > 0 else nodes * edges)

    return most


def _renumbered(shapes: Sequence[tuple[int, ...] | None], _: Mapping[str, list[bool]]) -> int:
    return count(shapes[0]) + count(shapes[1])


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
