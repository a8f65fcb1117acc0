"""Recurrent nets that run as one operator: what their kernel keeps no shape inference tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..allocation import new, twin
from ..autograd import nodes
from ..ledger import Block
from ..sizes import ITEM, word
from ..state import STATE, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddle.base.core import DataType

    from ..tensor.tensor import Tensor
    from ..types import Grads, Result, Shape


class Cell(NamedTuple):
    """One kind of cell, measured with Paddle 3.3.1 on a CPU: exact for all sizes tried.

    `reserve` counts direction x time x batch x hidden elements for each layer, `work` such units
    and `recurred` batch x hidden in backward, `square` hidden x hidden in forward. In evaluation
    nothing is kept; `gates` such units and `small` batch x hidden are needed for a moment.
    """

    states: int
    reserve: int
    work: int
    recurred: int
    square: int
    gates: int
    small: int


CELLS = {
    "LSTM": Cell(2, 7, 4, 4, 0, 4, 3), "GRU": Cell(1, 5, 3, 3, 3, 3, 3),
    "RNN_TANH": Cell(1, 2, 1, 2, 0, 1, 1), "RNN_RELU": Cell(1, 2, 1, 2, 0, 1, 1),
}  # fmt: skip


class Room(NamedTuple):
    """Bytes of one run over a sequence: kept for backward, and needed for a moment."""

    reserve: int
    dropped: int
    forward: int
    backward: int
    evaluated: int
    """Needed for a moment by a net that is evaluated."""


class Batch(Protocol):
    """What a net runs over, [time, batch, features]: a tensor, or what a program has of it."""

    m_shape: Shape
    m_dtype: DataType
    stop_gradient: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""


def room(cell: Cell, x: Batch, hidden: int, layers: int, sides: int, masked: bool) -> Room:
    """Return what the kernel keeps and needs, in bytes; x: [time, batch, features]."""
    item = ITEM[word(x.m_dtype)]
    steps, batch = x.m_shape[:2]
    state = batch * hidden * item
    whole = steps * state
    mask = steps * batch * item if masked else 0
    between = (layers > 1) + (sides > 1)
    forward = state + between * sides * whole + cell.square * hidden**2 * item
    backward = cell.work * sides + 4 * (sides > 1)
    backward += min(layers, 3) * sides if layers > 1 else 0
    # The first layer comes last. With up to two layers the input's gradient is there twice by
    # then; once it is made even where it is not asked for.
    last = (0, x.nbytes, x.nbytes + sides * whole)[layers] if layers < 3 else 0
    extra = x.nbytes if x.stop_gradient else 0
    most = max(backward * whole + cell.recurred * state + mask + cell.states * state * masked, last)
    return Room(
        reserve=(cell.reserve * layers - 1) * sides * whole,
        dropped=sides * whole // item,
        forward=forward + mask,
        backward=extra + most,
        evaluated=forward + mask + cell.gates * sides * whole + (cell.small - 1) * state,
    )


class RecurrentNode(nodes.PlainNode):
    """The backward step of a recurrent net."""

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        saved: Sequence[Tensor],
        blocks: Sequence[Block],
        work: int,
    ) -> None:
        super().__init__("rnn", inputs, outputs, saved=saved)
        self.blocks = blocks
        self.work = work

    def run(self, grads: Grads, graph: bool, wants: Sequence[bool]) -> Grads:
        """Fill what did not arrive with zeros and make all gradients."""
        if graph:
            raise Unsupported("the second derivative of a recurrent net")
        given = [new(shape, dtype, "full_like") if grad is None else grad
                 for grad, (shape, dtype) in zip(grads, self.outputs)]  # fmt: skip
        copies = nodes.in_order(given)
        grads.clear()
        results = super().run([], graph, wants)
        STATE.ledger.scratch([self.work], "rnn_grad")
        del given, copies
        return results

    def release(self) -> None:
        """Let go of what was saved."""
        super().release()
        self.blocks = ()


def rnn(
    x: Tensor,
    starts: tuple[Tensor, ...],
    weights: Sequence[Tensor],
    lengths: Tensor | None,
    dropout_state: Tensor,
    dropout: float = 0.0,
    both: bool = False,
    width: int = 10,
    hidden: int = 100,
    layers: int = 1,
    mode: str = "RNN_TANH",
    seed: int = 0,
    is_test: bool = False,
    *_: object,
) -> Result:
    """Run over a sequence; x: [time, batch, features]. Returns output, dropout state and states."""
    cell, sides = CELLS[mode], 2 if both else 1
    space = room(cell, x, hidden, layers, sides, lengths is not None)
    copy = x
    if x.m_strides is not None:
        # Backward keeps the copy that the kernel made of a view in another order.
        copy = twin(x)
        copy.m_block = Block(STATE.ledger, x.nbytes, "contiguous")
    steps, batch = x.m_shape[:2]
    out = new((steps, batch, sides * hidden), x.m_dtype, "rnn")
    states = [new(start.m_shape, start.m_dtype, "rnn") for start in starts]
    sizes = () if is_test else (space.reserve, space.dropped)
    blocks = [Block(STATE.ledger, size, "rnn") for size in sizes]
    if STATE.backend == "cpu":
        STATE.ledger.scratch([space.evaluated if is_test else space.forward], "rnn")
    inputs = [x, *starts, *weights]
    if nodes.needed(inputs):
        saved = [copy, out, *starts, *([lengths] if lengths is not None else [])]
        work = space.backward if STATE.backend == "cpu" else 0
        RecurrentNode(inputs, [out, *states], saved, blocks, work)
    return out, dropout_state, states
