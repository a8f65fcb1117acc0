"""Paddle's auto_growth allocator, simulated: what a GPU process reserves for a trace.

Paddle 3.3.1: sizes round up to 256 bytes; best fit over all free blocks; a miss takes one chunk
of exactly the rounded size; a freed block merges with its neighbours inside its chunk; chunks go
back to the driver only when an allocation fails, which a job that fits never sees.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from gpuconsole.preflight.memory.backends import Terms
from gpuconsole.preflight.memory.liveness import peak
from gpuconsole.preflight.memory.trace import Trace

ALIGNMENT = 256
"""GpuMinChunkSize of Paddle's allocator, bytes; other back ends have their own."""


class _Block:
    __slots__ = ("after", "before", "free", "size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self.free = False
        self.before: _Block | None = None
        self.after: _Block | None = None


class AutoGrowth:
    """The allocator's free list. Addresses only order blocks; chunks never touch one another."""

    def __init__(self, alignment: int = ALIGNMENT, padding: int = 0) -> None:
        self._alignment, self._padding = alignment, padding
        self.reserved = 0
        self._top = 0
        self._free: list[tuple[int, int]] = []
        self._blocks: dict[int, _Block] = {}

    def take(self, nbytes: int) -> _Block:
        """Allocate a block of `nbytes`, growing by one chunk when nothing free is large enough."""
        size = -(-(nbytes + self._padding) // self._alignment) * self._alignment
        place = bisect_left(self._free, (size, -1))
        if place == len(self._free):
            return self._grow(size)
        _, start = self._free.pop(place)
        block = self._blocks[start]
        if block.size == size:
            block.free = False
            return block
        # Paddle cuts the new block from the tail; the rest stays free.
        block.size -= size
        insort(self._free, (block.size, block.start))
        taken = _Block(block.start + block.size, size)
        taken.before, taken.after = block, block.after
        if block.after is not None:
            block.after.before = taken
        block.after = taken
        self._blocks[taken.start] = taken
        return taken

    def give(self, block: _Block) -> None:
        """Free a block and merge it with free neighbours of its chunk."""
        block.free = True
        after = block.after
        if after is not None and after.free:
            self._forget(after)
            self._join(block, after)
        before = block.before
        if before is not None and before.free:
            self._forget(before)
            self._join(before, block)
            block = before
        insort(self._free, (block.size, block.start))

    def _grow(self, size: int) -> _Block:
        block = _Block(self._top, size)
        self._top += size
        self.reserved += size
        self._blocks[block.start] = block
        return block

    def _forget(self, block: _Block) -> None:
        self._free.pop(bisect_left(self._free, (block.size, block.start)))

    def _join(self, left: _Block, right: _Block) -> None:
        left.size += right.size
        left.after = right.after
        if right.after is not None:
            right.after.before = left
        del self._blocks[right.start]


def reserved(trace: Trace, alignment: int = ALIGNMENT, padding: int = 0) -> int:
    """Return the bytes that the allocator holds at the end of a trace (it only grows).

    Each size grows by `padding` and is rounded up to `alignment`, bytes.
    """
    allocator = AutoGrowth(alignment, padding)
    held: dict[int, _Block] = {}
    for event in trace.events:
        if event < 0:
            block = held.pop(~event, None)
            if block is not None:
                allocator.give(block)
        elif trace.sizes[event]:
            held[event] = allocator.take(trace.sizes[event])
    return allocator.reserved


def fragmentation(trace: Trace, own: Terms) -> float:
    """Return what a back end's allocator reserves over what tensors need at their peak."""
    size = reserved(trace, own.alignment_bytes, own.padding_bytes)
    return size / max(1, peak(trace).total)
