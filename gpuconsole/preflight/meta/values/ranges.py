"""What is known of data that is not: chances lie from 0 to 1, a sum with a number is that much
more, and of what marks one of some classes one point in so many is set.

A script that cuts `x[top:top + 8]` at places that only data determines has 8 rows whatever they
are; a metric may refuse a chance above 1; and as many points of a mask are picked as it has rows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..sizes import FLOATS, word
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor.tensor import Tensor

CHANCES = frozenset({"sigmoid", "softmax", "hardsigmoid", "gumbel_softmax"})
"""Operators that give numbers from 0 to 1."""
ALONG = frozenset({"slice", "strided_slice", "cast", "reshape", "squeeze", "unsqueeze", "flatten",
                   "transpose", "clone", "assign", "expand", "expand_as", "tile", "gather",
                   "gather_nd", "index_select", "index_sample", "take_along_axis", "flip", "roll",
                   "mean", "max", "min"})  # fmt: skip
"""Operators that hand numbers on as they are."""
TOGETHER = frozenset({"concat", "stack"})
"""Operators that put some beside each other."""
PARTS = frozenset({"slice", "strided_slice", "gather", "gather_nd", "index_select", "index_sample",
                   "take_along_axis", "mean", "max", "min"})  # fmt: skip
"""Operators that hand on some alone: how many are set among these is not known."""
WITHIN = frozenset({"multiply", "minimum", "maximum"})
"""Operators that make a number from 0 to 1 of two such."""
PICKS = {"nonzero": 0, "masked_select": 1}
"""Operators that pick what is set, and which operand tells that."""
NOTED = CHANCES | ALONG | TOGETHER | WITHIN | {"scale", "add", "subtract", "one_hot", "clip"}


def note(name: str, args: Sequence[object], result: object) -> None:
    """Note what is known of what an operator made."""
    if name not in NOTED or not isinstance(result, STATE.tensor):
        return
    if name in CHANCES:
        result.__dict__["m_chance"] = True
    elif name == "one_hot":
        result.__dict__["m_set"] = Fraction(1, max(1, result.m_shape[-1]))
    elif name in WITHIN or name == "clip":
        if _within(name, args):
            result.__dict__["m_chance"] = True
    elif name in TOGETHER:
        rows = args[0] if args else ()
        if isinstance(rows, (list, tuple)) and rows and all(map(_marked, rows)):
            result.__dict__["m_chance"] = True
    elif name in ALONG:
        _hand_on(args[0], result, lost=("m_set",) if name in PARTS else ())
    else:
        _sum(name, args, result)


def _within(name: str, args: Sequence[object]) -> bool:
    """Tell whether an operator's numbers lie from 0 to 1: bounds that do hold whatever is cut."""
    if name != "clip":
        return all(map(_marked, args[:2]))
    low, high = args[1:3]
    bounded = [isinstance(bound, (int, float)) and 0 <= bound <= 1 for bound in (low, high)]
    return all(bounded) or (any(bounded) and _marked(args[0]))


def _marked(row: object) -> bool:
    return "m_chance" in getattr(row, "__dict__", ())


def forget(tensor: object) -> None:
    """A tensor is written to: what was known of it holds no more."""
    if isinstance(tensor, STATE.tensor):
        for name in ("m_chance", "m_more", "m_set"):
            tensor.__dict__.pop(name, None)


def more(tensor: Tensor) -> int:
    """Return how much more the numbers of a tensor are than data that is not known."""
    return int(tensor.__dict__.get("m_more", 0))


def is_chance(tensor: Tensor) -> bool:
    """Tell whether the numbers of a tensor lie from 0 to 1."""
    return "m_chance" in tensor.__dict__


def picked(name: str, args: Sequence[object]) -> Fraction | None:
    """Return what share of all points an operator picks, None where that is not known."""
    place = PICKS.get(name)
    if place is None or place >= len(args):
        return None
    share: Fraction | None = getattr(args[place], "__dict__", {}).get("m_set")
    return share


def _hand_on(given: object, result: Tensor, lost: tuple[str, ...]) -> None:
    if not isinstance(given, STATE.tensor):
        return
    for name in ("m_chance", "m_more", "m_set"):
        if name in given.__dict__ and name not in lost:
            result.__dict__[name] = given.__dict__[name]


def _sum(name: str, args: Sequence[object], result: Tensor) -> None:
    """Note the sum with a number, and what is left of 1."""
    x = args[0]
    factor: object
    bias: object
    if not isinstance(x, STATE.tensor) or x.m_known is not None:
        return
    if name != "scale":
        other = _only(args[1])
        factor, bias = 1, other if name == "add" or other is None else -other
    elif len(args) > 3 and args[3]:
        factor, bias = args[1], args[2]
    else:
        return
    if (factor, bias) == (-1, 1) and is_chance(x):
        result.__dict__["m_chance"] = True
    whole = word(x.m_dtype) not in FLOATS and word(x.m_dtype) != "bool"
    if factor == 1 and whole and isinstance(bias, (int, float)) and bias == int(bias):
        result.__dict__["m_more"] = more(x) + int(bias)


def _only(value: object) -> float | None:
    """Return the number that all elements of a known tensor are, None where there is none."""
    held = value.m_known if isinstance(value, STATE.tensor) else None
    if held is None:
        return None
    with STATE.scratch():
        array = held.numpy().reshape(-1)
    return array[0].item() if array.size and (array == array[0]).all() else None
