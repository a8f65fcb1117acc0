"""The largest batch: does it stay within a random budget, and how near does it come?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.preflight.sets import Script, bounds, largest_within
from gpuconsole.core.units import MIB

Largest = Callable[[Path, Sequence[str], float], int | None]
SEED = 3
NEAR = {"static": 0.90, "traced": 0.97}
"""The share of the true largest batch that a suggestion should reach."""


@dataclass(frozen=True, slots=True)
class Case:
    """One budget for one script, the batch suggested, and the truth."""

    script: Script
    budget: float
    suggested: int
    true_largest: int
    """Not below the real one."""
    low: float
    """Bytes: the real peak at the suggestion is at least this."""
    high: float
    """Bytes: and at most this."""
    ran: bool
    """Whether real Paddle ran at just this batch; else bounds say."""

    @property
    def share(self) -> float:
        """The suggestion as a share of the true largest batch."""
        return self.suggested / self.true_largest if self.true_largest else 1.0


def cases(scripts: Sequence[Script], largest: Largest, count: int) -> list[Case]:
    """Draw `count` budgets per script between its smallest and largest measured peak.

    Each script has draws of its own, so that what one answers does not change those of another.
    """
    found: list[Case] = []
    for script in scripts:
        points = script.points
        if len(script.scored) < 2:
            continue
        drawn = random.Random(f"{SEED} {script.id}")
        for _ in range(count):
            budget = drawn.uniform(points[0].peak, points[-1].peak)
            suggested = largest(script.path, script.argv, budget / MIB)
            if suggested is None:
                break
            found.append(judged(script, budget, suggested))
    return found


def judged(script: Script, budget: float, suggested: int) -> Case:
    """Hold a suggestion against all that was measured."""
    low, high = bounds(script.known, suggested) if suggested else (0.0, 0.0)
    ran = any(point.batch == suggested for point in script.known)
    return Case(script, budget, suggested, largest_within(script.known, budget), low, high, ran)


def summary(found: Sequence[Case], near: float) -> str:
    """Say how the cases went: by a run at the suggested batch, else by bounds from others."""
    if not found:
        return "largest batch: nothing was suggested"
    total = len(found) / 100
    within = sum(case.high <= case.budget for case in found) / total
    beyond = sum(case.low > case.budget for case in found) / total
    reached = sum(case.share >= near for case in found) / total
    # Among small batches one sample is more than a tenth: one short is as near as can be.
    short = sum(case.share >= near or case.suggested >= case.true_largest - 1 for case in found)
    least = min(found, key=lambda case: case.share)
    over = max(found, key=lambda case: case.low / case.budget)
    excess = max(0.0, 100 * (over.low / over.budget - 1))
    ran = sum(case.ran for case in found) / total
    return (
        f"largest batch, {len(found)} budgets: {within:.1f} % within, {beyond:.1f} % beyond (by up "
        f"to {excess:.2f} %, {over.script.id}), {100 - within - beyond:.1f} % not decided; "
        f"{reached:.1f} % reach {100 * near:.0f} % of the true largest, {short / total:.1f} % that "
        f"or one sample less (least {100 * least.share:.0f} %, {least.script.id}: "
        f"{least.suggested} of {least.true_largest}). {ran:.0f} % were run at just that batch, "
        "the others lie between bounds from runs at other batches."
    )
