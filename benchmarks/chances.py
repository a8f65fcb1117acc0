"""Are chances to run out of memory worth what they say, and does the truth lie in the range?

    python -m benchmarks.chances [--jobs N] [--seed N] [--set NAME ...] [--json]
    python -m benchmarks.chances --loops 1000:1240 [--tier static|meta] [--half 0|1]

A simulated lab: jobs arrive one after the other, each one measured script at one of its measured
batch sizes (with replacement). What is free on the device is drawn around the estimate, whatever
the truth is: of three jobs one within a factor of two, one within a quarter, one within a
twentieth. The chance is stated before each job, from what earlier jobs have shown; the outcome is
real: the peak that Paddle's CPU allocator counted, against what was free. `cold` asks the same
questions with no history at all. Only scripts that the static tier answers take part.

With `--loops` the jobs are training loops drawn by seed (`benchmarks.meta_loops`), each run by
Paddle now, without history. `--half` takes those whose hash is even (0) or odd (1).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from benchmarks.meta_loops import __main__ as drawn_loops
from benchmarks.preflight import sets, tiers
from benchmarks.preflight.sets import Point, Script
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.estimate import Estimate, Tier
from gpuconsole.core.units import MIB
from gpuconsole.preflight.accuracy.calibration import Calibration
from gpuconsole.preflight.card import Card
from gpuconsole.preflight.memory.footprint import Footprint, as_memory
from gpuconsole.preflight.tiers.history import Corrected, Past
from gpuconsole.preflight.verdicts import oom_probability

TENTHS = 10
HOST, DEVICE = "simulated", "CPU"
WIDTHS = (2.0, 1.25, 1.05)
"""Free memory is drawn between the estimate over one of these and the estimate times it, evenly in
logarithms. Near the estimate it decides whether a chance in the middle is worth what it says."""
JOBS_OF_A_LOOP = 30
"""How often a drawn loop is asked about."""
ENOUGH = 10
"""With fewer jobs in it, a tenth says nothing."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was said of one job, and what happened."""

    chance: float
    ran_out: bool
    inside: bool
    """Whether the true peak lay within the range of the estimate."""


@dataclass(frozen=True, slots=True)
class Tenth:
    """Jobs whose chance lay in one tenth."""

    low: float
    jobs: int
    predicted: float
    happened: float

    @property
    def off(self) -> float:
        """Points between what was said and what happened."""
        return 100.0 * (self.predicted - self.happened)


def answered(names: Sequence[str]) -> list[Script]:
    """Return the scripts whose measured points the static tier can answer."""
    tier = tiers.Static()
    found = [one for name in names for one in sets.load(name) if one.scored]
    return [one for one in found if all(tier(one.path, one.argv, p.batch) for p in one.scored)]


def arrivals(
    scripts: Sequence[Script], jobs: int, seed: int
) -> Iterator[tuple[Script, Point, float]]:
    """Draw jobs: a script, a batch size, and how many times its estimate is free for it."""
    drawn = random.Random(seed)
    for _ in range(jobs):
        script = drawn.choice(scripts)
        yield script, drawn.choice(script.scored), _free(drawn)


def _free(drawn: random.Random) -> float:
    """Draw what is free, as a multiple of the estimate."""
    return float(drawn.choice(WIDTHS) ** drawn.uniform(-1.0, 1.0))


def lab(scripts: Sequence[Script], jobs: int, seed: int, *, learns: bool) -> list[Told]:
    """Let the jobs arrive, and return what was said of each."""
    tier, history, told = tiers.Static(), list[Observation](), list[Told]()
    for at, (script, point, times) in enumerate(arrivals(scripts, jobs, seed)):
        calibration = Calibration.from_observations(history if learns else ())
        args = ("--batch-size", str(point.batch))
        past = Past(calibration, script.id, args)
        read = tier.analysis(script.path, script.argv)
        first = read.estimate(point.batch, backend="cpu").memory
        assert first is not None
        free_mib = first.total_mib * times
        estimate = Corrected(read, past, point.batch).estimate(point.batch, backend="cpu")
        chance = _chance(past, estimate, free_mib)
        memory, peak = estimate.memory, point.peak / MIB
        assert chance is not None
        assert memory is not None
        ran_out = peak > free_mib
        told.append(Told(chance, ran_out, memory.low_mib <= peak <= memory.high_mib))
        history.append(
            Observation(
                job=str(at), attempt=1, at=float(at), outcome="oom" if ran_out else "ok",
                digest=script.id, script=script.path.name, args=args, batch=point.batch,
                backend="cpu", device=DEVICE, host=HOST, tier=estimate.tier,
                predicted_reserved_mib=memory.reserved_mib, oom_probability=chance,
                allocated_mib=min(peak, free_mib), free_mib=free_mib,
            )
        )  # fmt: skip
    return told


def loops(seeds: Sequence[int], tier: str, half: int | None, seed: int) -> list[Told]:
    """State a chance for drawn loops, each asked about several times, without history."""
    drawn, told = random.Random(seed), list[Told]()
    for row in drawn_loops.answers(seeds, tier):
        if row.told is None or (half is not None and half_of(f"loop {row.seed}") != half):
            continue
        estimate, peak = _estimate(row, tier), row.true / MIB
        memory = estimate.memory
        assert memory is not None
        inside = memory.low_mib <= peak <= memory.high_mib
        for _ in range(JOBS_OF_A_LOOP):
            free_mib = memory.total_mib * _free(drawn)
            chance = _chance(Past(Calibration(), str(row.seed)), estimate, free_mib)
            assert chance is not None
            told.append(Told(chance, peak > free_mib, inside))
    return told


def half_of(name: str) -> int:
    """Return the half that a script belongs to, by the hash of its name."""
    return hashlib.sha256(name.encode()).digest()[0] % 2


def _estimate(row: drawn_loops.Answer, tier: str) -> Estimate:
    """Return the estimate of a loop as the tier gives it to users."""
    size = (row.told or 0) / MIB
    parts = dict.fromkeys(("parameters", "gradients", "optimizer", "activations", "inputs",
                           "workspace"), 0.0)  # fmt: skip
    known: Tier = "meta" if tier == "meta" else "static"
    memory = as_memory(Footprint(parts, size, size), "cpu", known, None)
    return Estimate(
        script=row.name, batch_size=None, batch_source=None, backend="cpu", tier=known,
        coverage=1.0, memory=memory, flags=row.flags,
    )  # fmt: skip


def _chance(past: Past, estimate: Estimate, free_mib: float) -> float | None:
    """Return the chance that would stand beside the verdict."""
    card = Card(DEVICE, HOST, "cpu", free_mib, context_mib=0.0)
    chance = oom_probability(estimate, card)
    return past.chance(estimate, card) if chance is not None else None


def tenths(told: Sequence[Told]) -> list[Tenth]:
    """Return the jobs by the tenth in which their chance lay."""
    found = []
    for place in range(TENTHS):
        inside = [one for one in told if min(int(one.chance * TENTHS), TENTHS - 1) == place]
        if inside:
            n = len(inside)
            predicted = sum(one.chance for one in inside) / n
            found.append(Tenth(place / TENTHS, n, predicted, sum(o.ran_out for o in inside) / n))
    return found


def table(name: str, told: Sequence[Told]) -> str:
    """Draw one lab as text."""
    share = 100 * sum(one.inside for one in told) / len(told)
    lines = [
        f"{name}: {len(told)} jobs; truth inside the range {share:.1f} %",
        f"  {'chance':>10} {'jobs':>6} {'predicted':>10} {'ran out':>9} {'points off':>11}",
    ]
    for one in tenths(told):
        few = "" if one.jobs >= ENOUGH else "  (few)"
        lines.append(
            f"  {100 * one.low:4.0f}-{100 * one.low + 10:3.0f} % {one.jobs:>6}"
            f" {100 * one.predicted:>8.1f} % {100 * one.happened:>7.1f} % {one.off:>+11.1f}{few}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run both labs and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", nargs="*", choices=sets.SETS, default=sets.SETS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--loops", metavar="FIRST:END", help="seeds of drawn loops")
    parser.add_argument("--tier", choices=drawn_loops.TIERS, default="static", help="of --loops")
    parser.add_argument("--half", type=int, choices=(0, 1), help="of --loops, by their hash")
    options = parser.parse_args(argv)
    if options.loops:
        seeds = drawn_loops.seeds_of(options.loops)
        told = loops(seeds, options.tier, options.half, options.seed)
        name = f"{options.tier} tier, {len(told) // JOBS_OF_A_LOOP} drawn loops"
        print(json.dumps([asdict(one) for one in tenths(told)]) if options.json
              else table(name, told))  # fmt: skip
        return 0
    here = [name for name in options.set if name != "public" or sets.PUBLIC.exists()]
    scripts = answered(here)
    labs = {
        name: lab(scripts, options.jobs, options.seed, learns=learns)
        for name, learns in (("cold", False), ("with history", True))
    }
    if options.json:
        print(json.dumps({name: [asdict(one) for one in tenths(t)] for name, t in labs.items()}))
    else:
        print(f"{len(scripts)} scripts; a simulated lab, truth from Paddle's CPU allocator")
        print("\n".join(table(name, told) for name, told in labs.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
