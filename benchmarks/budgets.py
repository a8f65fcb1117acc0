"""The largest batch: does it stay within a random budget, and how near does it come?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import truth
from benchmarks.sets import Script, bounds, largest_within
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
    """Not below the real one."""
    low: float
    """Bytes: the real peak at the suggestion is at least this."""
    high: float
    """Bytes: and at most this."""

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
            low, high = bounds(points, suggested) if suggested else (0.0, 0.0)
            found.append(Case(script, budget, suggested, largest_within(points, budget), low, high))
    return found


def summary(found: Sequence[Case], near: float) -> str:
    """Say how the cases went, the true peak being interpolated."""
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
    return (
        f"largest batch, {len(found)} budgets: {within:.1f} % within, {beyond:.1f} % beyond (by up "
        f"to {excess:.2f} %, {over.script.id}), {100 - within - beyond:.1f} % cannot be told "
        f"without a run; {reached:.1f} % reach {100 * near:.0f} % of the true largest, "
        f"{short / total:.1f} % that or one sample less (least {100 * least.share:.0f} %, "
        f"{least.script.id}: {least.suggested} of {least.true_largest}). The truth lies between "
        "bounds from the measured batches."
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
