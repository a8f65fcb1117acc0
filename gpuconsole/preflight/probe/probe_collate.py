"""Batches whose size is drawn while they are made of samples, as with training at several scales or
with labels that are mixed now and then: each is made as large as the largest of some trials."""

from __future__ import annotations

import copy
from typing import Any

import probe_chance
from probe_notes import note

PAIR = 2
"""Samples of a trial: what is drawn for a batch does not depend on how many it has."""
FEW, TRIALS = 8, 64
"""Trials after which batches of one size are taken to be so always, and trials of the others."""


class Collate:
    """Makes a batch of samples."""

    def __init__(self, inner: Any, flags: Any, extent: Any) -> None:
        """`inner` is the script's own function, `extent` tells how large a batch is."""
        self.inner = inner
        self.flags = flags
        self.extent = extent
        self.tried = False
        self.place: Any = None
        """What is drawn for the largest batch."""

    def __call__(self, samples: Any) -> Any:
        """Return a batch."""
        if not self.tried:
            self.tried = True
            drawn = probe_chance.state()
            self.place = self.largest(samples[:PAIR])
            probe_chance.restore(drawn)
        if self.place is not None:
            probe_chance.alike(self.place)
        return self.inner(samples)

    def largest(self, samples: Any) -> Any:
        """Return the place from which the largest batch is drawn, None where all are alike."""
        sizes: list[Any] = []
        for place in range(TRIALS):
            if place == FEW and len(set(sizes)) == 1:
                return None
            probe_chance.alike(place)
            try:
                sizes.append(self.extent(self.inner(copy.deepcopy(samples))))
            except Exception:
                # It cannot be tried with so few, or not twice.
                return None
        self.flags.add("variable-shape")
        note(
            f"Batches differ in size by what is drawn for them: each is as large as the largest of "
            f"{TRIALS} that were tried.",
            about="batches",
        )
        return sizes.index(max(sizes))
