"""When a script has gone through enough of its work: cycles of training, or of running a network.

Knows nothing of Paddle: optimizers are whatever tells one from another. It hears what
happens, in order, and says when a cycle ends, when an epoch is cut short because it only
evaluates, and when enough was seen.

A cycle of training ends when the next batch is asked for after a backward pass and an optimizer
step, so that it spans the micro-batches of an accumulation and all optimizers of a GAN; where the
same batch is trained on again, or there is no loader, it ends when the same optimizer steps again.
An optimizer that steps before anything went back has nothing to learn from: that is no training.
Where nothing is trained a cycle is one batch, or one call of the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

MAX_WAIT = 12
"""Further cycles for an optimizer that steps more rarely than the others."""
MAX_RUNS = 60
"""Batches, or calls times `CALLS`, of a network that nothing trains, before the run ends."""
CALLS = 5
"""Calls by hand are cheaper to go through than batches, and a network that writes makes many."""


class Cycles:
    """Counts what a script does."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.trained = 0
        """Cycles of training that have ended."""
        self.ran = 0
        """Batches that went through a network which nothing trains, and calls by hand."""
        self.steps: dict[Hashable, int] = {}
        """Steps by optimizer that the script still holds."""
        self.optimizers = 0
        """Optimizers that were made."""
        self.past_steps = 0
        """Steps of the optimizers that it has let go of."""
        self.fetches = 0
        self.calls = 0
        self.backwards = 0
        self.stepped_since: set[Hashable] = set()
        self.fetched_at: dict[Hashable, int] = {}
        self.closed_steps = 0
        self.closed_calls = 0
        self.closed_backwards = 0
        self.readers: dict[int, _Epoch] = {}
        self.recent: list[int] = []
        self.training: list[int] = []
        """Readers with batches that reached the last optimizer step, in the order of their use."""

    @property
    def all_steps(self) -> int:
        """Steps of all optimizers."""
        return self.past_steps + sum(self.steps.values())

    @property
    def trains(self) -> bool:
        """Whether something was trained, or there is an optimizer that may do so."""
        return bool(self.steps or self.past_steps)

    # -- what happens; each returns whether a cycle has ended with it

    def made(self, optimizer: Hashable) -> None:
        """An optimizer was made."""
        self.optimizers += 1
        self.steps.setdefault(optimizer, 0)

    def released(self, optimizer: Hashable) -> None:
        """An optimizer is no more: it will not step, and another may get its number."""
        self.past_steps += self.steps.pop(optimizer, 0)
        self.stepped_since.discard(optimizer)

    def fetched(self, reader: int) -> bool:
        """A reader is asked for its next batch."""
        ended = False
        if self.all_steps > self.closed_steps and self._learned:
            ended = self._close_training()
        elif not self.trains and self.calls > self.closed_calls:
            ended = self._close_run()
        self.fetches += 1
        epoch = self.readers.setdefault(reader, _Epoch(self.backwards, self.calls))
        epoch.batches += 1
        if reader not in self.recent:
            self.recent.append(reader)
        return ended

    def closed(self, reader: int) -> None:
        """A reader's epoch has ended, or it was let go of."""
        self.readers.pop(reader, None)
        if reader in self.recent:
            self.recent.remove(reader)

    def called(self, evaluating: bool) -> bool:
        """A network outside any other was run; `evaluating` without gradients or in that mode."""
        self.calls += 1
        if not evaluating:
            for epoch in self.readers.values():
                epoch.evaluates = False
        if self.trains or self.fetches:
            return False
        return self._close_run()

    def went_back(self) -> None:
        """A backward pass was made."""
        self.backwards += 1

    def steps_now(self, optimizer: Hashable) -> bool:
        """An optimizer begins to step."""
        again = optimizer in self.stepped_since and self.fetched_at[optimizer] == self.fetches
        ended = self._close_training() if again and self._learned else False
        self.stepped_since.add(optimizer)
        self.fetched_at[optimizer] = self.fetches
        return ended

    def stepped(self, optimizer: Hashable) -> None:
        """An optimizer has stepped."""
        self.steps[optimizer] = self.steps.get(optimizer, 0) + 1
        if self.recent:
            self.training, self.recent = self.recent, []

    # -- what follows from it

    def cut(self, reader: int) -> bool:
        """Whether a reader's epoch may end here: its batches went through a network, and none of
        them was trained on."""
        epoch = self.readers.get(reader)
        if epoch is None or epoch.batches <= self.wanted or not epoch.evaluates:
            return False
        return self.calls > epoch.calls and self.backwards == epoch.backwards

    @property
    def seen(self) -> int:
        """Cycles of what the script is about."""
        return self.trained or self.ran

    @property
    def enough(self) -> bool:
        """Whether a peak is known: also where the script goes on, or breaks off."""
        return self.seen >= self.wanted or self.repeated

    @property
    def repeated(self) -> bool:
        """Whether each optimizer has gone through a whole cycle with all its states."""
        return self.trained > 1 and min(self.steps.values(), default=2) > 1

    @property
    def done(self) -> bool:
        """Whether the run may end."""
        if not self.all_steps:
            return self.ran >= MAX_RUNS * (1 if self.fetches else CALLS)
        if self.trained < self.wanted:
            return False
        # States come with the first step, their full peak with the second.
        rare = min(self.steps.values(), default=2) < 2
        return not rare or self.trained >= self.wanted + MAX_WAIT

    @property
    def _learned(self) -> bool:
        """Whether a backward pass was made since the last cycle."""
        return self.backwards > self.closed_backwards

    def _close_training(self) -> bool:
        self.trained += 1
        self.closed_backwards = self.backwards
        self.closed_steps, self.closed_calls = self.all_steps, self.calls
        self.stepped_since.clear()
        return True

    def _close_run(self) -> bool:
        self.ran += 1
        self.closed_calls = self.calls
        return True


class _Epoch:
    """One walk over a reader."""

    def __init__(self, backwards: int, calls: int) -> None:
        self.batches = 0
        self.backwards = backwards
        self.calls = calls
        self.evaluates = True
