"""Operators whose results are as long as data says, on random data.

`python meta_bounds.py real|meta` prints, for each operator and draw, the shapes of its results or
that it was refused. Without data nothing is known of what `unknown` makes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

DRAWS = 6
Case = Callable[[Any, Callable[[Any], Any], np.random.Generator], Any]
BOUNDED: dict[str, Case] = {}
UNBOUNDED: dict[str, Case] = {}


def _case(kind: dict[str, Case], name: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        kind[name] = function
        return function

    return add


def _floats(draw: np.random.Generator, *shape: int) -> Any:
    return draw.random(shape, "float32")


def _boxes(draw: np.random.Generator, *shape: int) -> Any:
    low = draw.random((*shape, 2), "float32") * 60
    return np.concatenate([low, low + 1 + draw.random((*shape, 2), "float32") * 30], -1)


@_case(BOUNDED, "masked_select")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    x, rows = _floats(draw, 5, 7), int(draw.choice([1, 5]))
    return paddle.masked_select(unknown(x), unknown(draw.random((rows, 7)) < 0.9))


@_case(BOUNDED, "masked_select of a row by a table")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    mask = unknown(draw.random((6, 7)) < 0.95)
    return paddle._C_ops.masked_select(unknown(_floats(draw, 1, 7)), mask)


@_case(BOUNDED, "a subscript by a mask")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return unknown(_floats(draw, 5, 7, 2))[unknown(draw.random((5, 7)) < 0.9)]


@_case(BOUNDED, "nonzero")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.nonzero(unknown(draw.random((4, 6)) < 0.9))


@_case(BOUNDED, "nonzero of floats")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.nonzero(unknown(_floats(draw, 4, 6)))


@_case(BOUNDED, "unique")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    values = unknown(draw.integers(0, 50, (30,)))
    return paddle.unique(values, return_index=True, return_inverse=True, return_counts=True)


@_case(BOUNDED, "unique rows")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.unique(unknown(draw.integers(0, 2, (30, 3))), axis=0)


@_case(BOUNDED, "unique_consecutive")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    values = unknown(draw.integers(0, 3, (40,)))
    return paddle.unique_consecutive(values, return_inverse=True, return_counts=True)


@_case(BOUNDED, "unique_consecutive of floats")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.unique_consecutive(unknown(_floats(draw, 40)))


@_case(BOUNDED, "unique_consecutive rows")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    values = unknown(draw.integers(0, 2, (20, 2)))
    return paddle.unique_consecutive(values, return_counts=True, axis=0)


@_case(BOUNDED, "nms")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.vision.ops.nms(unknown(_boxes(draw, 30)), 0.5)


@_case(BOUNDED, "generate_proposals")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    anchors, spread = unknown(_boxes(draw, 4, 4, 3)), unknown(np.ones((4, 4, 3, 4), "float32"))
    return paddle.vision.ops.generate_proposals(
        unknown(_floats(draw, 2, 3, 4, 4)), unknown(_floats(draw, 2, 12, 4, 4)),
        unknown(np.full((2, 2), 100, "float32")), anchors, spread,
        pre_nms_top_n=40, post_nms_top_n=int(draw.choice([10, 45])), nms_thresh=0.99,
        min_size=0.0, return_rois_num=True,
    )  # fmt: skip


@_case(BOUNDED, "distribute_fpn_proposals, all levels together")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    levels, back, counts = paddle.vision.ops.distribute_fpn_proposals(
        unknown(_boxes(draw, 30)), 2, 5, 4, 30, rois_num=unknown(np.array([10, 20], "int32"))
    )
    return [paddle.concat(levels), back, *counts]


@_case(BOUNDED, "matrix_nms")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.vision.ops.matrix_nms(
        unknown(_boxes(draw, 2, 20)), unknown(_floats(draw, 2, 3, 20)), 0.01, 0.0,
        int(draw.choice([15, -1])), int(draw.choice([12, -1])), return_index=True,
    )  # fmt: skip


@_case(BOUNDED, "multiclass_nms3")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle._C_ops.multiclass_nms3(
        unknown(_boxes(draw, 2, 20)), unknown(_floats(draw, 2, 3, 20)), None, 0.01, 15,
        int(draw.choice([12, -1])), 0.9, True, 1.0, -1,
    )  # fmt: skip


def _graph(draw: np.random.Generator) -> Any:
    counts = draw.integers(1, 6, (10,))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype("int64")
    return draw.integers(0, 10, (int(ends[-1]),)).astype("int64"), ends


@_case(BOUNDED, "sample_neighbors")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    row, ends = _graph(draw)
    nodes = draw.permutation(10)[:8].astype("int64")
    return paddle.geometric.sample_neighbors(
        unknown(row), unknown(ends), unknown(nodes), sample_size=int(draw.choice([2, 50]))
    )


@_case(BOUNDED, "weighted_sample_neighbors")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    row, ends = _graph(draw)
    nodes = draw.permutation(10)[:8].astype("int64")
    weights = unknown(_floats(draw, len(row)))
    return paddle.geometric.weighted_sample_neighbors(
        unknown(row), unknown(ends), weights, unknown(nodes), sample_size=int(draw.choice([2, 50]))
    )


@_case(BOUNDED, "reindex_graph")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    near, counts = draw.integers(0, 40, (12,)), np.array([3, 4, 5], "int32")
    nodes = draw.permutation(40)[:3]
    return paddle.geometric.reindex_graph(unknown(nodes), unknown(near), unknown(counts))


@_case(BOUNDED, "send_u_recv")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    start, end = (unknown(draw.integers(0, 9, (20,))) for _ in range(2))
    return paddle.geometric.send_u_recv(unknown(_floats(draw, 9, 4)), start, end, "mean")


@_case(BOUNDED, "repeat_interleave to a given size")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    times = draw.integers(1, 5, (6,)).astype("int32")
    x = unknown(_floats(draw, 6, 3))
    return paddle.repeat_interleave(x, unknown(times), 0, output_size=int(times.sum()))


@_case(UNBOUNDED, "repeat_interleave")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    times = unknown(draw.integers(1, 5, (6,)).astype("int32"))
    return paddle.repeat_interleave(unknown(_floats(draw, 6, 3)), times, 0)


@_case(UNBOUNDED, "bincount")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.bincount(unknown(draw.integers(0, 90, (10,))))


@_case(UNBOUNDED, "segment_sum")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    places = unknown(np.sort(draw.integers(0, 40, (9,))))
    return paddle.geometric.segment_sum(unknown(_floats(draw, 9, 2)), places)


@_case(UNBOUNDED, "sequence_mask")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.nn.functional.sequence_mask(unknown(draw.integers(1, 40, (5,))))


@_case(UNBOUNDED, "arange to a number of the data")
def _(paddle: Any, unknown: Any, draw: Any) -> Any:
    return paddle.arange(unknown(draw.integers(1, 40, ())))


def main() -> None:
    """Run every operator on several draws and print shapes."""
    unknown: Any = None
    if sys.argv[1] == "meta":
        from gpuconsole.preflight.meta import hook
        from gpuconsole.preflight.meta.script import answers
        from gpuconsole.preflight.meta.state import STATE
        from gpuconsole.preflight.tiers.probe_request import operators

        hook.install()
        import paddle

        hook.ready(paddle, operators(), "cpu")
        answers.install("/nowhere")

        def without(array: Any) -> Any:
            made: Any = paddle.to_tensor(array)
            made.m_known = None
            return made

        unknown, noted = without, STATE.numbers_at
    else:
        import paddle

        unknown, noted = paddle.to_tensor, {}
    found: dict[str, Any] = {}
    for name, case in {**BOUNDED, **UNBOUNDED}.items():
        rows = found[name] = []
        for seed in range(DRAWS):
            paddle.seed(seed)
            noted.clear()
            try:
                made = case(paddle, unknown, np.random.default_rng(seed))
            except BaseException as error:
                rows.append(f"{type(error).__name__}: {str(error)[:300]}")
                continue
            many = made if isinstance(made, (list, tuple)) else [made]
            shapes = [list(one.shape) for one in many if one is not None]
            rows.append("asked for a number" if noted else shapes)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
