"""Automatic mixed precision: the casts that Paddle's eager operators make before they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inference.infer import Place
from ..sizes import FLOATS, HALVES, word
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor.tensor import Tensor

LISTED = {
    "matmul": "matmul_v2", "linear": "linear_v2", "sum": "reduce_sum", "mean": "reduce_mean",
    "prod": "reduce_prod", "cross_entropy_with_softmax": "softmax_with_cross_entropy",
    "embedding": "lookup_table_v2", "bilinear_interp": "bilinear_interp_v2",
    "nearest_interp": "nearest_interp_v2", "bicubic_interp": "bicubic_interp_v2",
    "linear_interp": "linear_interp_v2", "trilinear_interp": "trilinear_interp_v2",
    "add": "elementwise_add", "subtract": "elementwise_sub", "multiply": "elementwise_mul",
    "divide": "elementwise_div", "kldiv_loss": "kldiv_loss",
    "max_pool2d_with_index": "max_pool2d_with_index",
}  # fmt: skip
"""The names under which Paddle's lists have operators, where they are others."""
ONLY_FIRST = frozenset({"batch_norm", "batch_norm_", "layer_norm", "sync_batch_norm_",
                        "instance_norm", "rms_norm"})  # fmt: skip
EXEMPT = frozenset({"cast", "assign", "reshape", "transpose", "slice", "strided_slice", "squeeze",
                    "unsqueeze", "flatten", "unbind", "split", "split_with_num", "full_like",
                    "check_finite_and_unscale_", "update_loss_scaling_", "shape", "expand",
                    "tile", "set_value_", "full_", "share_data_"})  # fmt: skip
"""Operators that go by their input's own type."""


def active() -> bool:
    """Tell whether operators cast at present."""
    tracer = STATE.framework._dygraph_tracer() if STATE.is_ready else None
    return bool(tracer is not None and tracer._amp_level.value > 0)


def cast(name: str, tensors: list[Tensor], places: Sequence[object]) -> list[Tensor]:
    """Return the tensors with those cast that mixed precision computes in another type."""
    words = [word(tensor.m_dtype) for tensor in tensors]
    wanted = _wanted(name, words)
    if wanted is None:
        return tensors
    many = len(tensors)
    if name in ONLY_FIRST and isinstance(places[0], Place):
        many = 1
    tensors_cast = []
    for place, tensor in enumerate(tensors):
        if place < many and words[place] in FLOATS and words[place] not in ("float64", wanted):
            tensor = STATE.call("cast", (tensor, getattr(STATE.paddle, wanted)), {})
        tensors_cast.append(tensor)
    return tensors_cast


def _wanted(name: str, words: Sequence[str]) -> str | None:
    floats = [kind for kind in words if kind in FLOATS]
    if not floats or name in EXEMPT or name.endswith("_grad"):
        return None
    if name.endswith("_") and name not in ONLY_FIRST:
        return None
    tracer = STATE.framework._dygraph_tracer()
    level = tracer._amp_level.name
    half = str(tracer._amp_dtype)
    white, black = tracer._get_amp_op_list()
    names = {name, LISTED.get(name, name)}
    if names & black:
        return "float32"
    if names & white:
        return half
    if level == "OD":
        return "float32"
    if level == "O2":
        return half
    return "float32" if "float32" in floats and HALVES & set(floats) else None
