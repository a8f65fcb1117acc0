"""Draw loops by seed and hold a tier's peaks against the allocator's."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.meta_loops.child import HABITS
from benchmarks.meta_loops.script import text
from gpuconsole import preflight
from gpuconsole.core.units import MIB

ROOT = Path(__file__).parents[2]
TOO_LOW = 0.001
"""Share of the truth by which an answer may lie below it without being named."""
MOST_SECONDS = 3600
TIERS = ("meta", "static")
KINDS = ("loops", "habits")
"""Ways of training; what scripts do beside it, such as to save and to evaluate."""


@dataclass(frozen=True)
class Answer:
    """A loop's true peak and what was told of it, in bytes."""

    seed: int
    name: str
    true: int = 0
    told: int | None = None
    why: str = ""
    """Why nothing was told, or why the loop does not run."""
    runs: bool = True
    flags: tuple[str, ...] = ()
    """What the estimate says of itself."""

    @property
    def error(self) -> float:
        """Return the share of the truth by which the answer is too high (below 0: too low)."""
        assert self.told is not None
        return self.told / self.true - 1.0


def run(way: str, asked: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Run loops in one way, in a new process after each that broke off; what ends a process is an
    answer too. Each is asked for as `SEED`, or as `SEED@SAMPLES` with batches of that size."""
    found: dict[str, dict[str, Any]] = {}
    left = list(asked)
    while left:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.meta_loops.child", way, *left],
            capture_output=True, text=True, check=False, timeout=MOST_SECONDS, cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOG_minloglevel": "3"},
        )  # fmt: skip
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                found[row["asked"]] = row
        before, left = left, [one for one in left if one not in found]
        if left == before:
            why = f"the process ended with {done.returncode}: {done.stderr.strip()[-300:]}"
            found[left[0]] = {"asked": left[0], "name": "", "peaks": [], "why": why}
            del left[0]
    return found


def read(real: Iterable[dict[str, Any]], kind: str = "loops") -> dict[int, dict[str, Any]]:
    """Return what the static tier says of each loop that was run, written as a script."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in real:
            script = Path(folder, f"loop_{row['seed']}.py")
            script.write_text(text(row["drawn"], kind=kind), "utf-8")
            estimate = preflight.analyse(script).estimate(backend="cpu")
            why = [one.message for one in estimate.errors]
            why += [one.reason for one in estimate.unknowns if estimate.memory is None]
            memory = estimate.memory
            peaks = [] if memory is None or why else [round(memory.reserved_mib * MIB)]
            found[row["seed"]] = {
                "seed": row["seed"], "name": row["name"], "peaks": peaks,
                "why": "" if peaks else (why or ["no reason given"])[0],
                "flags": tuple(sorted(estimate.flags)),
            }  # fmt: skip
    return found


def answers(seeds: Sequence[int], tier: str = "meta", kind: str = "loops") -> list[Answer]:
    """Return what a tier says of each loop."""
    asked = {f"{HABITS}{seed}" if kind == "habits" else str(seed): seed for seed in seeds}
    real = {asked[one]: row for one, row in run("real", asked).items()}
    if tier == "meta":
        said = {asked[one]: row for one, row in run("meta", asked).items()}
    else:
        said = read((row for row in real.values() if not row["why"]), kind)
    made = []
    for seed in seeds:
        true = real[seed]
        if true["why"]:
            made.append(Answer(seed, true["name"], why=true["why"], runs=False))
            continue
        found, name, peak = said[seed], true["name"], max(true["peaks"])
        if found["why"]:
            made.append(Answer(seed, name, true=peak, why=found["why"]))
        else:
            flags = tuple(found.get("flags", ()))
            made.append(Answer(seed, name, peak, max(found["peaks"]), flags=flags))
    return made


def report(rows: Iterable[Answer]) -> list[str]:
    """Return the summary as lines."""
    rows = list(rows)
    ran = [one for one in rows if one.runs]
    told = [one for one in ran if one.told is not None]
    lines = [
        f"{len(rows)} loops drawn, {len(ran)} run, {len(told)} answered, "
        f"{len(ran) - len(told)} refused"
    ]
    lines += [f"  does not run: {one.seed} {one.name} {one.why}" for one in rows if not one.runs]
    lines += [f"  refused: {one.seed} {one.name} {one.why}" for one in ran if one.told is None]
    if not told:
        return lines
    errors = sorted(abs(one.error) for one in told)
    low = sorted((one for one in told if one.error < -TOO_LOW), key=lambda one: one.error)
    high = sorted((one for one in told if one.error > TOO_LOW), key=lambda one: -one.error)
    lines.append(
        f"error: median {statistics.median(errors):.2%}, 90th percentile "
        f"{errors[int(0.9 * (len(errors) - 1))]:.2%}, worst {errors[-1]:.2%}; "
        f"{len(low)} too low, {len(high)} too high"
    )
    for word, group in (("too low", low), ("too high", high)):
        lines += [f"  {word}: {one.seed} {one.name} {one.error:+.2%} of {one.true:,} bytes "
                  f"{' '.join(one.flags)}".rstrip()
                  for one in group]  # fmt: skip
    return lines


def seeds_of(given: str) -> list[int]:
    """Return the seeds of an argument: `0:40` (without the end), or a list `3,5,8`."""
    if ":" in given:
        first, end = map(int, given.split(":"))
        return list(range(first, end))
    return [int(one) for one in given.split(",")]


def main() -> int:
    """Draw, run, print; 1 where something was told too low."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.meta_loops", description=__doc__)
    parser.add_argument("--seeds", default="0:40", help="first and end, as in 0:40, or a list")
    parser.add_argument("--tier", choices=TIERS, default="meta")
    parser.add_argument("--kind", choices=KINDS, default="loops")
    options = parser.parse_args()
    rows = answers(seeds_of(options.seeds), options.tier, options.kind)
    print("\n".join(report(rows)))
    return int(any(one.told is not None and one.error < -TOO_LOW for one in rows))


if __name__ == "__main__":
    sys.exit(main())
