"""Batches that are filled with copies of one sample, where samples are tensors: what such a batch
is made of, and what making it did to the record of memory.

Later batches are made in its form. The record then says what it would say had they been made of
copies too: how far a run goes on hangs on how much was done, and on the most that was held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..allocation import new
from ..ledger import Block
from ..sizes import nbytes
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddle.base.core import DataType

    from ..tensor.tensor import Tensor


class Made(NamedTuple):
    """A tensor of a batch: what another is made by."""

    shape: tuple[int, ...]
    dtype: DataType
    name: str
    """That of its block."""


class Done(NamedTuple):
    """What was done to make a batch."""

    events: int
    above: int
    """The most bytes that were held meanwhile beside those that were held before."""


class Copies(list[object]):
    """Samples, and the memory of copies that were not made, for as long as there are samples."""

    def __init__(self, samples: list[object], nbytes: int) -> None:
        super().__init__(samples)
        self.others = Block(STATE.ledger, 0, "copies")
        STATE.ledger.resized(self.others, nbytes)


def _done() -> int:
    """Return how many events there were, and would have been."""
    return len(STATE.ledger.events) + STATE.ledger.spared


class CopiedTensors:
    """Describes and makes the tensors of batches that are filled with copies."""

    def __init__(self) -> None:
        self._began: tuple[int, int, int] | None = None
        """Events, bytes held and their peak when the making of a batch began."""
        self._first = 0
        """The first block since then."""
        self._described: set[int] = set()
        """Blocks of the batch that were described."""

    def spec(self, value: object) -> Made | None:
        """Return what a tensor is made by; None of one with anything that another lacks."""
        if type(value) is not STATE.tensor:
            return None
        block = value.m_block
        if block is None or block.nbytes != nbytes(value.m_shape, value.m_dtype):
            return None
        if block.index < self._first or block.index in self._described:
            return None
        if not value.stop_gradient or value.m_node is not None or value.m_strides is not None:
            return None
        if value.m_rows or value.m_parts or value.m_place or value.m_hooks:
            return None
        if any(noted is not None for noted in vars(value).values()):
            return None
        self._described.add(block.index)
        return Made(value.m_shape, value.m_dtype, STATE.ledger.names[block.index])

    def made(self, spec: object) -> Tensor:
        """Return a tensor like the one that was described."""
        assert isinstance(spec, Made)
        return new(*spec)

    def copies(self, make: Callable[[], object], count: int) -> list[object]:
        """Return one copy in the place of many; the record is as if all had been made."""
        ledger = STATE.ledger
        events, live, peak = len(ledger.events), ledger.live, ledger.peak
        ledger.peak = live
        copy = make()
        since, each = ledger.events[events:], ledger.live - live
        above = ledger.peak - live
        left = sum(1 if event >= 0 else -1 for event in since)
        others = count - 1
        ledger.peak = max(peak, live + others * each + above)
        # Each is released with the samples; the block for all of them comes and goes too.
        ledger.spared += others * (len(since) + left) - 2
        return Copies([copy] * count, others * each)

    def begin(self) -> None:
        """Copies are made from now on, and then a batch of them."""
        self.end()
        ledger = STATE.ledger
        self._began = (_done(), ledger.live, ledger.peak)
        self._first = len(ledger.sizes)
        self._described.clear()
        ledger.peak = ledger.live

    def end(self) -> Done:
        """Return what has been done since then; the batch is made, its samples are released."""
        ledger = STATE.ledger
        if self._began is None:
            return Done(0, 0)
        events, live, peak = self._began
        self._began = None
        done = Done(_done() - events, ledger.peak - live)
        ledger.peak = max(peak, ledger.peak)
        return done

    def instead(self, done: object) -> None:
        """A batch was made in the form of one that took so much: the record is as after that."""
        assert isinstance(done, Done)
        ledger = STATE.ledger
        live = ledger.live if self._began is None else self._began[1]
        own = self.end()
        ledger.spared += done.events - own.events
        ledger.peak = max(ledger.peak, live + done.above)
