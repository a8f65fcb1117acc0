"""Hold weights of `rl_based` against `weighted` on the windows that they are searched on.

    python -m benchmarks.placement_search FILE… [--traces FOLDER] [--seeds N…] [--pairs N]

Days 14 to 70 of the Venus trace, in the labs of 4, 8 and 20 hosts: fortnights as they are, and all
of them folded into one with fewer gangs and longer tails, so that there is more than one mix.
Prints the ratios of mean completion time (geometric, with their standard error) and of p99 waits.
With `--pairs`, also how the former changes with each feature around the first file: by least
squares over points on opposite sides of it, each played on all windows.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from ctypes import CDLL
from dataclasses import replace
from math import exp, fsum, log
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from benchmarks.placement import LABS, LOADS, SIGMAS, TRACES, dice, lab_of, trace_of
from benchmarks.placement_search.compiled import Window, built
from gpuconsole.placement.engine.features import ORDER_FEATURES, PLACE_FEATURES
from gpuconsole.placement.learned import weights_file
from gpuconsole.placement.learned.gate import Play
from gpuconsole.placement.model import Learned, Policy
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.trace_readers import DAY, Trace
from gpuconsole.placement.simulate.workload import Cut, build

FIRST_DAY, LAST_DAY, DAYS = 14, 70, 14
SEEDS = (10, 11, 12, 13)
FOLDED_EACH = 3
"""Folded fortnights for each seed."""
STEP = 0.5
"""Width of the perturbations of a weight."""


class Known(NamedTuple):
    """A window, what it belongs to, and how `weighted` fared in it."""

    lab: str
    load: float
    window: Window
    base: Play


def folded(trace: Trace, seed: int) -> Trace:
    """Return the training days laid over one fortnight, with few gangs and longer tails."""
    chance = random.Random(f"mix{seed}")
    gangs, spread = chance.choice((0.08, 0.15, 0.4)), chance.choice((0.0, 0.3, 0.6))
    shift, begin = chance.uniform(0, DAYS), trace.jobs[0].submitted_s
    rows = []
    for job in trace.jobs:
        day = (job.submitted_s - begin) / DAY
        if not FIRST_DAY <= day < LAST_DAY or (job.devices > 1 and chance.random() > gangs):
            continue
        turn = (day - FIRST_DAY) // DAYS
        at = (day - FIRST_DAY + shift * turn) % DAYS * DAY
        longer = exp(chance.gauss(spread, spread))
        rows.append(replace(job, submitted_s=at, run_time_s=job.run_time_s * longer))
    rows.sort(key=lambda job: job.submitted_s)
    rows[0] = replace(rows[0], submitted_s=0.0)
    return Trace(f"folded {seed}", tuple(rows))


def windows(code: CDLL, traces: Path, seeds: Sequence[int]) -> Iterator[Known]:
    """Yield the training windows."""
    venus, base = trace_of("venus", traces), named_policy("weighted")
    parts = [
        (venus, float(day), seed) for seed in seeds for day in range(FIRST_DAY, LAST_DAY, DAYS)
    ]
    for seed in seeds:
        parts += [(folded(venus, FOLDED_EACH * seed + n), 0.0, seed) for n in range(FOLDED_EACH)]
    for name in LABS:
        for trace, day, seed in parts:
            for load in LOADS:
                for sigma in SIGMAS:
                    cut = Cut(load, day, float(DAYS), sigma=sigma)
                    window = Window(lab_of(name), build(trace, lab_of(name), cut, dice(seed)))
                    yield Known(name, load, window, window.play(code, base))


def gains(code: CDLL, every: Sequence[Known], policy: Policy) -> list[tuple[float, float]]:
    """Return the logarithms of the ratios of completion times and waits, window by window."""
    found = []
    for one in every:
        own = one.window.play(code, policy)
        waits = log((own.p99_wait_s + 600.0) / (one.base.p99_wait_s + 600.0))
        found.append((log(own.mean_jct_s / one.base.mean_jct_s), waits))
    return found


def slopes(
    code: CDLL, every: Sequence[Known], start: Learned, pairs: int
) -> Iterator[tuple[str, float]]:
    """Yield by how much a unit of each weight changes the logarithm of the ratio."""
    import numpy as np

    chance = np.random.default_rng(1)
    names = (*PLACE_FEATURES, *ORDER_FEATURES)
    steps = chance.normal(size=(pairs, len(names))) * STEP

    def mean(step: Sequence[float]) -> float:
        moved = dict(zip(names, step, strict=True))
        place = {name: start.place.get(name, 0.0) + moved[name] for name in PLACE_FEATURES}
        order = {name: start.order.get(name, 0.0) + moved[name] for name in ORDER_FEATURES}
        policy = named_policy("rl_based", learned=replace(start, place=place, order=order))
        return fmean(gain for gain, _ in gains(code, every, policy))

    halves = np.array([(mean(step) - mean(-step)) / 2.0 for step in steps])
    square = steps.T @ steps + np.eye(len(names))
    yield from zip(names, np.linalg.solve(square, steps.T @ halves).tolist(), strict=True)


def _told(every: Sequence[Known], found: Sequence[tuple[float, float]]) -> Iterator[str]:
    groups: list[tuple[str, Callable[[Known], bool]]] = [("all", lambda one: True)]
    for lab in LABS:
        groups.append((lab, lambda one, lab=lab: one.lab == lab))  # type: ignore[misc]
        groups += [
            (
                f"{lab} at {load:g}",
                lambda one, lab=lab, load=load: (one.lab, one.load) == (lab, load),
            )  # type: ignore[misc]
            for load in LOADS
        ]
    for name, belongs in groups:
        own = [each for one, each in zip(every, found, strict=True) if belongs(one)]
        mean, wait = (fsum(each[place] for each in own) / len(own) for place in (0, 1))
        error = stdev(each[0] for each in own) / len(own) ** 0.5
        yield f"  {name:12} {exp(mean):.4f} ± {error:.4f}   p99 wait {exp(wait):.3f}"


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement_search")
    parser.add_argument("files", type=Path, nargs="*", default=[weights_file.SHIPPED])
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--pairs", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        code = built(Path(folder))
        every = list(windows(code, given.traces, given.seeds))
        learned = [weights_file.read(file).learned for file in given.files]
        for file, one in zip(given.files, learned, strict=True):
            print(f"{file}, {len(every)} windows:")
            found = gains(code, every, named_policy("rl_based", learned=one))
            print("\n".join(_told(every, found)), flush=True)
        if given.pairs:
            for name, slope in slopes(code, every, learned[0], given.pairs):
                print(f"  {name:20} {slope:+.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
