"""How far a run goes on after its first steps, for what only comes later.

Steps without data cost little. They go on until the peak has stood for some and some work was done;
epochs are cut short, so that what follows them (an evaluation with larger batches, layers that are
trained from then on, a network that is saved) is seen too. Lists and queues that grow with each
step are followed for as long. Then the loops that train are left, for what comes after them: the
last evaluation, or a training of other networks, which is followed as the first one was. While an
evaluation is awaited that no epoch has brought, further epochs are passed first, with a step each.

What bounds it is counted, not timed: how far a script is followed hangs on no processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

STEADY = 2
"""Cycles in which the peak has not risen before an epoch is cut."""
FIRST = 8
"""Batches of a training's first epoch that are gone through where steps cost next to nothing:
scripts evaluate after every few steps too."""
EPOCHS = 2
"""Epochs that are cut."""
FAR = 12
"""Epochs that are cut where steps cost next to nothing: scripts save, or draw, after each tenth."""
CHEAP = 80_000
"""Work for steps after the first ones in which a run goes on though its peak rises no more. A unit
is a block of memory that comes or goes; an idle processor does some forty thousand in a second."""
LONGEST = 160_000
"""Work for steps of one training after the first ones."""
LONG = 240_000
"""Work of first steps after which the second is the last of them: a third would only confirm it."""
STEP = 240_000
"""Work of a step that is more than leaves room for another after the first ones."""
PASSED = 40_000
"""Work for epochs that are passed with a step each, where an evaluation may be ahead."""
AWAITED = 160_000
"""The same where a loader was made that gave no batch yet."""
AFTER = 320_000
"""Work for what comes after a training, until the next one steps or the script ends."""
MOST = 100
"""Cycles of one training after the first ones, at most."""
TRAININGS = 6
"""Trainings that are followed, at most."""
PATIENCE = 10
"""Cycles in which a training goes on that was to be left, before the run ends: loops over ranges
within each other take a few until each has come to its last turns."""
RISING = 5
"""Cycles in a row that each hold more than the one before, until memory is said to grow."""
LEAST = 0.001
"""Share of a peak by which more is held where it counts: what is less changes no answer, and is
no reason to go on."""


def rises(peak: int, before: int) -> bool:
    """Tell whether a peak is higher than one before it by what counts."""
    return peak > before * (1 + LEAST)


def _turn(loop: Sequence[str | int]) -> tuple[str, int]:
    """Return what a run did, and after which cycle."""
    what, seen = loop
    return str(what), int(seen)


class Onward:
    """What is seen after the first steps. `work` tells how much was done since the run began."""

    def __init__(
        self,
        work: Callable[[], int],
        until: int | None = None,
        way: Sequence[Sequence[str | int]] | None = None,
    ) -> None:
        self.until = until
        """The cycle with which it ends, where another run has reported that."""
        self.loops = None if way is None else [_turn(loop) for loop in way]
        """What that run did after which cycle: this one does the same."""
        self.way: list[tuple[str, int]] = []
        self.work = work
        self.began = work()
        self.peak = 0
        self.quiet = -1
        self.epochs = 0
        self.cycles = 0
        self.trainings = 1
        self.leaving = False
        """Whether the loops of this training are being left."""
        self.passing = False
        """Whether epochs of it are passed first."""
        self.passed = 0
        """Work for those that were passed, of all trainings."""
        self.left = 0
        """Cycles since then."""
        self.held: list[int] = []

    def cycle(self, peak: int, held: int) -> None:
        """A cycle has ended: the most that was held until then, and what is held now, in bytes."""
        # Small rises are not taken over, so that many of them count together.
        if rises(peak, self.peak):
            self.peak, self.quiet = peak, 0
        else:
            self.quiet += 1
        self.cycles += 1
        self.left += self.leaving and not self.passing
        self.held.append(held)

    def cuts(self, batches: int, seen: int = 0) -> bool:
        """Tell whether an epoch that trains may end at its next batch, after so many of it and so
        many cycles of the run."""
        if batches < 1:
            return False
        if self.loops is not None:
            return self._as_told("cut", seen)
        most = FAR if self._cheap else EPOCHS
        if self.quiet < STEADY or (self.epochs >= most and not self.leaving):
            return False
        if not self.epochs and batches < FIRST and self._cheap:
            return False
        self.epochs += 1
        self.way.append(("cut", seen))
        return True

    def leaves(self, seen: int, epochs: object) -> bool:
        """Tell whether the loops of this training are to be left after some cycles of the run;
        `epochs` where there are any to cut."""
        if self.leaving:
            return False
        if self.loops is not None:
            if not self._as_told("leave", seen):
                return False
        elif not self._enough(epochs):
            return False
        else:
            self.way.append(("leave", seen))
        self.leaving, self.left, self.began = True, 0, self.work()
        self.passing = True
        return True

    def passes(self, seen: int, most: int) -> bool:
        """Tell whether further epochs of a training that is left are passed, after some cycles of
        the run: as long as those of all trainings take no more than `most` work."""
        if not self.passing:
            return False
        if self.loops is not None:
            ends = self._as_told("passed", seen)
        else:
            ends = self.passed + self.work() - self.began >= most
            self.way += [("passed", seen)] if ends else []
        if ends:
            self._have_passed()
        return not ends

    def _have_passed(self) -> None:
        self.passed += self.work() - self.began
        self.passing, self.began = False, self.work()

    def over(self, seen: int) -> bool:
        """Tell whether the run ends after so many cycles: another has ended there, or a training
        that was to be left goes on."""
        if self.until is not None:
            return seen >= self.until
        return self.left >= PATIENCE

    def begins_another(self) -> bool:
        """Another optimizer steps for the first time: what it trains is followed like the first;
        tells whether it is."""
        if self.trainings >= TRAININGS:
            return False
        if self.passing:
            self._have_passed()
        self.trainings += 1
        self.began, self.quiet, self.epochs, self.cycles = self.work(), -1, 0, 0
        self.leaving, self.left = False, 0
        self.held.clear()
        return True

    @property
    def spent(self) -> bool:
        """Whether the work for this training, or for what comes after it, was done."""
        return self.work() - self.began > (AFTER if self.is_after else 2 * LONGEST)

    @property
    def is_after(self) -> bool:
        """Whether what comes after a training is gone through."""
        return self.leaving and not self.passing

    def _as_told(self, what: str, seen: int) -> bool:
        # An epoch that was cut there may have ended by itself here.
        while self.loops and self.loops[0][1] < seen:
            del self.loops[0]
        if self.loops and self.loops[0] == (what, seen):
            del self.loops[0]
            self.way.append((what, seen))
            return True
        return False

    def _enough(self, epochs: object) -> bool:
        if self.cycles > MOST or self.work() - self.began > LONGEST:
            return True
        if self._cheap:
            return bool(epochs) and self.epochs >= FAR
        return self.quiet >= STEADY and (not epochs or self.epochs >= EPOCHS)

    @property
    def _cheap(self) -> bool:
        return self.work() - self.began < CHEAP

    @property
    def growth(self) -> int:
        """Bytes that each of the last cycles has held more than the one before, 0 for none."""
        last = self.held[-RISING - 1 :]
        rows = zip(last, last[1:])  # noqa: RUF007 - as old as Python 3.9
        steps = [after - before for before, after in rows]
        if len(steps) < RISING or min(steps) <= LEAST * self.peak:
            return 0
        return int(sum(steps) / len(steps))
