"""The largest batch: does it stay within a random budget, and how near does it come?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import truth
from benchmarks.sets import Script, interpolated, largest_within
from gpuconsole.core.units import MIB

Largest = Callable[[Path, Sequence[str], float], int | None]
SEED = 3
NEAR = {"static": 0.90, "symbolic": 0.90, "traced": 0.97}
"""The share of the true largest batch that a suggestion should reach."""


@dataclass(frozen=True, slots=True)
class Case:
    """One budget for one script, the batch suggested, and the truth."""

    script: Script
    budget: float
    suggested: int
    true_largest: int
    peak: float

    @property
    def within(self) -> bool:
        """Whether the suggestion keeps the budget."""
        return self.peak <= self.budget

    @property
    def share(self) -> float:
        """The suggestion as a share of the true largest batch."""
        return self.suggested / self.true_largest if self.true_largest else 1.0


def cases(scripts: Sequence[Script], largest: Largest, count: int) -> list[Case]:
    """Draw `count` budgets per script between its smallest and largest measured peak."""
    drawn = random.Random(SEED)
    found: list[Case] = []
    for script in scripts:
        points = script.points
        if len(script.scored) < 2:
            continue
        for _ in range(count):
            budget = drawn.uniform(points[0].peak, points[-1].peak)
            suggested = largest(script.path, script.argv, budget / MIB)
            if suggested is None:
                break
            peak = interpolated(points, suggested) if suggested else 0.0
            found.append(Case(script, budget, suggested, largest_within(points, budget), peak))
    return found


def summary(found: Sequence[Case], near: float) -> str:
    """Say how the cases went, the true peak being interpolated."""
    if not found:
        return "largest batch: nothing was suggested"
    within = sum(case.within for case in found) / len(found)
    reached = sum(case.share >= near for case in found) / len(found)
    # Between small batches one sample is more than a tenth: the next whole batch counts as reached.
    whole = sum(
        case.share >= near or case.suggested >= case.true_largest - 1 for case in found
    ) / len(found)
    worst = min(found, key=lambda case: case.share)
    over = max(found, key=lambda case: case.peak / case.budget)
    return (
        f"largest batch, {len(found)} budgets, truth interpolated between measured batches (never "
        f"below the real peak): {100 * within:.1f} % within budget (worst "
        f"{100 * (over.peak / over.budget - 1):+.2f} %, {over.script.id}); {100 * reached:.1f} % "
        f"reach {100 * near:.0f} % of the true largest ({100 * whole:.1f} % when one sample short "
        f"counts; least {100 * worst.share:.0f} %, {worst.script.id} "
        f"{worst.suggested} of {worst.true_largest})"
    )


def really(found: Sequence[Case], count: int, near: float, harness: Path) -> str:
    """Run a seeded sample for real: at the suggestion, and at the first batch it must reach."""
    tool = truth.load_harness(harness)
    usable = [case for case in found if case.suggested]
    sample = random.Random(SEED).sample(usable, min(count, len(usable)))
    kept = reached = 0
    lines = []
    for case in sample:
        peak = truth.measure(tool, case.script.entry, case.suggested, path=case.script.path)
        beyond = max(case.suggested + 1, int(case.suggested / near) + 1)
        more = truth.measure(tool, case.script.entry, beyond, path=case.script.path)
        if peak.get("error") or more.get("error"):
            lines.append(f"    {case.script.id}: {peak.get('error') or more.get('error')}"[:120])
            continue
        kept += peak["peak_bytes"] <= case.budget
        reached += more["peak_bytes"] > case.budget
        lines.append(
            f"    {case.script.id:22} budget {case.budget / MIB:8.1f} MiB: {case.suggested} needs "
            f"{peak['peak_bytes'] / MIB:8.1f}, {beyond} needs {more['peak_bytes'] / MIB:8.1f}"
        )
    lines.append(f"  real runs: {kept} of {len(sample)} within budget, {reached} near the largest")
    return "\n".join(lines)
