"""How far the training of a script was followed."""

from __future__ import annotations

from dataclasses import dataclass, field

CYCLES = 2
"""Optimizer steps followed: from the second on, gradients and optimizer state exist."""
MAX_WAIT = 8
"""Further cycles followed for an optimizer that does not step in each."""


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
    steps_of: list[int] = field(default_factory=list)
    """Steps of each optimizer."""
    backwards: int = 0
    waited: int = 0
    held: int | None = None
    """Bytes of activations alive when the last cycle was closed."""
    closed_at: list[int] = field(default_factory=list)
    """Blocks born when each cycle was closed."""

    def begin_training(self) -> None:
        """Count an optimizer; what was walked over before the first was no training."""
        if not self.optimizers:
            self.cycles = 0
        self.optimizers += 1

    def close_cycle(self) -> None:
        """Count a cycle."""
        rare = min(self.steps_of, default=CYCLES) < CYCLES
        if rare and self.cycles == CYCLES - 1 and self.waited < MAX_WAIT:
            # One of several optimizers steps more rarely: its own second step is waited for.
            self.waited += 1
        else:
            self.cycles += 1
