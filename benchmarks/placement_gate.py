"""Judge the weights of `rl_based` that come along, by the gate that `gpuconsole learn` has.

    python -m benchmarks.placement_gate [--weights FILE] [--traces FOLDER] [--write] [--fresh]

They were found on days 14 to 70 of the Venus trace; the gate plays days 70 to 98, under both
policies on the same jobs, in the labs of 4, 8 and 20 hosts, by the compiled copy of the simulation,
which starts every job when the engine does. Each lab is judged by itself. `--write` notes in the
file the verdict over those that passed and the size of the largest: in larger labs the weights are
not used. The windows of `benchmarks.placement` begin later, or are of another trace. `--fresh`
plays what neither has: what is left of both traces.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.placement import LABS, LOADS, SIGMAS, TRACES, dice, lab_of, trace_of
from benchmarks.placement_search.compiled import Window, built
from gpuconsole.placement.learned import weights_file
from gpuconsole.placement.learned.gate import Play, judge
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.workload import Cut, build


class Span(NamedTuple):
    """Windows by trace and first day, their length, and the seeds of what is drawn."""

    starts: tuple[tuple[str, int], ...]
    days: int
    seeds: range


GATE = Span((("venus", 70), ("venus", 84)), 14, range(20, 32))
"""Draws that no training and no report has."""
FRESH = Span(
    (("venus", 140), *(("philly", day) for day in (0, 10, 35, 59, 83, 95))), 10, range(40, 44)
)
"""Days that neither training nor gate nor report has."""


def played(
    code: CDLL, lab_name: str, trained: weights_file.Trained, traces: Path, span: Span
) -> Iterator[tuple[Play, Play]]:
    """Yield each window under `weighted`, and with the weights."""
    lab, base = lab_of(lab_name), named_policy("weighted")
    own = named_policy("rl_based", learned=trained.learned)
    for seed in span.seeds:
        for trace, day in span.starts:
            for load in LOADS:
                for sigma in SIGMAS:
                    cut = Cut(load, day, span.days, sigma=sigma)
                    jobs = build(trace_of(trace, traces), lab, cut, dice(seed))
                    window = Window(lab, jobs)
                    yield window.play(code, base), window.play(code, own)


def by_load(pairs: Sequence[tuple[Play, Play]]) -> Iterator[str]:
    """Yield the ratio of mean completion times at each load; pairs are as `played` yields them."""
    for place, load in enumerate(LOADS):
        own = [pair for n, pair in enumerate(pairs) if n // len(SIGMAS) % len(LOADS) == place]
        verdict = judge(*zip(*own, strict=True))
        yield f"{load:g} {verdict.mean_jct_ratio:.3f} ± {verdict.error:.3f}"


def main() -> int:
    """Play, print a verdict for each lab and for those that passed; note the latter if asked to."""
    parser = argparse.ArgumentParser(description="Judge the weights that come along.")
    parser.add_argument("--weights", type=Path, default=weights_file.SHIPPED)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--write", action="store_true", help="note the verdict in the file")
    parser.add_argument(
        "--fresh", action="store_true", help="play what else there is, note nothing"
    )
    given = parser.parse_args()
    span = FRESH if given.fresh else GATE
    trained = weights_file.read(given.weights)
    passed: list[tuple[Play, Play]] = []
    largest = 0
    with tempfile.TemporaryDirectory() as folder:
        code = built(Path(folder))
        for name in LABS:
            pairs = list(played(code, name, trained, given.traces, span))
            verdict = judge(*zip(*pairs, strict=True))
            print(f"{name}: {verdict.sentence()}")
            print(f"  by load: {', '.join(by_load(pairs))}", flush=True)
            if verdict.passed:
                passed += pairs
                largest = max(largest, lab_of(name).devices)
    if not passed:
        return 1
    verdict = judge(*zip(*passed, strict=True))
    print(f"together: {verdict.sentence()} Longest waits: {verdict.p99_wait_ratio:.2f}.")
    if given.write and not given.fresh:
        origin = replace(trained.origin, devices=largest)
        text = weights_file.dumped(replace(trained, verdict=verdict, origin=origin))
        given.weights.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
