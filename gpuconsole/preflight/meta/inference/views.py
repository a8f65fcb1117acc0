"""Views: which operators share their input's memory, and how their elements lie in it.

Strides are in elements; None means a contiguous tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sizes import count
from . import infer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor.tensor import Tensor
    from ..types import Shape
    from .infer import Step

SHAPED = frozenset({"reshape", "flatten", "squeeze", "unsqueeze", "view_shape", "view_dtype",
                    "reshape_grad", "flatten_grad", "squeeze_grad", "unsqueeze_grad",
                    "as_complex", "as_real", "share_data", "reshape_",
                    "flatten_", "squeeze_", "unsqueeze_"})  # fmt: skip
"""The same elements in another shape."""
PICKED = frozenset({"transpose", "slice", "strided_slice", "unbind", "diagonal", "as_strided",
                    "tensor_unfold", "transpose_grad", "view_slice", "real", "imag"})  # fmt: skip
"""Some of the elements, or in another order; of complex ones, every other number."""
VIEWS = SHAPED | PICKED


def contiguous(shape: Sequence[int]) -> Shape:
    """Return the strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))


def plain(shape: Sequence[int], strides: Shape | None) -> Shape | None:
    """Return strides, None where they are those of a contiguous tensor."""
    if strides is None:
        return None
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1:
            if stride != step:
                return strides
            step *= extent
    return None


def reshaped(
    shape: Shape, strides: Shape | None, wanted: Sequence[int]
) -> tuple[bool, Shape | None]:
    """Return (whether a view can be made, its strides) for another shape of the same elements."""
    if strides is None or count(shape) == 0:
        return True, None
    pairs = [(extent, stride) for extent, stride in zip(shape, strides) if extent != 1]
    new_strides: list[int] = []
    place = 0
    for extent in wanted:
        if extent == 1:
            new_strides.append(0)
            continue
        while place < len(pairs) and pairs[place][0] == 1:
            place += 1
        room, run = 1, place
        # Axes that lie one behind the other count as one.
        while run < len(pairs):
            room *= pairs[run][0]
            if room % extent == 0:
                break
            if run + 1 >= len(pairs) or pairs[run][1] != pairs[run + 1][0] * pairs[run + 1][1]:
                return False, None
            run += 1
        else:
            return False, None
        if any(pairs[i][1] != pairs[i + 1][0] * pairs[i + 1][1] for i in range(place, run)):
            return False, None
        rest = room // extent
        new_strides.append(rest * pairs[run][1])
        pairs[place : run + 1] = [(rest, pairs[run][1])] if rest > 1 else []
    if pairs[place:]:
        return False, None
    return True, plain(wanted, tuple(new_strides))


def picked(step: Step, x: Tensor, shape: Sequence[int]) -> Shape | None:
    """Return the strides of what `transpose`, `slice` and the like make of a tensor."""
    strides = x.m_strides or contiguous(x.m_shape)
    picked_strides = _picked(step, strides)
    if len(picked_strides) != len(shape):
        return contiguous(shape)
    return plain(shape, tuple(picked_strides))


def _picked(step: Step, strides: Shape) -> list[int]:
    name, rank = step.name, len(strides)
    if name in ("transpose", "transpose_grad"):
        order = [axis % max(1, rank) for axis in infer.integers(step, "perm")]
        if name == "transpose_grad":
            back = [0] * len(order)
            for place, axis in enumerate(order):
                back[axis] = place
            order = back
        return [strides[axis] for axis in order]
    if name in ("real", "imag"):
        return [2 * stride for stride in strides]
    if name == "as_strided":
        return list(infer.integers(step, "stride"))
    if name == "unbind":
        axis = infer.integer(step, "axis", 0) % rank
        return [stride for place, stride in enumerate(strides) if place != axis]
    if name == "diagonal":
        axes = [infer.integer(step, "axis1", 0) % rank, infer.integer(step, "axis2", 1) % rank]
        others = [stride for place, stride in enumerate(strides) if place not in axes]
        return [*others, strides[axes[0]] + strides[axes[1]]]
    if name == "tensor_unfold":
        axis = infer.integer(step, "axis", 0) % rank
        windows = [*strides, strides[axis]]
        windows[axis] = strides[axis] * infer.integer(step, "step", 1)
        return windows
    left = list(strides)
    if name == "strided_slice":
        for axis, times in zip(infer.integers(step, "axes"), _integers(step, 3)):
            left[axis] *= times
    gone = {axis % rank for axis in infer.integers(step, "decrease_axis")}
    return [value for place, value in enumerate(left) if place not in gone]


def _integers(step: Step, operand: int) -> Sequence[int]:
    """Return the numbers that an operand holds, where it is an attribute of the call."""
    define = step.op.operands_source()[operand].get_defining_op()
    value = define.attrs().get("value") if define is not None else None
    return value if isinstance(value, (list, tuple)) else ()
