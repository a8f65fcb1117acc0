"""Judge the weights of `rl_based` that come along, by the gate that `gpuconsole learn` has.

    python -m benchmarks.placement_gate [--weights FILE] [--traces FOLDER] [--write]

They were found on days 14 to 70 of the Venus trace; the gate plays days 70 to 98, under both
policies on the same jobs, in the labs of 4, 8 and 20 hosts, by the compiled copy of the simulation,
which starts every job when the engine does. `--write` notes the verdict over all of them in the
file, which is used only where it passed. The windows of `benchmarks.placement` begin later, or are
of another trace.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path

from benchmarks.placement import LABS, LOADS, SIGMAS, TRACES, dice, lab_of, trace_of
from benchmarks.placement_search.compiled import Window, built
from gpuconsole.placement.learned import weights
from gpuconsole.placement.learned.gate import Play, judge
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.workload import Cut, build

START_DAYS = (70, 84)
DAYS = 14
SEEDS = range(20, 32)
"""Draws that no training and no report has."""


def played(
    code: CDLL, lab_name: str, trained: weights.Trained, traces: Path
) -> Iterator[tuple[Play, Play]]:
    """Yield each window under `weighted`, and with the weights."""
    lab, base = lab_of(lab_name), named_policy("weighted")
    own = named_policy("rl_based", learned=trained.learned)
    for seed in SEEDS:
        for day in START_DAYS:
            for load in LOADS:
                for sigma in SIGMAS:
                    cut = Cut(load, day, DAYS, sigma=sigma)
                    jobs = build(trace_of("venus", traces), lab, cut, dice(seed))
                    window = Window(lab, jobs)
                    yield window.play(code, base), window.play(code, own)


def main() -> int:
    """Play, print a verdict for each lab and for all, and note the latter where asked to."""
    parser = argparse.ArgumentParser(description="Judge the weights that come along.")
    parser.add_argument("--weights", type=Path, default=weights.SHIPPED)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--write", action="store_true", help="note the verdict in the file")
    given = parser.parse_args()
    trained = weights.read(given.weights)
    every: list[tuple[Play, Play]] = []
    with tempfile.TemporaryDirectory() as folder:
        code = built(Path(folder))
        for name in LABS:
            pairs = list(played(code, name, trained, given.traces))
            every += pairs
            print(f"{name}: {judge(*zip(*pairs, strict=True)).sentence()}", flush=True)
    verdict = judge(*zip(*every, strict=True))
    print(f"all: {verdict.sentence()} Longest waits: {verdict.p99_wait_ratio:.2f}.")
    if given.write:
        text = weights.dumped(replace(trained, verdict=verdict))
        given.weights.write_text(text, encoding="utf-8")
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
