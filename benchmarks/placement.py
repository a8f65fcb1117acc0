"""Hold the policies against each other on real traces, and time the engine.

    python -m benchmarks.placement [--quick] [--traces FOLDER] [--learned FOLDER] [--raw FILE]
                                   [--days N] [--jobs N] [--compiled] [--no-times] [--no-write]

Every figure is a simulation. Windows of days are cut from the traces, thinned to a load, completed
by seeded draws and played under each policy. The windows reported here were never tuned on: weights
were chosen on Venus days 14 to 96 alone. Ratios are between runs of the same jobs; means of ratios
are geometric, intervals are bootstraps over windows (all runs of a window stay together). Writes
docs/placement-figures.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from ctypes import CDLL
from dataclasses import asdict, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks import placement_tables as tables
from benchmarks import placement_times as times
from benchmarks.placement_search.compiled import Window, built
from benchmarks.placement_tables import Run
from gpuconsole.placement.learned import weights_file
from gpuconsole.placement.model import Policy
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.event_loop import simulate
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.lab_file import parse_lab
from gpuconsole.placement.simulate.metrics import metrics
from gpuconsole.placement.simulate.trace_readers import READERS, Trace
from gpuconsole.placement.simulate.workload import Cut, Workload, build

ROOT = Path(__file__).parents[1]
TRACES = ROOT.parent / "shared" / "traces"
TARGET = ROOT / "docs" / "placement-figures.md"
FILES = {
    "venus": ("helios_venus_gpu_jobs.csv.gz", "helios"),
    "philly": ("philly_vc_jobs.csv.gz", "philly"),
}
WINDOWS = (
    *(("venus", day) for day in (98, 112, 126)),
    *(("philly", day) for day in (21, 45, 69)),
)
"""Trace and first day of each window reported."""
DAYS = 14
"""Length of a window, unless another is asked for."""
LABS = ("lab20", "lab8", "lab4")
LOADS = (0.6, 0.8, 1.0)
SIGMAS = (2.0, 4.0)
SEEDS = (0, 1, 2)
BLIND = ("fifo_strict", "host_per_user", "fifo_skip")
"""Policies that look at no prediction: one run serves every sigma. With the first seed alone, for
what they lose is no matter of a few percent."""
SEEING = (*tables.CLASSIC, "weighted")
COMPILED = (*tables.CLASSIC, "weighted", "rl_based")
"""Policies that the compiled copy of the simulation knows."""


class Cell(NamedTuple):
    """What one worker plays: everything about the jobs but the error of the predictions."""

    trace: str
    day: int
    lab: str
    load: float
    seed: int


@cache
def trace_of(name: str, folder: Path) -> Trace:
    """Read a trace once in each process."""
    file, form = FILES[name]
    with gzip.open(folder / file, "rt", encoding="utf-8") as lines:
        return READERS[form](lines, file)


@cache
def lab_of(name: str) -> Lab:
    """Read a lab once in each process."""
    path = ROOT / "inventory" / f"{name}.yaml"
    return parse_lab(path.read_text(encoding="utf-8"), path.name)


class Task(NamedTuple):
    """What a worker gets: a cell, the policies that are missing there, and two folders."""

    cell: Cell
    days: float
    names: tuple[str, ...]
    traces: Path
    learned: Path | None
    compiled: bool


def play(task: Task) -> list[Run]:
    """Play policies on one cell."""
    cell = task.cell
    lab = lab_of(cell.lab)
    found: list[Run] = []
    for sigma in SIGMAS:
        cut = Cut(cell.load, cell.day, task.days, sigma=sigma)
        jobs = build(trace_of(cell.trace, task.traces), lab, cut, dice(cell.seed))
        for name in task.names:
            if name not in BLIND:
                own = policy(name, cell.lab, task.learned)
                fast = task.compiled and name in COMPILED
                found.append(played_one(cell, sigma, own, lab, jobs, compiled=fast))
            elif sigma == SIGMAS[0]:
                run = played_one(cell, sigma, named_policy(name), lab, jobs)
                found += [replace(run, sigma=other) for other in SIGMAS]
    return found


def played_one(
    cell: Cell, sigma: float, policy: Policy, lab: Lab, jobs: Workload, *, compiled: bool = False
) -> Run:
    """Play one policy."""
    began = time.process_time()
    if compiled:
        made = metrics(Window(lab, jobs).outcome(code(), policy))
    else:
        made = metrics(simulate(lab, jobs, policy, random.Random(0)))
    assert made.mean_jct_s is not None
    assert made.p99_wait_s is not None
    assert made.longest_wait_s is not None
    assert made.fairness_jain is not None
    return Run(
        *cell,
        sigma,
        policy.name,
        made.jobs,
        made.unfinished,
        made.mean_jct_s,
        made.p99_wait_s,
        made.longest_wait_s,
        made.fairness_jain,
        made.allocation_rate,
        made.device_utilisation,
        time.process_time() - began,
    )


@cache
def code() -> CDLL:
    """Compile the copy of the simulation once in each process."""
    with tempfile.TemporaryDirectory() as folder:
        return built(Path(folder))


@cache
def policy(name: str, lab: str, folder: Path | None) -> Policy:
    """Return a policy; `rl_based` with the weights that come along, or those in a folder that were
    trained for a lab, where they may be used."""
    path = weights_file.SHIPPED if folder is None else folder / f"{lab}.json"
    if name != "rl_based" or not path.exists():
        return named_policy(name)
    models = [host.model for host in lab_of(lab).hosts for _ in range(host.devices)]
    learned, note = weights_file.read(path).usable(models)
    return named_policy(name, learned=learned, note=note)


def wanted(cell: Cell, learned: Path | None) -> tuple[str, ...]:
    """Return the policies of a cell; `rl_based` without weights is `weighted`, and not played."""
    trained = policy("rl_based", cell.lab, learned).learned is not None
    blind = BLIND if cell.seed == SEEDS[0] else ()
    return (*SEEING, *(("rl_based",) if trained else ()), *blind)


def dice(seed: int) -> tables.DiceOf:
    """Return dice for each kind of draw."""
    return lambda name: random.Random(f"{seed}/{name}")


def cells(quick: bool) -> list[Cell]:
    """Return what is played: all windows with the first seed, then with the next."""
    windows, seeds, labs = (WINDOWS, SEEDS, LABS) if not quick else (WINDOWS[:1], (0,), LABS[1:])
    return [
        Cell(trace, day, lab, load, seed)
        for seed in seeds
        for lab in labs
        for load in sorted(LOADS, reverse=True)
        for trace, day in windows
    ]


def played(todo: Sequence[Task], workers: int) -> Iterator[list[Run]]:
    """Play everything on some processes, telling how far it is."""
    began = time.monotonic()
    with get_context("spawn").Pool(workers) as pool:
        for number, runs in enumerate(pool.imap_unordered(play, todo), 1):
            passed = time.monotonic() - began
            left = passed / number * (len(todo) - number)
            print(f"\r{number}/{len(todo)}, {left / 60:.0f} min left ", end="", file=sys.stderr)
            yield runs
    print(file=sys.stderr)


def known(path: Path | None) -> list[Run]:
    """Return the runs that a file keeps."""
    if path is None or not path.exists():
        return []
    return [Run(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def keep(path: Path | None, runs: Sequence[Run]) -> None:
    """Add runs to a file."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(asdict(run))}\n" for run in runs)


def missing(
    every: Sequence[Cell],
    days: float,
    runs: Sequence[Run],
    traces: Path,
    learned: Path | None,
    *,
    compiled: bool,
) -> list[Task]:
    """Return what is still to be played."""
    done = {(Cell(r.trace, r.day, r.lab, r.load, r.seed), r.policy) for r in runs}
    tasks = []
    for cell in every:
        names = tuple(name for name in wanted(cell, learned) if (cell, name) not in done)
        if names:
            tasks.append(Task(cell, days, names, traces, learned, compiled))
    return tasks


def with_untrained(runs: Sequence[Run]) -> list[Run]:
    """Add `rl_based` to labs without weights, where others have some: there it is `weighted`."""
    trained = {run.lab for run in runs if run.policy == "rl_based"}
    if not trained:
        return list(runs)
    same = [r for r in runs if r.policy == "weighted" and r.lab not in trained]
    return [*runs, *(replace(run, policy="rl_based") for run in same)]


def main() -> int:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one window, one seed, small labs")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of the public traces")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--days", type=float, default=DAYS, help="length of a window")
    parser.add_argument("--learned", type=Path, help="folder of weights: lab20.json, …")
    parser.add_argument("--raw", type=Path, help="keep runs here, and take up what is there")
    parser.add_argument("--compiled", action="store_true", help="play what it can by the C copy")
    parser.add_argument("--no-write", action="store_true", help="print only")
    parser.add_argument("--no-times", action="store_true", help="leave the timings out")
    given = parser.parse_args()
    lacking = [file for file, _ in FILES.values() if not (given.traces / file).exists()]
    if lacking:
        print(
            f"{given.traces} lacks {', '.join(lacking)}: the public traces are not part of this"
            " repository; docs/simulate.md says where they come from.",
            file=sys.stderr,
        )
        return 2
    runs = known(given.raw)
    todo = missing(
        cells(given.quick),
        given.days,
        runs,
        given.traces,
        given.learned,
        compiled=given.compiled,
    )
    for found in played(todo, given.jobs):
        runs += found
        keep(given.raw, found)
    timed = (
        [] if given.no_times else times.all_of(trace_of("philly", given.traces), lab_of("lab20"))
    )
    print(tables.page(with_untrained(runs), timed, given.days))
    if not given.quick and not given.no_write:
        # Times stand in docs/speed.md.
        TARGET.write_text(tables.page(with_untrained(runs), [], given.days), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
