"""Lengths that only data could tell, and that a later operator settles.

What a mask picks is taken to be as long as it can be. Where the script then reshapes it, or
puts it beside a tensor of a known length, that tells how many there are: `x[mask].reshape([4, 32])`
has 128. From then on what is picked at that line has this share of the largest length.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..inference import bounds
from ..sizes import count
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor.tensor import Tensor
    from ..types import Result

RESHAPES = frozenset({"reshape", "reshape_"})


def share(name: str) -> Fraction | None:
    """Return what share of its largest length an operator's result has at this line of the script;
    None for all, where nothing has settled it."""
    return STATE.settled.get(_site(name), STATE.part)


def mark(name: str, sizes: object, tensors: Sequence[Tensor], result: Result) -> None:
    """Note which results are only as long as they can be, and what is made of these alone."""
    if name in bounds.DECIDING and name in bounds.LARGEST and sizes is None:
        opened = _site(name)
        shapes = None
    else:
        opens = [tensor for tensor in tensors if "m_open" in tensor.__dict__]
        if not opens:
            return
        opened, shapes = opens[0].__dict__["m_open"], {tensor.m_shape for tensor in opens}
    for tensor in result if isinstance(result, (list, tuple)) else [result]:
        if isinstance(tensor, STATE.tensor) and (shapes is None or tensor.m_shape in shapes):
            tensor.__dict__["m_open"] = opened


def cut(name: str, args: Sequence[object], tensors: Sequence[Tensor]) -> tuple[object, ...] | None:
    """Return the arguments of an operator with shapes that collide, with a tensor that was as long
    as it can be cut to the length that fits; None where none does."""
    for tensor in tensors:
        if "m_open" not in tensor.__dict__ or not tensor.m_shape:
            continue
        length = _length(name, tensor, args, tensors)
        if length is None or not 0 < length < tensor.m_shape[0]:
            continue
        STATE.settled[tensor.__dict__["m_open"]] = Fraction(length, tensor.m_shape[0])
        shorter = STATE.call("slice", (tensor, [0], [0], [length], [1], []), {})
        return tuple(shorter if argument is tensor else argument for argument in args)
    return None


def _length(
    name: str, tensor: Tensor, args: Sequence[object], tensors: Sequence[Tensor]
) -> int | None:
    """Return the length with which a tensor's shape fits, None where nothing tells it."""
    row = count(tensor.m_shape[1:])
    if name in RESHAPES:
        shape = args[1] if len(args) > 1 else ()
        if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n > 0 for n in shape):
            return None
        number = count(shape)
        return number // row if row and number % row == 0 else None
    others = [
        item.m_shape[0]
        for item in tensors
        if item is not tensor and len(item.m_shape) == len(tensor.m_shape)
    ]
    return min(others, default=None)


def _site(name: str) -> str:
    return f"{STATE.where()}{name}"
