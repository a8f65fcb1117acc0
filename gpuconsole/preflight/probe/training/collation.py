"""Batches of a size that is drawn while they are made of samples, as with training at several
scales or with labels that are mixed now and then: each is made as large as the largest of some
trials."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ..notes import note
from . import seeding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAIR = 2
"""Samples of a trial: what is drawn for a batch does not depend on how many it has."""
FEW, TRIALS = 8, 64
"""Trials after which batches of one size are taken to be so always, and trials of the others."""


class Drawn:
    """The places from which the largest batches are drawn, in the order in which loaders were first
    used: in another run of the script they are the same, and need not be looked for again."""

    def __init__(self, given: Sequence[int | None] = ()) -> None:
        self.given = given
        self.found: list[int | None] = []

    def next(self, find: Callable[[], int | None]) -> int | None:
        """Return the place of the next loader, `find()` where another run has not reported it."""
        is_given = len(self.found) < len(self.given)
        self.found.append(self.given[len(self.found)] if is_given else find())
        return self.found[-1]


class Collate:
    """Makes a batch of samples."""

    def __init__(
        self,
        inner: Callable[[Sequence[object]], object],
        flags: set[str],
        extent: Callable[[object], int],
        drawn: Drawn | None = None,
    ) -> None:
        """`inner` is the script's own function, `extent` tells how large a batch is, `drawn` what
        another run has found."""
        self.inner = inner
        self.flags = flags
        self.extent = extent
        self.drawn = drawn or Drawn()
        self.tried = False
        self.place: int | None = None
        """What is drawn for the largest batch."""

    def __call__(self, samples: Sequence[object]) -> object:
        """Return a batch."""
        if not self.tried:
            self.tried = True
            before = seeding.state()
            self.place = self.drawn.next(lambda: self.largest(samples[:PAIR]))
            seeding.restore(before)
            if self.place is not None:
                self.told()
        if self.place is not None:
            seeding.alike(self.place)
        return self.inner(samples)

    def largest(self, samples: Sequence[object]) -> int | None:
        """Return the place from which the largest batch is drawn, None where all are alike."""
        sizes: list[int] = []
        for place in range(TRIALS):
            if place == FEW and len(set(sizes)) == 1:
                return None
            seeding.alike(place)
            try:
                sizes.append(self.extent(self.inner(copy.deepcopy(samples))))
            except Exception:
                # It cannot be tried with so few, or not twice.
                return None
        return sizes.index(max(sizes))

    def told(self) -> None:
        """Say that batches differ in size."""
        self.flags.add("variable-shape")
        note(
            f"Batches differ in size by what is drawn for them: each is as large as the largest of "
            f"{TRIALS} that were tried.",
            about="batches",
        )
