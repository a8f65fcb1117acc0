"""What `einsum` keeps: operands as matrices, in their own memory where their order fits."""

from __future__ import annotations

from typing import Any

from . import infer
from .sizes import nbytes
from .tensor import new, twin


def cached(step: Any, inputs: Any, slot: Any, place: Any) -> Any:
    """Return what the kernel keeps of an operand: `slot` 1 is its matrix, others have no memory."""
    operands = inputs[0]
    if slot != 1 or place >= len(operands):
        return None
    x = operands[place]
    if in_place(infer.attributes(step)["equation"], place, len(x.m_shape)):
        made = twin(x)
        made.m_block, made.m_strides = x.m_block, x.m_strides
        return made
    return new(x.m_shape, x.m_dtype, "einsum")


def in_place(equation: Any, place: Any, rank: Any) -> bool:
    """Tell whether an operand's axes are in the kernel's order: batch, its own, summed over."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) < 2 or place >= len(terms):
        return False
    mine = terms[place]
    if len(mine.replace("...", "")) > rank:
        return False
    others = "".join(term for at, term in enumerate(terms) if at != place)
    batch = [one for one in mine if one in others and one in right]
    own = [one for one in mine if one not in others and one in right]
    summed = [one for one in mine if one in others and one not in right]
    return list(mine) == batch + own + summed


def work(equation: Any, specs: Any) -> Any:
    """Return what backward takes for a moment, in bytes: each gradient is an `einsum` of its own
    of the gradient that arrives (the last of `specs`) and the other operands."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    sizes = [nbytes(one.shape, one.dtype) for one in specs]
    most = 0
    for place, term in enumerate(terms):
        others = [at for at in range(len(terms)) if at != place and at < len(sizes)]
        turned = f"{','.join([right, *(terms[at] for at in others)])}->{term}"
        total = 0
        for at, size in enumerate([sizes[-1], *(sizes[one] for one in others)]):
            if not in_place(turned, at, 99):
                total += size
        most = max(most, total + (sizes[place] if place < len(sizes) else 0))
    return [most]
