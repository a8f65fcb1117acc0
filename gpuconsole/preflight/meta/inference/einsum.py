"""What `einsum` keeps and takes: operands as matrices, in their own memory where their order fits.

The kernel lays the first operand out as batch, own, summed axes and the second as batch, summed,
own; it multiplies, and turns the product where its axes are asked for in another order. Measured
with 3.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..allocation import new, twin
from ..sizes import nbytes
from . import infer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor.tensor import Tensor
    from ..types import Rows
    from .infer import Spec, Step


def cached(step: Step, inputs: Rows, slot: int, place: int) -> Tensor | None:
    """Return what the kernel keeps of an operand: `slot` 1 is its matrix, others have no memory."""
    operands = inputs[0]
    if slot != 1 or place >= len(operands):
        return None
    x = operands[place]
    if x is None:
        return None
    if in_place(infer.text(step, "equation"), place, len(x.m_shape)):
        copy = twin(x)
        copy.m_block, copy.m_strides = x.m_block, x.m_strides
        return copy
    return new(x.m_shape, x.m_dtype, "einsum")


def _split(equation: str) -> tuple[list[str], str]:
    left, _, right = equation.replace(" ", "").partition("->")
    return left.split(","), right


def _axes(terms: Sequence[str], right: str, place: int) -> tuple[list[str], ...]:
    """Return an operand's axes by use: batch (in the first operand's order), own, summed."""
    mine = terms[place]
    others = "".join(term for at, term in enumerate(terms) if at != place)
    batch = [axis for axis in terms[0] if axis in mine and axis in others and axis in right]
    own = [axis for axis in mine if axis not in others and axis in right]
    summed = [axis for axis in mine if axis in others and axis not in right]
    return batch, own, summed


def in_place(equation: str, place: int, rank: int) -> bool:
    """Tell whether an operand's axes are in the kernel's order."""
    terms, right = _split(equation)
    if len(terms) < 2 or place >= len(terms):
        return False
    if len(terms[place].replace("...", "")) > rank:
        return False
    batch, own, summed = _axes(terms, right, place)
    return list(terms[place]) == batch + (summed + own if place else own + summed)


def turned(equation: str) -> bool:
    """Tell whether a product has its axes in another order than is asked for."""
    terms, right = _split(equation)
    if len(terms) != 2:
        return len(terms) > 1
    batch, own, _ = _axes(terms, right, 0)
    return list(right) != batch + own + _axes(terms, right, 1)[1]


def temporary(equation: str, out: int) -> list[int]:
    """Return what the kernel takes for a moment, in bytes; `out` is its result's size."""
    return [out] if turned(equation) else []


def work(equation: str, specs: Sequence[Spec]) -> int:
    """Return what backward takes, its results among that, in bytes: each gradient is an `einsum`
    of its own of the gradient that arrives (the last of `specs`) and the other operands."""
    terms, right = _split(equation)
    sizes = [nbytes(spec.shape, spec.dtype) for spec in specs]
    arrived, operands = sizes[-1], sizes[: len(terms)]
    most = 2 * sum(operands)
    for place, term in enumerate(terms):
        others = [at for at in range(len(terms)) if at != place]
        parts = [(right, arrived), *((terms[at], operands[at]) for at in others)]
        if not place:
            # The gradient comes last where that of the first operand is computed.
            parts.append(parts.pop(0))
        asked = f"{','.join(text for text, _ in parts)}->{term}"
        # For the last gradient the first operand is laid out afresh in any case.
        copies = sum(size for at, (_, size) in enumerate(parts)
                     if (place and at) or not in_place(asked, at, 99))  # fmt: skip
        gradient = operands[place] * (2 if turned(asked) else 1)
        most = max(most, sum(operands) + copies + gradient)
    return most
