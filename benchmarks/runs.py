"""Real runs at the batches that were suggested for random budgets, kept with their date.

    python -m benchmarks.runs [--set public|dev|fresh|heldout|unseen|strangers|all] [--only ID,ID]
                              [--tier static|meta|traced] [--budgets N] [--sample N]

What the measured batches of `truth.json` cannot decide is run: one fresh process of real Paddle at
the batch that was suggested, the middle one of those in question first, until every budget is
decided. `--sample` runs as many suggestions per script besides, drawn by a seed, although they are
decided: so the assumption that decides them is held against real runs too, and those outside its
bounds are listed. Peaks are kept in `scripts/runs.json`; a run that did not end within a minute, or
did not come to three steps, is kept as null and stays undecided. What is kept is not run again:
take it out of the file to measure it again.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import truth
from benchmarks.preflight import budgets, sets, tiers
from benchmarks.preflight.sets import RUNS, Script, bounds
from gpuconsole.core.units import MIB

Measure = Callable[[Script, int], dict[str, Any]]
"""Runs a script at a batch size; the harness's record of it."""
LIMIT_S = 60
"""A run that takes longer is left out."""
TOLERANCE = 256
"""Bytes by which a peak may lie beside its bounds: blocks are rounded to this."""


def undecided(cases: Sequence[budgets.Case]) -> set[int]:
    """Return the suggestions of one script of which it is not known if they keep the budget."""
    return {case.suggested for case in cases if case.low <= case.budget < case.high}


def wanted(script: Script, cases: Sequence[budgets.Case], sample: int) -> list[int]:
    """Return the batches of a script to run, smallest first; none that was run before."""
    known = {point.batch for point in script.points} | set(script.runs)
    suggested = {case.suggested for case in cases if case.suggested}
    # Of all suggestions, so that the same ones are drawn however many are known already.
    count = min(sample, len(suggested))
    drawn = random.Random(f"{budgets.SEED} {script.id}").sample(sorted(suggested), count)
    return sorted((undecided(cases) | set(drawn)) - known)


def measured(
    script: Script, largest: budgets.Largest, count: int, sample: int, measure: Measure
) -> Iterator[tuple[int, int | None, str]]:
    """Run what is wanted of a script, and what is still undecided after it; yield each result."""
    runs = dict(script.runs)
    cases = budgets.cases([script], largest, count)
    while batches := wanted(script.with_runs(runs), cases, sample):
        batch = batches[len(batches) // 2]
        record = measure(script, batch)
        fault = record.get("error") or ("" if record["cycles"] >= 3 else "fewer than three steps")
        runs[batch] = None if fault else record["peak_bytes"]
        yield batch, runs[batch], fault
        cases = [budgets.judged(script.with_runs(runs), one.budget, one.suggested)
                 for one in cases]  # fmt: skip


def keep(name: str, script: Script, batch: int, peak: int | None) -> None:
    """Write one run to the file of runs."""
    found = json.loads(RUNS.read_text("utf-8")) if RUNS.exists() else {"sets": {}}
    runs = found["sets"].setdefault(name, {}).setdefault(script.id, {})
    runs[str(batch)] = peak
    in_order = sorted(runs.items(), key=lambda one: int(one[0]))
    found["sets"][name][script.id] = dict(in_order)
    found |= {"paddle": script.entry["paddle"], "measured": str(datetime.date.today())}
    text = json.dumps({key: found[key] for key in ("paddle", "measured", "sets")}, indent=1)
    RUNS.write_text(text + "\n", "utf-8")


def outside(script: Script) -> list[tuple[int, float]]:
    """Return the runs that lie outside the bounds of `truth.json`, with percent of the bound."""
    found = []
    for batch, peak in script.runs.items():
        low, high = bounds(script.points, batch)
        if peak is not None and not low - TOLERANCE <= peak <= high + TOLERANCE:
            found.append((batch, 100 * (peak / (low if peak < low else high) - 1)))
    return found


def main() -> None:
    """Run what is wanted of the sets asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=(*sets.SETS, "all"), default="all")
    parser.add_argument("--tier", choices=tuple(budgets.NEAR), default="static")
    parser.add_argument("--only", default="", metavar="ID,ID")
    parser.add_argument("--budgets", type=int, default=50, help="budgets drawn per script")
    parser.add_argument("--sample", type=int, default=0, help="decided suggestions to run as well")
    parser.add_argument("--harness", type=Path, default=truth.HARNESS)
    args = parser.parse_args()
    harness = truth.load_harness(args.harness)

    def measure(script: Script, batch: int) -> dict[str, Any]:
        entry, path = script.entry, script.path
        found: dict[str, Any] = truth.measure(harness, entry, batch, path=path, timeout=LIMIT_S)
        return found

    only = frozenset(filter(None, args.only.split(",")))
    with tempfile.TemporaryDirectory() as state:
        tier = tiers.Static() if args.tier == "static" else tiers.Command(args.tier, Path(state))
        for name in sets.SETS if args.set == "all" else (args.set,):
            for script in sets.load(name, only):
                done = measured(script, tier.largest, args.budgets, args.sample, measure)
                for batch, peak, fault in done:
                    keep(name, script, batch, peak)
                    said = fault[-120:] if peak is None else f"{peak / MIB:.2f} MiB"
                    print(f"  {name:8} {script.id:22} {batch:>6}: {said}", flush=True)
            after = sets.load(name, only)
            runs = sum(peak is not None for one in after for peak in one.runs.values())
            beside = [(one.id, *found) for one in after for found in outside(one)]
            far = "".join(f"\n  {id:22} {batch}: {by:+.2f} %" for id, batch, by in beside)
            print(f"{name}: {runs} runs, {len(beside)} outside the bounds{far}")


if __name__ == "__main__":
    main()
