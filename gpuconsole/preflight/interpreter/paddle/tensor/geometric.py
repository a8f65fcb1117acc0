"""`paddle.geometric`: messages along the edges of graphs, and segments."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain import int_bounds
from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.indexing import as_index
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor, broadcast


def send_u_recv(run: Run, x: Tensor, src_index: Value, dst_index: Value,
                reduce_op: Value = "sum", out_size: Value = None,
                name: Value = None) -> Value:  # fmt: skip
    """`paddle.geometric.send_u_recv`: one row for each node, or `out_size` rows."""
    source, target = as_index(src_index), as_index(dst_index)
    _same_length(source, target)
    rows = out_size if isinstance(out_size, int) else x.shape[0]
    counts = rows * 4 if reduce_op == "mean" else 0
    return ops.apply(run, "send_u_recv", (x, source, target), (rows, *x.shape[1:]), extra=counts)


def send_ue_recv(run: Run, x: Tensor, y: Tensor, src_index: Value, dst_index: Value,
                 message_op: Value = "add", reduce_op: Value = "sum", out_size: Value = None,
                 name: Value = None) -> Value:  # fmt: skip
    """`paddle.geometric.send_ue_recv`: node rows joined with edge rows."""
    source, target = as_index(src_index), as_index(dst_index)
    _same_length(source, target)
    rows = out_size if isinstance(out_size, int) else x.shape[0]
    shape = broadcast(x.shape[1:], y.shape[1:])
    if shape is None:
        raise ShapeFault("rows of nodes and edges do not broadcast", x.shape, y.shape)
    return ops.apply(run, "send_ue_recv", (x, y, source), (rows, *shape))


def _same_length(source: Tensor, target: Tensor) -> None:
    if source.shape != target.shape:
        raise ShapeFault(
            f"{list(source.shape)} sources and {list(target.shape)} targets of edges",
            source.shape, target.shape,
        )  # fmt: skip


def segment(run: Run, data: Tensor, segment_ids: Value, name: Value = None) -> Value:
    """`paddle.geometric.segment_sum` and the like: as many as the largest number says."""
    ids = as_index(segment_ids)
    count = int_bounds.segments(ids)
    if count is None:
        raise TypeError("how many segments there are depends on data")
    if ids.shape != data.shape[:1]:
        raise ShapeFault(f"{list(ids.shape)} segment numbers for {list(data.shape)}", ids.shape,
                         data.shape)  # fmt: skip
    return ops.apply(run, "segment_pool", (data, ids), (count, *data.shape[1:]))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "send_u_recv": send_u_recv, "send_ue_recv": send_ue_recv,
    **{f"segment_{kind}": segment for kind in ("sum", "mean", "max", "min")},
}  # fmt: skip
