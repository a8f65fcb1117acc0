"""Which type an operator computes in under automatic mixed precision.

The lists are Paddle's (`paddle/amp/amp_lists.py`): the `amp` field of the operator table says on
which of them an operator is at O1. At O2 everything is computed in half precision but for the
few operators of the extra black list.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.preflight.interpreter.machine.run_state.modes import Amp
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS

FULL_AT_O2 = frozenset({"embedding", "interpolate", "scatter"})
_HALVES = frozenset({"float16", "bfloat16"})
_ALSO = {
    "add": ("elementwise_add",), "subtract": ("elementwise_sub",),
    "multiply": ("elementwise_mul",), "divide": ("elementwise_div",),
    "matmul": ("matmul_v2", "mul", "linear_v2"), "conv": ("conv2d", "depthwise_conv2d"),
    "sum": ("reduce_sum",), "mean": ("reduce_mean",), "norm": ("p_norm",),
    "cross_entropy": ("softmax_with_cross_entropy",), "embedding": ("lookup_table_v2",),
    "interpolate": ("bilinear_interp_v2", "nearest_interp_v2"),
}  # fmt: skip
"""Names under which a script's own lists may mean an operator of the table."""


def wanted(amp: Amp, name: str, listed: str, dtypes: Sequence[str]) -> str | None:
    """Return the type that an operator's float inputs are cast to, None to leave them.

    `listed` is the operator's list: half, full (black at O1), always (black at O1 and O2), keep
    (as its first input is), or "".
    """
    floats = [dtype for dtype in dtypes if dtype in FLOATS]
    if not floats or "float64" in floats:
        return None
    names = {name, *_ALSO.get(name, ())}
    if names & amp.white:
        listed = "half"
    elif names & amp.black:
        return "float32"
    if amp.level == "O2":
        return "float32" if listed == "always" or name in FULL_AT_O2 else amp.dtype
    if amp.level == "OD":
        return amp.dtype if listed == "half" else "float32"
    if listed == "half":
        return amp.dtype
    if listed in ("full", "always"):
        return "float32"
    if listed == "keep":
        return None
    return "float32" if "float32" in floats and _HALVES & set(floats) else None


def only_first(name: str) -> bool:
    """Tell whether an operator's weights stay in single precision whatever its input is."""
    return name in ("batch_norm", "layer_norm")
