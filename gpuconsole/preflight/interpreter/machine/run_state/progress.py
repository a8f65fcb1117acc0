"""How far the training of a script was followed."""

from __future__ import annotations

from dataclasses import field

from gpuconsole.core.util.lazy_dataclass import dataclass

CYCLES = 2
"""Optimizer steps followed: from the second on, gradients and optimizer state exist."""
MAX_WAIT = 8
"""Further cycles followed for an optimizer that does not step in each."""

MAX_GROWING = 4
"""Further cycles followed while each holds more than the one before: a queue fills up."""


@dataclass(slots=True)
class Progress:
    """Steps, backward passes and cycles of one run; a cycle ends with an optimizer's step."""

    cycles: int = 0
    walking: int = 0
    """Loaders that have begun an epoch and not ended it: these close the cycles."""
    optimizers: int = 0
    optimizer_steps: int = 0
    steps_closed: int = 0
    """Steps that belong to closed cycles."""
    open_ended: bool = False
    """Whether steps were made in a loop of unknown length, of which one iteration was followed."""
    steps_of: list[int] = field(default_factory=list)
    """Steps of each optimizer."""
    backwards: int = 0
    waited: int = 0
    growing: int = 0
    """Cycles in a row that held more than the one before."""
    rare_iterations: int = 0
    """Iterations followed because a loop does something else in them than in its first ones."""
    enough: int = CYCLES
    """Cycles after which nothing new is to be expected: two more where another training begins."""
    growth: int = 0
    """Bytes by which the last cycle held more than the one before, 0 where it did not."""
    growth_by_epoch: int = 0
    """Bytes by which the last iteration of a loop around training held more than the one before."""
    left_by_epoch: int = 0
    """Bytes of batches that wait in loaders which each epoch leaves before their end."""
    unseen: int = 0
    """Bytes that evaluations keep of batches that were not followed, and that no trace has."""
    held: int | None = None
    """Bytes that the script keeps, when the last cycle was closed."""
    closed_at: list[int] = field(default_factory=list)
    """Blocks born when each cycle was closed."""

    @property
    def is_steady(self) -> bool:
        """Whether enough cycles were followed: nothing more fills up, or it does so without end."""
        return self.cycles >= self.enough and not 0 < self.growing <= MAX_GROWING

    def note_open_ended(self, steps: int) -> None:
        """Note the one turn that was followed of a loop of unknown length, begun after `steps`."""
        self.open_ended |= self.optimizer_steps > steps

    def ends_reader(self, steps: int) -> bool:
        """Whether an iteration that began after so many steps has made one, and its loader ends
        when it is asked for the next batch: enough is known then."""
        return (
            bool(self.walking) and self.optimizer_steps > steps and (self.cycles + 1 == self.enough)
        )

    def begin_training(self) -> None:
        """Count an optimizer; what was walked over before the first was no training."""
        if not self.optimizers:
            self.cycles = 0
        elif self.is_steady:
            self.enough = self.cycles + CYCLES
        self.optimizers += 1

    def close_cycle(self) -> None:
        """Count a cycle."""
        rare = min(self.steps_of, default=CYCLES) < CYCLES
        if rare and self.cycles == CYCLES - 1 and self.waited < MAX_WAIT:
            # One of several optimizers steps more rarely: its own second step is waited for.
            self.waited += 1
        else:
            self.cycles += 1
