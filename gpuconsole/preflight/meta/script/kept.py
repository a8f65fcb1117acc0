"""Evaluations that keep what they make of each batch: followed, longer ones extrapolated.

An epoch that trains nothing is cut after a few batches, for the others are alike. Where memory
grows with each of them (outputs in a list, to be put together and judged at the end) the epoch is
followed to its end, or until much was done. Then the batches that are left out count as so much
growth each, and what is made of all of them as if none had been left out.

The size of a block shows whether it is made of all batches: an epoch is left after a number of
batches that is prime, and a size that was not seen before and is a multiple of it is that of so
many batches.
"""

from __future__ import annotations

from collections.abc import Callable

from ...probe.notes import UNENDING, note
from ...probe.training.run_length import LEAST
from ..ledger import Block, Ledger
from .host_arrays import Lengthened

MOST = 40_000
"""Work for an epoch that keeps, in the units of `run_length.py`, before it is left."""
FEWEST = 11
"""Batches after which it is left at the earliest: a smaller prime divides many a size."""
UNKNOWN = 1000
"""Batches that an epoch of unknown length may have, to tell if what is kept of each matters."""
OPEN = (
    "An evaluation keeps {:.2f} MiB of each of its {} batches, of which {} were followed: twice as "
    "much is allowed for each of the others, as if they were put together at the end."
)
ALIKE = (
    "An evaluation keeps {:.2f} MiB of each of its {} batches: {} were followed, and the others "
    "are taken to be alike."
)


class Walk:
    """An epoch, by what is held whenever it is asked for its next batch."""

    def __init__(self, began: int) -> None:
        self.began = began
        """The work that was done before it."""
        self.held: list[int] = []
        """Bytes."""
        self.joined: list[int] = []
        """Bytes by which arrays of NumPy had been lengthened then."""

    @property
    def batches(self) -> int:
        """Return how many it has given."""
        return len(self.held) - 1

    @property
    def growth(self) -> float:
        """Return the bytes by which each of its last batches has made memory grow."""
        return self._each(self.held)

    @property
    def lengthens(self) -> float:
        """Return the bytes by which each of its last batches has lengthened arrays of NumPy."""
        return self._each(self.joined)

    @property
    def keeps(self) -> float:
        """Return the larger of both: what each of its last batches leaves behind, in bytes."""
        return max(self.growth, self.lengthens)

    def _each(self, nbytes: list[int]) -> float:
        # From the second request on the last batch is held too.
        start = max(1, self.batches // 2)
        turns = self.batches - start
        return (nbytes[-1] - nbytes[start]) / turns if turns > 0 else 0.0


class Left:
    """An epoch that was left although it keeps."""

    def __init__(self, ledger: Ledger, walk: Walk, batches: int) -> None:
        followed, growth = walk.batches, walk.growth
        self.ledger = ledger
        self.base = ledger.live - growth * (followed - 1)
        """Bytes that are held where nothing is kept any more."""
        self.rest = Block(ledger, int(growth * (batches - followed)), "kept")
        ledger.stretch = stretched(frozenset(ledger.sizes), followed, batches)
        note(ALIKE.format(walk.keeps / 2**20, batches, followed), about="kept")

    @property
    def is_released(self) -> bool:
        """Tell whether nothing of what it kept is held now."""
        return self.ledger.live - self.rest.nbytes <= self.base


def stretched(before: frozenset[int], followed: int, batches: int) -> Callable[[int], int]:
    """Return what makes the size of something made of the batches that were followed that of one
    made of all; sizes in bytes, `before` are those of earlier blocks."""

    def size(nbytes: int) -> int:
        if nbytes % followed or nbytes in before:
            return nbytes
        pairs = nbytes % followed**2 == 0
        return nbytes // followed * batches if not pairs else nbytes // followed**2 * batches**2

    return size


class Keeping:
    """What epochs that evaluate keep. `work` tells how much was done since the run began, `refuse`
    ends it without an answer."""

    def __init__(
        self, ledger: Ledger, work: Callable[[], int], refuse: Callable[[str], object]
    ) -> None:
        self.ledger = ledger
        self.work = work
        self.refuse = refuse
        self.lengthened = Lengthened()
        self.walks: dict[int, Walk] = {}
        """Epochs that have begun, by reader."""
        self.left: list[Left] = []
        self.rest: list[Block] = []
        """Blocks for what was not reached."""

    def asked(self, reader: int) -> None:
        """A reader is asked for a batch."""
        self.release()
        if reader not in self.walks:
            self.walks[reader] = Walk(self.work())
        self.walks[reader].held.append(self.ledger.live)
        self.walks[reader].joined.append(self.lengthened.nbytes)

    def closed(self, reader: int) -> None:
        """A reader has ended."""
        self.walks.pop(reader, None)

    def goes_on(self, reader: int, batches: int | None) -> bool:
        """Tell whether an epoch that would be cut goes on, because it keeps; `batches` is how many
        it has, None where that is unknown: then there is no answer where it would be left."""
        walk = self.walks[reader]
        if not self.matters(walk, batches):
            return False
        if batches is not None and walk.batches >= batches:
            return True
        if self.work() - walk.began < MOST or not is_prime(walk.batches):
            return True
        self.leave(walk, batches)
        return False

    def matters(self, walk: Walk, batches: int | None) -> bool:
        """Tell whether what an epoch keeps of its further batches is more than next to nothing."""
        further = max(1, (UNKNOWN if batches is None else batches) - walk.batches)
        return walk.keeps * further > LEAST * self.ledger.peak

    def leave(self, walk: Walk, batches: int | None) -> None:
        """Leave an epoch that keeps: its further batches are taken to be like the last ones."""
        if batches is None:
            self.refuse(UNENDING.format(walk.keeps / 2**20))
        else:
            self.left.append(Left(self.ledger, walk, batches))

    def broken_off(self, reader: int, batches: int | None) -> None:
        """The run ends within an epoch that evaluates: what it would keep of its further batches
        is held twice, as where they are put together."""
        walk = self.walks.get(reader)
        if walk is None or not self.matters(walk, batches):
            return
        if batches is None:
            self.refuse(UNENDING.format(walk.keeps / 2**20))
            return
        further = max(0, batches - walk.batches)
        self.rest.append(Block(self.ledger, int(2 * walk.growth * further), "kept"))
        note(OPEN.format(walk.growth / 2**20, batches, walk.batches), about="kept")

    def release(self) -> None:
        """Release the blocks for batches of which the script holds nothing any more."""
        if self.left and any(left.is_released for left in self.left):
            self.left = [left for left in self.left if not left.is_released]
            if not self.left:
                self.ledger.stretch = None

    def stepped(self) -> None:
        """Something is trained: what is made from now on is made of other batches."""
        self.release()
        self.ledger.stretch = None

    @property
    def is_open(self) -> bool:
        """Whether an epoch that keeps goes on."""
        return any(walk.keeps > 0 for walk in self.walks.values())


def is_prime(number: int) -> bool:
    """Tell whether a number is prime and no small one."""
    return number >= FEWEST and all(number % part for part in range(2, int(number**0.5) + 1))
