"""Memory events of the run: blocks are born with a size and released when nothing holds them.

A block's life is that of its Python object, so the reference counts of CPython decide it exactly
as Paddle's shared pointers would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = ("", "parameters", "gradients", "optimizer", "inputs", "waiting")
"""What blocks are, as the probe's document numbers it."""


class Block:
    """One allocation; released with the last reference to it."""

    __slots__ = ("__weakref__", "index", "ledger", "lent", "nbytes")

    def __init__(self, ledger: Any, nbytes: int, name: object, inside: bool = False) -> None:
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
        self.events: list[Any] = []
        self.sizes: list[Any] = []
        self.names: list[Any] = []
        self.kinds: list[Any] = []
        self.inside: set[Any] = set()
        self.cycles: list[Any] = []
        self.dropped: set[Any] = set()
        self.window = 0
        self.since: dict[Any, Any] = {}
        self.live = 0
        self.peak = 0
        self.held: list[tuple[int, int]] = []
        """The most that was held until the end of each cycle, and what was held then, in bytes."""
        self.calls = 0

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
        if self.window and self.since.pop(block.index, 0) == self.window:
            # Born and gone while samples were fetched: on a device nothing of it is seen.
            self.dropped.add(block.index)

    def scratch(self, sizes: Sequence[int], name: object) -> None:
        """Record what a kernel takes for itself, in bytes, and gives back at its end."""
        made = [Block(self, size, name, inside=True) for size in sizes if size]
        del made

    def tag(self, indices: Sequence[int], kind: str) -> None:
        """Say of what kind some blocks are; the first word about a block stands."""
        for index in indices:
            if index is not None and not self.kinds[index]:
                self.kinds[index] = kind

    def cycle(self) -> None:
        """A cycle of the training ends here."""
        self.cycles.append(len(self.events))
        self.held.append((self.peak, self.live))

    def fetching(self, reader: Any) -> None:
        """Samples are fetched for a reader (0: no more)."""
        self.window = reader
        self.since.clear()

    def as_json(self) -> Any:
        """Return the recording in the form of the probe's document."""
        kept = [one for one in range(len(self.sizes)) if one not in self.dropped]
        number = {old: new for new, old in enumerate(kept)}
        events: list[Any] = []
        cycles: list[Any] = []
        ends = set(self.cycles)
        for place, event in enumerate(self.events):
            if place in ends:
                cycles.append(len(events))
            block = event if event >= 0 else ~event
            if block in number:
                events.append(number[block] if event >= 0 else ~number[block])
        if len(self.events) in ends:
            cycles.append(len(events))
        words = sorted({self.names[one] for one in kept})
        place_of = {word: place for place, word in enumerate(words)}
        return {
            "events": events,
            "cycles": cycles,
            "sizes": [self.sizes[one] for one in kept],
            "names": words,
            "name": [place_of[self.names[one]] for one in kept],
            "kind": [KINDS.index(self.kinds[one]) for one in kept],
            "inside": sorted(number[one] for one in self.inside if one in number),
        }
