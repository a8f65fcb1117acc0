"""Second derivatives that Paddle makes of other operators, and can so differentiate again.

Each is written as its eager mode runs it (measured with 3.3.1): which operators, in which order,
and what lives until its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..allocation import new
from ..inference import infer
from ..state import STATE
from .nodes import SECOND, Node, Saved, edge_of, in_block, keepers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..inference.infer import Step
    from ..tensor.tensor import Tensor
    from ..types import Grads, OneTensor


def _op(name: OneTensor, *args: object) -> Tensor:
    return STATE.call(name, args, {})


def _as_large(product: Tensor, like: Tensor) -> Tensor:
    """Sum a product over the axes along which an operand was repeated."""
    wanted = like.m_shape
    if product.m_shape == wanted:
        return product
    gap = len(product.m_shape) - len(wanted)
    axes = [place for place, extent in enumerate(product.m_shape)
            if place < gap or (wanted[place - gap] == 1 and extent != 1)]  # fmt: skip
    return _op("reshape", _op("sum", product, axes, None, False), list(wanted))


def _added(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Add the two terms of a product's derivative, of which one may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return _op("add", first, second)


def multiply(
    step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]
) -> Grads:
    """Second derivative of a product of elements."""
    (x, y, grad), (for_x, for_y) = operands, arrived
    results: Grads = [None, None, None]
    if wants[0] and for_y is not None:
        results[0] = _as_large(_op("multiply", for_y, grad), x)
    if wants[1] and for_x is not None:
        results[1] = _as_large(_op("multiply", for_x, grad), y)
    if wants[2]:
        first = None if for_x is None else _op("multiply", for_x, y)
        results[2] = _added(first, None if for_y is None else _op("multiply", for_y, x))
    return results


def matmul(step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]) -> Grads:
    """Second derivative of a product of matrices."""
    (x, y, grad), (for_x, for_y) = operands, arrived
    over, under = infer.flag(step, "transpose_x"), infer.flag(step, "transpose_y")
    results: Grads = [None, None, None]
    if wants[0] and for_y is not None:
        pair = (for_y, grad, under, True) if over else (grad, for_y, False, not under)
        results[0] = _as_large(_op("matmul", *pair), x)
    if wants[1] and for_x is not None:
        pair = (grad, for_x, True, over) if under else (for_x, grad, not over, False)
        results[1] = _as_large(_op("matmul", *pair), y)
    if wants[2]:
        first = None if for_x is None else _op("matmul", for_x, y, over, under)
        second = None if for_y is None else _op("matmul", x, for_y, over, under)
        results[2] = _added(first, second)
    return results


def silu(step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]) -> Grads:
    """Second derivative of `x * sigmoid(x)`."""
    (x, out, grad), (for_x,) = operands, arrived
    results: Grads = [None, None, None]
    if for_x is None:
        return results
    share = _op("sigmoid", x)
    rest = _op("scale", share, -1.0, 1.0, True)
    slope = _op("scale", _op("multiply", rest, x), 1.0, 1.0, True)
    shared = _op("multiply", share, for_x)
    if wants[2]:
        results[2] = _op("multiply", shared, slope)
    if wants[0]:
        # As in C++ every part of an expression lives until its end.
        less = _op("subtract", slope, out)
        bend = _op("scale", less, 1.0, 1.0, True)
        first = _op("multiply", shared, grad)
        second = _op("multiply", first, bend)
        results[0] = _op("multiply", second, rest)
        del less, bend, first, second
    return results


def tanh(step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]) -> Grads:
    """Third derivative of `tanh`: that of its second one by its output, the gradient and what
    arrived there."""
    (out, grad, onward), (for_grad, for_onward) = operands, arrived
    both: Tensor | None
    results: Grads = [None, None, None]
    if for_grad is None and for_onward is None:
        return results
    # What is needed more than once is made first, and lives until the end.
    twice = _op("scale", out, -2.0, 0.0, True)
    if for_onward is None:
        both = _op("multiply", onward, for_grad)
        if wants[0]:
            results[0] = _op("multiply", _op("scale", grad, -2.0, 0.0, True), both)
        if wants[2]:
            results[2] = _op("multiply", _op("multiply", twice, grad), for_grad)
        if wants[1]:
            results[1] = _op("multiply", twice, both)
        return results
    both = None if for_grad is None else _op("multiply", grad, for_grad)
    if wants[0]:
        results[0] = _tanh_by_output(twice, both, operands, for_onward)
    if wants[1] and for_grad is not None:
        results[1] = _op("multiply", _op("multiply", twice, onward), for_grad)
    if wants[2]:
        # As in C++ every part of an expression lives until its end.
        square = _op("multiply", out, out)
        less = None if both is None else _op("multiply", twice, both)
        rest = _op("scale", square, -1.0, 1.0, True)
        results[2] = _added(_op("multiply", rest, for_onward), less)
        del square, less, rest
    return results


def _tanh_by_output(
    twice: Tensor, both: Tensor | None, operands: Sequence[Tensor], for_onward: Tensor
) -> Tensor:
    out, _, onward = operands
    if both is None:
        return _op("multiply", _op("multiply", twice, onward), for_onward)
    product = _op("multiply", out, for_onward)
    total = _op("add", product, both)
    share = _op("scale", onward, -2.0, 0.0, True)
    result = _op("multiply", total, share)
    del product, total, share
    return result


def exp(step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]) -> Grads:
    """Second derivative of `exp`, which is a product of its output and the gradient."""
    (out, grad), (for_x,) = operands, arrived
    results: Grads = [None, None]
    if wants[0] and for_x is not None:
        results[0] = _op("multiply", for_x, grad)
    if wants[1] and for_x is not None:
        results[1] = _op("multiply", for_x, out)
    return results


def sigmoid(step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]) -> Grads:
    """Third derivative of `sigmoid`: one kernel makes what is wanted."""
    there = any(grad is not None for grad in arrived)
    return [
        new(operand.m_shape, operand.m_dtype, "sigmoid_triple_grad") if wanted and there else None
        for operand, wanted in zip(operands, wants)
    ]


def add(step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]) -> Grads:
    """Third derivative of a sum: what has arrived goes on to each of the two that were added, and
    not to the operands before them, of which the shapes alone are read."""
    (grad,) = arrived
    return [
        _as_large(grad, operand) if place > 1 and wanted and grad is not None else None
        for place, (operand, wanted) in enumerate(zip(operands, wants))
    ]


def subtract(
    step: Step, operands: Sequence[Tensor], arrived: Grads, wants: Sequence[bool]
) -> Grads:
    """Third derivative of a difference: as that of a sum, with the sign of the second turned."""
    results = add(step, operands, arrived, wants)
    if len(results) > 3 and results[3] is not None:
        results[3] = _op("scale", results[3], -1.0, 0.0, True)
    return results


COMPOSITES: dict[str, Callable[[Step, Sequence[Tensor], Grads, Sequence[bool]], Grads]] = {
    "matmul_grad": matmul, "multiply_grad": multiply, "silu_grad": silu, "tanh_double_grad": tanh,
    "add_double_grad": add, "subtract_double_grad": subtract, "exp_grad": exp,
    "sigmoid_double_grad": sigmoid,
}  # fmt: skip
"""By operator of a gradient: what makes its own derivative of its operands and what arrived."""
INVISIBLE = {"silu_grad": (1,)}
"""Operands that it reads without a derivative by them."""
FILLED = frozenset({"tanh_double_grad"})
"""Operators that fill with zeros what did not arrive for their derivative."""


class CompositeNode(Node):
    """The derivative of a gradient's operator, made of other operators."""

    def __init__(self, step: Step, operands: Sequence[Tensor], outputs: Grads) -> None:
        self.step = step
        self.count = len(outputs)
        self.slots = [place for place, output in enumerate(outputs) if output is not None]
        self.saved = [Saved(operand) for operand in operands]
        hidden = list(INVISIBLE.get(step.name, ()))
        if step.name == "matmul_grad":
            # Paddle leads to a factor only from the gradient of the other one.
            hidden = [1 - place for place, output in enumerate(outputs) if output is None]
        edges = [
            None if place in hidden else edge_of(operand) for place, operand in enumerate(operands)
        ]
        self.origins = [edge_of(operand) for operand in operands]
        self.specs = [infer.Spec(operand.m_shape, operand.m_dtype) for operand in operands]
        super().__init__(step.name, edges, [output for output in outputs if output is not None])
        self.keepers = keepers(operands)

    def run(self, grads: Grads, graph: bool, wants: Sequence[bool]) -> Grads:
        """Run the operators; they can be differentiated again where that is asked for."""
        arrived: Grads = [None] * self.count
        for slot, grad, (shape, dtype) in zip(self.slots, grads, self.outputs):
            lacking = grad is None and self.step.name in FILLED
            arrived[slot] = new(shape, dtype, "full_like") if lacking else grad
        grads.clear()
        operands = [self._operand(place) for place in range(len(self.saved))]
        before = STATE.core._has_grad()
        STATE.core._set_has_grad(bool(graph))
        try:
            return COMPOSITES[self.step.name](self.step, operands, arrived, wants)
        finally:
            STATE.core._set_has_grad(before)

    def _operand(self, place: int) -> Tensor:
        """Return an operand with the graph behind it."""
        saved, edge = self.saved[place], self.origins[place]
        leaf = edge.end() if edge is not None else None
        if leaf is not None:
            return leaf
        tensor = in_block(saved.open(), self.specs[place])
        tensor.m_strides = saved.strides
        if edge is not None and edge.node is not None:
            tensor.m_node, tensor.m_slot, tensor.stop_gradient = edge.node, edge.slot, False
        return tensor

    def release(self) -> None:
        """Let go of what was saved."""
        self.saved.clear()
        self.origins.clear()
        super().release()


def install() -> None:
    """Let these derivatives be made of other operators from now on."""
    SECOND.update(dict.fromkeys(COMPOSITES, CompositeNode))
