"""The largest batch that is suggested for a budget, on drawn loops that real Paddle runs.

    python -m benchmarks.meta_loops.budgets [--seeds FIRST:END] [--budgets N]

For each loop some batch sizes are drawn, between its own and sixteen times that. A budget lies
between what a batch of that size takes and what one sample more takes, both measured, so that the
true largest batch is known. The static tier is asked for the largest within each budget, and real
Paddle runs the loop at just that batch. Truth is Paddle's allocator on a CPU.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.meta_loops.__main__ import run, seeds_of
from benchmarks.meta_loops.script import text
from benchmarks.preflight.tiers import Static
from gpuconsole.core.units import MIB

MOST_TIMES = 16
"""Times its own batch that the largest may be."""
NEAR = 0.9
"""The share of the true largest batch that a suggestion should reach."""


@dataclass(frozen=True, slots=True)
class Case:
    """One budget for one loop; sizes are bytes, batches are samples."""

    seed: int
    name: str
    budget: float
    largest: int
    """The true largest batch: measured to be within, and one sample more to be beyond."""
    suggested: int
    """0 where not even one sample is thought to be within."""
    peak: int = 0
    """What the loop took at the suggested batch."""

    @property
    def within(self) -> bool:
        """Whether the suggestion stays within its budget."""
        return self.peak <= self.budget

    @property
    def near(self) -> bool:
        """Whether it comes near the largest: of few samples, one less is as near as can be."""
        return self.suggested >= min(NEAR * self.largest, self.largest - 1)


Peaks = Mapping[tuple[int, int], int]
"""Bytes by seed and samples."""


def peaks(asked: Iterable[tuple[int, int]]) -> tuple[dict[tuple[int, int], int], dict[int, Any]]:
    """Run loops at batch sizes; return what they took, and a row of each loop by its seed."""
    found, rows = {}, {}
    for row in run("real", [f"{seed}@{samples}" for seed, samples in sorted(set(asked))]).values():
        seed, _, samples = row["asked"].partition("@")
        if not row["why"] and row["peaks"]:
            found[int(seed), int(samples)] = max(row["peaks"])
            rows[int(seed)] = row
    return found, rows


def drawn(seeds: Sequence[int], count: int) -> dict[int, list[tuple[int, float]]]:
    """Draw for each loop batch sizes, and where between one and the next its budget lies."""
    found = {}
    for seed in seeds:
        draw = random.Random(f"budgets {seed}")
        own = draw.randint(4, 16)
        sizes = [own] + [round(own * MOST_TIMES ** draw.random()) for _ in range(count)]
        found[seed] = [(size, draw.random()) for size in sizes]
    return found


def cases(seeds: Sequence[int], count: int) -> tuple[list[Case], int, int]:
    """Ask about each loop. Returns the cases, the loops that run, and those that are answered."""
    wanted = drawn(seeds, count)
    taken, rows = peaks((seed, at) for seed, own in wanted.items() for size, _ in own
                        for at in (size, size + 1))  # fmt: skip
    asked: list[Case] = []
    tier = Static()
    with tempfile.TemporaryDirectory() as folder:
        for seed, row in rows.items():
            (own, _), *others = wanted[seed]
            script = Path(folder, f"loop_{seed}.py")
            script.write_text(text(row["drawn"], own), "utf-8")
            for size, between in others:
                asked += _asked(tier, script, seed, row["name"], size, between, taken)
    ran, _ = peaks((one.seed, one.suggested) for one in asked if one.suggested)
    made = [Case(one.seed, one.name, one.budget, one.largest, one.suggested,
                 ran.get((one.seed, one.suggested), 0)) for one in asked]  # fmt: skip
    return made, len(rows), len({one.seed for one in made})


def _asked(
    tier: Static, script: Path, seed: int, name: str, size: int, between: float, taken: Peaks
) -> Iterable[Case]:
    """Give the case of one budget; none where it was not measured or no batch is suggested."""
    low, high = taken.get((seed, size)), taken.get((seed, size + 1))
    if low is None or high is None or high <= low:
        return
    budget = low + between * (high - low)
    suggested = tier.largest(script, (), budget / MIB)
    if suggested is not None:
        yield Case(seed, name, budget, size, suggested)


def summary(found: Sequence[Case], ran: int, answered: int) -> str:
    """Say how the cases went."""
    lines = [f"{ran} loops run, {answered} are given a largest batch; {len(found)} budgets"]
    if not found:
        return lines[0]
    share = 100 / len(found)
    within, near = sum(one.within for one in found), sum(one.near for one in found)
    lines.append(f"{within * share:.1f} % stay within their budget")
    lines.append(
        f"{near * share:.1f} % reach {NEAR:.0%} of the true largest, or one sample less than it"
    )
    for one in found:
        if not one.within:
            lines.append(
                f"  beyond: {one.seed} {one.name}: {one.suggested} samples take "
                f"{100 * (one.peak / one.budget - 1):.2f} % more; {one.largest} fit"
            )
        elif not one.near:
            lines.append(f"  short: {one.seed} {one.name}: {one.suggested} of {one.largest}")
    return "\n".join(lines)


def main() -> int:
    """Draw, run, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.meta_loops.budgets", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--seeds", default="0:20", help="first and end, as in 0:20, or a list")
    parser.add_argument("--budgets", type=int, default=3, help="of each loop")
    options = parser.parse_args()
    print(summary(*cases(seeds_of(options.seeds), options.budgets)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
