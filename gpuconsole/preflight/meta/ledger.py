"""Memory events of the run: blocks are born with a size and released when nothing holds them.

A block's life is that of its Python object, so the reference counts of CPython decide it exactly
as Paddle's shared pointers would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..probe.documents import Run

KINDS = ("", "parameters", "gradients", "optimizer", "inputs", "waiting")
"""What blocks are, as the probe's document numbers it."""


class Block:
    """One allocation; released with the last reference to it."""

    __slots__ = ("__weakref__", "index", "ledger", "lent", "nbytes")

    def __init__(self, ledger: Ledger, nbytes: int, name: str, inside: bool = False) -> None:
        if ledger.stretch is not None:
            nbytes = ledger.stretch(nbytes)
        self.ledger = ledger
        self.nbytes = nbytes
        self.lent = False
        """Whether a program was given it, which does not write into it."""
        self.index = ledger.born(nbytes, name, inside)

    def __del__(self) -> None:
        self.ledger.dead(self)


class Ledger:
    """All memory events, in order: an event is a block's number, inverted where it is released."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.sizes: list[int] = []
        self.names: list[str] = []
        self.kinds: list[str] = []
        self.inside: set[int] = set()
        self.cycles: list[int] = []
        self.dropped: set[int] = set()
        self.collecting = False
        """Whether Python's collector runs, at a time that the script has not chosen."""
        self.collected: set[int] = set()
        """Blocks that it released."""
        self.window = 0
        self.since: dict[int, int] = {}
        self.live = 0
        self.peak = 0
        self.held: list[tuple[int, int]] = []
        """The most that was held until the end of each cycle, and what was held then, in bytes."""
        self.calls = 0
        self.spared = 0
        """Events that making batches as they are made at first would have had beside these."""
        self.stretch: Callable[[int], int] | None = None
        """What makes sizes in bytes those of a longer run, where batches of it are left out."""

    def born(self, nbytes: int, name: str, inside: bool = False) -> int:
        """Record an allocation in bytes and return its number."""
        index = len(self.sizes)
        self.sizes.append(nbytes)
        self.names.append(name)
        self.kinds.append("")
        self.events.append(index)
        if inside:
            self.inside.add(index)
        if self.window:
            self.since[index] = self.window
        self.live += nbytes
        if self.live > self.peak:
            self.peak = self.live
        return index

    def dead(self, block: Block) -> None:
        """Record a release."""
        self.events.append(~block.index)
        self.live -= block.nbytes
        if self.collecting:
            self.collected.add(block.index)
        if self.window and self.since.pop(block.index, 0) == self.window:
            # Born and gone while samples were fetched: on a device nothing of it is seen.
            self.dropped.add(block.index)

    def left_to_collector(self, trainings: Sequence[int]) -> tuple[int, int]:
        """Return the bytes at the peak that Python's collector may have released before it, and by
        how many the peak would be higher had it released nothing. `trainings` are the blocks that
        there were when each began: of two at least, those of one that goes on are of use."""
        live = most = at = held = highest = 0
        for place, event in enumerate(self.events):
            size = self.sizes[event] if event >= 0 else -self.sizes[~event]
            live += size
            if event >= 0 or ~event not in self.collected:
                held += size
            highest = max(highest, held)
            if live > most:
                most, at = live, place
        before = self.events[: at + 1]
        ends = [blocks for blocks in trainings if blocks <= max(before, default=0)]
        over = {block for block in self.collected if block < (ends[-2] if len(ends) > 1 else 0)}
        over.intersection_update(before)
        over.difference_update(~event for event in before if event < 0)
        return sum(self.sizes[block] for block in over), highest - most

    def resized(self, block: Block, nbytes: int) -> None:
        """Let a block that holds nothing be of a size in bytes as it is, not of a longer run."""
        block.nbytes = self.sizes[block.index] = nbytes
        self.live += nbytes
        self.peak = max(self.peak, self.live)

    def scratch(self, sizes: Sequence[int], name: str) -> None:
        """Record what a kernel takes for itself, in bytes, and releases at its end."""
        blocks = [Block(self, size, name, inside=True) for size in sizes if size]
        del blocks

    def tag(self, indices: Sequence[int | None], kind: str) -> None:
        """Say of what kind some blocks are; the first kind of a block is final."""
        for index in indices:
            if index is not None and not self.kinds[index]:
                self.kinds[index] = kind

    def cycle(self) -> None:
        """A cycle of the training ends here."""
        self.cycles.append(len(self.events))
        self.held.append((self.peak, self.live))

    def fetching(self, reader: int) -> None:
        """Samples are fetched for a reader (0: no more)."""
        self.window = reader
        self.since.clear()

    def as_json(self) -> Run:
        """Return the recording in the form of the probe's document."""
        blocks = [block for block in range(len(self.sizes)) if block not in self.dropped]
        number = {old: new for new, old in enumerate(blocks)}
        events: list[int] = []
        cycles: list[int] = []
        ends = set(self.cycles)
        for place, event in enumerate(self.events):
            if place in ends:
                cycles.append(len(events))
            block = event if event >= 0 else ~event
            if block in number:
                events.append(number[block] if event >= 0 else ~number[block])
        if len(self.events) in ends:
            cycles.append(len(events))
        words = sorted({self.names[block] for block in blocks})
        place_of = {word: place for place, word in enumerate(words)}
        return {
            "events": events,
            "cycles": cycles,
            "sizes": [self.sizes[block] for block in blocks],
            "names": words,
            "name": [place_of[self.names[block]] for block in blocks],
            "kind": [KINDS.index(self.kinds[block]) for block in blocks],
            "inside": sorted(number[block] for block in self.inside if block in number),
        }
