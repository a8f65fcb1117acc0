"""Hold settings of the queue's order against each other: patience, fair share, age.

    python -m benchmarks.placement_order [--policies weighted,saf_easy] [--patience 0.1,1]
                                         [--fair-share 0.2,1] [--front 0,24] [--days 14,28]
                                         [--labs lab4,lab8] [--jobs N]

Every figure is a simulation on a public trace, played by the compiled copy of the engine. The
windows are those on which the weights of `weighted` were chosen (Venus days 14 to 96), never those
that docs/placement-figures.md reports. Prints one row for each setting: mean completion time
against that of the classic heuristic that is best in the lab (geometric mean over windows, loads
and errors of the predictions), p99 wait likewise, the longest wait (h), and Jain's index over users
of the share of their jobs' time that was not waiting.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks import placement as shared
from benchmarks.placement_search.compiled import Window
from benchmarks.placement_tables import CLASSIC, geometric
from gpuconsole.placement.model import Policy
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.metrics import Metrics, metrics
from gpuconsole.placement.simulate.workload import Cut, build

DAYS = (14, 28, 42, 56, 70)
PATIENCE = "0,0.1,0.5,1"
FAIR_SHARE = "0,0.2,1,3"
FRONT = "0,24,72"
"""Hours that a job waits at least before it goes to the front."""


class Cell(NamedTuple):
    """One set of jobs on one lab."""

    lab: str
    load: float
    day: int
    sigma: float
    traces: Path


@dataclass(frozen=True, slots=True)
class Figures:
    """What one policy came to on one set of jobs: hours, and Jain's index."""

    jct: float
    p99: float
    longest: float
    jain: float


def settings(policies: str, patience: str, fair_share: str, front: str) -> Iterator[Policy]:
    """Return the policies that are held against each other."""
    parts = (each.split(",") for each in (policies, patience, fair_share, front))
    for policy, own, share, age in product(*parts):
        yield replace(
            named_policy(policy),
            name=f"{policy}, patience {own}, fair share {share}, front after {age} h",
            patience=float(own),
            fair_share=float(share),
            front_after_s=float(age) * 3600.0,
        )


def play(task: tuple[Cell, Sequence[Policy]]) -> tuple[Cell, dict[str, Figures]]:
    """Play policies and the classic heuristics on one set of jobs."""
    cell, policies = task
    lab = shared.lab_of(cell.lab)
    cut = Cut(cell.load, cell.day, shared.DAYS, sigma=cell.sigma)
    jobs = build(shared.trace_of("venus", cell.traces), lab, cut, shared.dice(0))
    window = Window(lab, jobs)
    return cell, {
        one.name: _figures(metrics(window.outcome(shared.code(), one)))
        for one in (*map(named_policy, CLASSIC), *policies)
    }


def _figures(made: Metrics) -> Figures:
    found = (made.mean_jct_s, made.p99_wait_s, made.longest_wait_s)
    hours = [0.0 if one is None else one / 3600.0 for one in found]
    return Figures(*hours, made.fairness_jain or 0.0)


def rows(played: Sequence[tuple[Cell, dict[str, Figures]]]) -> Iterator[str]:
    """Return a table for each lab, the best setting first."""
    labs: dict[str, list[dict[str, Figures]]] = defaultdict(list)
    for cell, found in played:
        labs[cell.lab].append(found)
    for lab, cells in sorted(labs.items()):
        means = {name: geometric(one[name].jct for one in cells) for name in cells[0]}
        best = min(CLASSIC, key=means.__getitem__)
        yield f"\n{lab}: {len(cells)} sets of jobs, against {best}"
        yield f"{'setting':60} {'JCT':>6} {'p99':>6} {'longest':>8} {'Jain':>6}"
        for name in sorted(means, key=means.__getitem__):
            waits = geometric((one[name].p99 + 0.02) / (one[best].p99 + 0.02) for one in cells)
            longest = max(one[name].longest for one in cells)
            jain = math.fsum(one[name].jain for one in cells) / len(cells)
            told = f"{means[name] / means[best]:6.3f} {waits:6.2f} {longest:7.0f}h {jain:6.3f}"
            yield f"{name:60} {told}"


def main() -> int:
    """Play everything and print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.placement_order", description=__doc__)
    parser.add_argument("--traces", type=Path, default=shared.TRACES)
    parser.add_argument("--policies", default="weighted", help="whose order and places are taken")
    parser.add_argument("--patience", default=PATIENCE)
    parser.add_argument("--fair-share", default=FAIR_SHARE)
    parser.add_argument("--front", default=FRONT, help="hours; 0 for no such rule")
    parser.add_argument("--days", default=",".join(map(str, DAYS)), help="first days of windows")
    parser.add_argument("--labs", default=",".join(shared.LABS))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    if not (given.traces / shared.FILES["venus"][0]).exists():
        sys.exit(f"{given.traces} lacks the trace; docs/simulate.md says where it is from.")
    policies = list(settings(given.policies, given.patience, given.fair_share, given.front))
    tasks = [
        (Cell(lab, load, int(day), sigma, given.traces), policies)
        for lab, load, day, sigma in product(
            given.labs.split(","), shared.LOADS, given.days.split(","), shared.SIGMAS
        )
    ]
    with get_context("spawn").Pool(given.jobs) as pool:
        played = []
        for number, found in enumerate(pool.imap_unordered(play, tasks), 1):
            print(f"\r{number}/{len(tasks)} ", end="", file=sys.stderr, flush=True)
            played.append(found)
    print("\n".join(rows(played)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
