"""How far a run goes on after its first steps, for what only comes later.

Steps without data cost little. They go on until the peak has stood for some and some time has
passed; epochs are cut short, so that what follows them (an evaluation with larger batches, layers
that are trained from then on, a network that is saved) is seen too. Lists and queues that grow with
each step are followed for as long.
"""

from __future__ import annotations

import time
from typing import Any

STEADY = 2
"""Cycles in which the peak has not risen before an epoch is cut."""
EPOCHS = 2
"""Epochs that are cut."""
FAR = 12
"""Epochs that are cut where steps cost next to nothing: scripts save, or draw, after each tenth."""
CHEAP_S = 2.0
"""Processor time for steps after the first ones in which a run goes on though its peak stands."""
LONGEST_S = 4.0
"""Processor time for steps after the first ones, so that a busy machine sees as far as an idle."""
MOST = 100
"""Cycles after the first ones, at most."""
RISING = 5
"""Cycles in a row that each hold more than the one before, until memory is said to grow."""
LEAST = 0.001
"""Share of a peak by which more is held where it counts: what is less changes no answer, and is
no reason to go on."""


def rises(peak: Any, before: Any) -> bool:
    """Tell whether a peak is higher than one before it by what counts."""
    return bool(peak > before * (1 + LEAST))


class Onward:
    """What is seen after the first steps."""

    def __init__(self, until: Any = None, clock: Any = time.process_time) -> None:
        self.until = until
        """The cycle with which it ends, where another run has told that."""
        self.clock = clock
        self.began = clock()
        self.peak = 0
        self.quiet = -1
        self.epochs = 0
        self.held: list[Any] = []

    def cycle(self, peak: Any, held: Any) -> None:
        """A cycle has ended: the most that was held until then, and what is held now, in bytes."""
        # Small rises are not taken over, so that many of them count together.
        if rises(peak, self.peak):
            self.peak, self.quiet = peak, 0
        else:
            self.quiet += 1
        self.held.append(held)

    def cuts(self, batches: Any) -> bool:
        """Tell whether an epoch that trains may end at its next batch, after so many."""
        most = FAR if self._cheap else EPOCHS
        if self.quiet < STEADY or batches < 1 or self.epochs >= most:
            return False
        self.epochs += 1
        return True

    def over(self, cycles: Any, epochs: Any) -> bool:
        """Tell whether enough was seen after some cycles; `epochs` where there are any to cut."""
        if self.until is not None:
            return bool(cycles >= self.until)
        if len(self.held) > MOST or self.clock() - self.began > LONGEST_S:
            return True
        if self._cheap:
            return bool(epochs) and self.epochs >= FAR
        return self.quiet >= STEADY and (not epochs or self.epochs >= EPOCHS)

    @property
    def _cheap(self) -> bool:
        return bool(self.clock() - self.began < CHEAP_S)

    @property
    def growth(self) -> int:
        """Bytes that each of the last cycles has held more than the one before, 0 if it stands."""
        last = self.held[-RISING - 1 :]
        rows = zip(last, last[1:])  # noqa: RUF007 - as old as Python 3.9
        steps = [after - before for before, after in rows]
        if len(steps) < RISING or min(steps) <= LEAST * self.peak:
            return 0
        return int(sum(steps) / len(steps))
