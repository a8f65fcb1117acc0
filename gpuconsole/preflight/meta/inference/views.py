"""Views: which operators share their input's memory, and how their elements lie in it.

Strides are in elements; None means a contiguous tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..sizes import count
from . import infer

if TYPE_CHECKING:
    from .infer import Step

SHAPED = frozenset({"reshape", "flatten", "squeeze", "unsqueeze", "view_shape", "view_dtype",
                    "reshape_grad", "flatten_grad", "squeeze_grad", "unsqueeze_grad",
                    "as_complex", "as_real", "share_data", "reshape_",
                    "flatten_", "squeeze_", "unsqueeze_"})  # fmt: skip
"""The same elements in another shape."""
PICKED = frozenset({"transpose", "slice", "strided_slice", "unbind", "diagonal", "as_strided",
                    "tensor_unfold", "transpose_grad", "view_slice"})  # fmt: skip
"""Some of the elements, or in another order."""
VIEWS = SHAPED | PICKED


def contiguous(shape: Any) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))


def plain(shape: Any, strides: tuple[int, ...]) -> tuple[int, ...] | None:
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
    shape: tuple[int, ...], strides: tuple[int, ...] | None, wanted: tuple[int, ...]
) -> tuple[bool | tuple[int, ...] | None, ...]:
    """Return (whether a view can be made, its strides) for another shape of the same elements."""
    if strides is None or count(shape) == 0:
        return True, None
    pairs = [(extent, stride) for extent, stride in zip(shape, strides) if extent != 1]
    new_strides: list[Any] = []
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


def picked(step: Any, x: Any, shape: Any) -> tuple[int, ...] | None:
    """Return the strides of what `transpose`, `slice` and the like make of a tensor."""
    name = step.name
    strides = x.m_strides or contiguous(x.m_shape)
    attrs = infer.attributes(step)
    if name in ("transpose", "transpose_grad"):
        order = [axis % max(1, len(strides)) for axis in attrs["perm"]]
        if name == "transpose_grad":
            back = [0] * len(order)
            for place, axis in enumerate(order):
                back[axis] = place
            order = back
        picked_strides = [strides[axis] for axis in order]
    elif name == "as_strided":
        picked_strides = list(attrs["stride"])
    elif name == "unbind":
        axis = attrs.get("axis", 0) % len(strides)
        picked_strides = [stride for place, stride in enumerate(strides) if place != axis]
    elif name == "diagonal":
        axes = [attrs.get("axis1", 0) % len(strides), attrs.get("axis2", 1) % len(strides)]
        picked_strides = [stride for place, stride in enumerate(strides) if place not in axes]
        picked_strides.append(strides[axes[0]] + strides[axes[1]])
    elif name == "tensor_unfold":
        axis = attrs.get("axis", 0) % len(strides)
        picked_strides = [*strides, strides[axis]]
        picked_strides[axis] = strides[axis] * attrs.get("step", 1)
    else:
        picked_strides = list(strides)
        if name == "strided_slice":
            for axis, times in zip(attrs["axes"], _integers(step, 3)):
                picked_strides[axis] *= times
        gone = {axis % len(strides) for axis in attrs.get("decrease_axis", ())}
        picked_strides = [value for place, value in enumerate(picked_strides) if place not in gone]
    if len(picked_strides) != len(shape):
        return contiguous(shape)
    return plain(shape, tuple(picked_strides))


def _integers(step: Step, operand: int) -> Any:
    """Return the numbers that an operand holds, where it is an attribute of the call."""
    define = step.op.operands_source()[operand].get_defining_op()
    return define.attrs().get("value", ()) if define is not None else ()
