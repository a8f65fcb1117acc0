"""Hold preflight's estimates against what real Paddle runs measured.

    python -m benchmarks.preflight [--set public|dev|fresh|heldout|unseen|strangers|all]
                                   [--tier static|traced] [--only ID,ID]
                                   [--budgets N] [--quiet] [--json]

Truth is the peak of Paddle's CPU allocator over whole training steps, so estimates are made with
`--backend cpu`. A script that does not state what its memory depends on is right when the answer
is "unknown". Suggested batches are judged by the runs that `python -m benchmarks.runs` has kept.
The line through two runs is judged at the other measured batches only. Times are processor times,
so that other work on the machine does not show.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.preflight import budgets, sets, tiers
from benchmarks.preflight.sets import Script

DEEP = 10.0
"""An estimate more than this many percent below the truth is counted by itself."""
Predictor = Callable[[Script, int], float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One method over one set; errors in percent, times in seconds."""

    method: str
    answered: int
    knowable: int
    unknown_said: int
    unknowable: int
    points: int
    median: float | None
    p90: float | None
    worst: float | None
    deep_under: int
    median_s: float | None = None
    command_s: float | None = None


def errors_of(script: Script, predict: Predictor) -> list[float] | None:
    """Return the signed errors at the scored points; None where one point has no answer."""
    found: list[float] = []
    for point in script.scored or script.points[:1]:
        peak = predict(script, point.batch)
        if peak is not None:
            found.append(100 * (peak / point.peak - 1))
        elif predict is not tiers.line_through_two:
            return None
    return found


def row(method: str, scripts: Sequence[Script], predict: Predictor, *, details: bool) -> Row:
    """Judge one method over a set."""
    errors: list[float] = []
    answered = unknown_said = 0
    for script in scripts:
        found = errors_of(script, predict)
        if not script.knowable:
            unknown_said += found is None
            continue
        answered += found is not None
        if script.scored:
            errors += found or []
        if details:
            shown = "unknown" if found is None else " ".join(f"{one:+.2f}" for one in found)
            mark = "" if script.scored else " (not scored)"
            print(f"  {script.id:24} {shown}{mark}")
    sizes = sorted(abs(one) for one in errors)
    knowable = sum(script.knowable for script in scripts)
    return Row(
        method, answered, knowable, unknown_said, len(scripts) - knowable, len(sizes),
        statistics.median(sizes) if sizes else None,
        sizes[round(0.9 * (len(sizes) - 1))] if sizes else None,
        sizes[-1] if sizes else None,
        sum(one < -DEEP for one in errors),
    )  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Draw the rows as text."""
    lines = [
        f"  {'method':36} {'answered':>9} {'unknown':>8} {'points':>6} {'median':>9} {'p90':>9}"
        f" {'worst':>9} {'<-10 %':>6} {'in process':>11} {'command':>8}"
    ]
    for one in rows:
        percent = [
            f"{v:7.2f} %" if v is not None else "-" for v in (one.median, one.p90, one.worst)
        ]
        inside = "-" if one.median_s is None else f"{1000 * one.median_s:.0f} ms"
        command = "-" if one.command_s is None else f"{one.command_s:.2f} s"
        lines.append(
            f"  {one.method:36} {f'{one.answered}/{one.knowable}':>9}"
            f" {f'{one.unknown_said}/{one.unknowable}':>8} {one.points:>6}"
            f" {percent[0]:>9} {percent[1]:>9} {percent[2]:>9} {one.deep_under:>6}"
            f" {inside:>11} {command:>8}"
        )
    return "\n".join(lines)


def judge_set(name: str, args: argparse.Namespace, state: Path) -> dict[str, Any]:
    """Judge one set, print it, and return it as a document."""
    scripts = sets.load(name, frozenset(filter(None, args.only.split(","))))
    static = args.tier == "static"
    tier = tiers.Static() if static else tiers.Command(args.tier, state)
    details = not (args.json or args.quiet)
    if details:
        print(f"\n{name}: {len(scripts)} scripts; signed errors in % by batch, smallest first")
    first = row(args.tier, scripts, lambda s, b: tier(s.path, s.argv, b), details=details)
    if details:
        for path, why in tier.why.items():
            print(f"    unknown: {path.name}: {why}")
    took = statistics.median(tier.seconds.values())
    command = took if not static else command_time(scripts, state) if not args.quick else None
    rows = [Row(**{**asdict(first), "median_s": took if static else None, "command_s": command})]
    rows += [row(m, scripts, predict, details=False) for m, predict in tiers.NAIVE.items()]
    near = budgets.NEAR[args.tier]
    drawn = budgets.cases(scripts, tier.largest, args.budgets)
    advice = budgets.summary(drawn, near)
    if not args.json:
        print(f"\n{name}\n{table(rows)}\n  {advice}")
    return {"set": name, "rows": [asdict(one) for one in rows], "largest_batch": advice,
            "slowest_s": max(tier.seconds.values())}  # fmt: skip


def command_time(scripts: Sequence[Script], state: Path) -> float:
    """Return the median time of the command in a process of its own, seconds."""
    command = tiers.Command("static", state)
    for script in scripts:
        command.document(script.path, script.argv)
    return statistics.median(command.seconds.values())


def main() -> None:
    """Judge the sets asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=(*sets.SETS, "all"), default="all")
    parser.add_argument("--tier", choices=tuple(budgets.NEAR), default="static")
    parser.add_argument("--only", default="", metavar="ID,ID")
    parser.add_argument("--budgets", type=int, default=50, help="budgets drawn per script")
    parser.add_argument("--quick", action="store_true", help="do not time the command")
    parser.add_argument("--quiet", action="store_true", help="totals only, no line per script")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as state:
        for name in sets.SETS if args.set == "all" else (args.set,):
            try:
                found.append(judge_set(name, args, Path(state)))
            except FileNotFoundError as missing:
                print(f"{name}: not here ({missing.filename})", file=sys.stderr)
    if args.json:
        print(json.dumps(found, indent=1))
    sys.exit(0 if found else 2)


if __name__ == "__main__":
    main()
