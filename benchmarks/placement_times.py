"""How long the engine takes: decisions, passes, forecasts, a long trace. Processor time, one core.

    python -m benchmarks.placement_times [--quick] [--traces FOLDER] [--repeats N]

A fleet is `alike` where no one works on its devices outside of the queue, so that each host is
like others, or `differing` where someone works on every device, with memory, load and price of its
own. Prints medians, and first the time of a fixed piece of work, by which two machines can be
compared. `--quick` leaves the trace out.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host
from gpuconsole.core.jobs import Task
from gpuconsole.placement import (
    Board,
    Candidate,
    Holder,
    Policy,
    Request,
    decide_on,
    named_policy,
)
from gpuconsole.placement.engine import queue_pass
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.queue_order import ordered
from gpuconsole.placement.engine.search import pick
from gpuconsole.placement.explain.score_reasons import candidate
from gpuconsole.placement.forecast.start_times import forecast
from gpuconsole.placement.forecast.what_if import compare, with_devices
from gpuconsole.placement.simulate.event_loop import simulate
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.lab_file import parse_lab
from gpuconsole.placement.simulate.metrics import metrics
from gpuconsole.placement.simulate.trace_readers import READERS, Trace
from gpuconsole.placement.simulate.workload import Cut, build

ROOT = Path(__file__).parents[1]
REPEATS = 7
NOW = 100_000.0
_FLEET = """version: 1
hosts:
- {{name: a100, count: {count}, model: A100-SXM4-80GB, devices: 8, price_per_hour: 10}}
- {{name: v100, count: {count}, model: Tesla V100-SXM2-32GB, devices: 8, price_per_hour: 4}}
- {{name: rtx3090, count: {count}, model: GeForce RTX 3090, devices: 8, price_per_hour: 2}}
- {{name: rtx4090, count: {count}, model: GeForce RTX 4090, devices: 8, price_per_hour: 3}}
"""
Timed = tuple[str, str, str]
"""What, how long, the target."""


def all_of(trace: Trace, lab: Lab) -> list[Timed]:
    """Time everything."""
    return [*engine_times(), trace_time(trace, lab)]


def engine_times(repeats: int = REPEATS) -> list[Timed]:
    """Time decisions, passes and forecasts over fleets whose devices are alike, and differ."""
    rows = [("a fixed piece of work, for comparison", _shown(_pace()), "")]
    for name, make in (("alike", alike), ("differing", differing)):
        rows += _decisions(make(1000), f"1,000 x 8 {name}", repeats)
        rows += _looking_ahead(make, name, repeats)
    return rows


def alike(hosts: int) -> FleetSnapshot:
    """Return a fleet of four models on which no one works outside of the queue."""
    return parse_lab(_FLEET.format(count=hosts // 4), "fleet").snapshot()


def differing(hosts: int) -> FleetSnapshot:
    """Return the same fleet where no device is like another, nor a host's price."""
    dice, fleet = random.Random(1), alike(hosts)
    return replace(fleet, hosts=tuple(_differing(host, dice) for host in fleet.hosts))


def _differing(host: Host, dice: random.Random) -> Host:
    price = (host.price_per_hour or 1.0) * dice.uniform(0.8, 1.2)
    devices = tuple(_worked_on(device, dice) for device in host.devices)
    return replace(host, price_per_hour=price, devices=devices)


def _worked_on(device: Device, dice: random.Random) -> Device:
    used = dice.uniform(0.02, 0.6) * (device.memory_total_mib or 0.0)
    return replace(
        device,
        memory_used_mib=used,
        utilization=float(dice.randrange(100)),
        processes=(DeviceProcess(1, "eve", used),),
    )


def _decisions(fleet: FleetSnapshot, where: str, repeats: int) -> list[Timed]:
    holders, policy = _holders(fleet, 0.7), named_policy("weighted")
    board, full = Board.of(fleet, holders), Board.of(fleet, _holders(fleet, 1.0))
    single, several = _request(0, 1), _request(1, 4)
    queue = ordered(_queue(1000), policy, NOW)
    rows: list[tuple[str, Callable[[], object], str]] = [
        ("best place for one job, with reasons", lambda: _placed(single, board, policy), "5 ms"),
        ("the same, 4 devices", lambda: _placed(several, board, policy), "5 ms"),
        ("20 candidates with reasons", lambda: decide_on(single, board, policy, NOW), "5 ms"),
        ("20 candidates for 4 devices", lambda: decide_on(several, board, policy, NOW), "5 ms"),
        ("every refusal, when it is read", lambda: _refused(single, board, policy), ""),
        ("why a job waits for held devices", lambda: decide_on(single, full, policy, NOW), ""),
        ("a board from a fresh picture", lambda: Board.of(fleet, holders), ""),
    ]
    timed = [(f"{what} ({where})", _took(run, repeats), target) for what, run, target in rows]
    for share, state in ((0.7, "30 % free"), (0.97, "3 % free")):
        boards = iter([Board.of(fleet, _holders(fleet, share)) for _ in range(repeats)])
        took = _took(
            lambda boards=boards: queue_pass.run(next(boards), queue, policy, NOW), repeats
        )  # type: ignore[misc]
        timed.append((f"pass over 1,000 waiting jobs, {state} ({where})", took, "100 ms"))
    return timed


def _looking_ahead(make: Callable[[int], FleetSnapshot], name: str, repeats: int) -> list[Timed]:
    few, policy = max(1, repeats // 2), named_policy("weighted")
    fleet, queue = make(200), _queue(1000)
    holders = _holders(fleet, 1.0)
    rows = [
        (
            f"forecast of 1,000 jobs on 200 x 8 {name}",
            _took(lambda: forecast(queue, fleet, holders, policy, NOW), few),
            "1 s",
        )
    ]
    small, short = make(100), queue[:500]
    held = _holders(small, 1.0)

    def what_if() -> object:
        grown = with_devices(small, 8, "A100")
        before, after = (forecast(short, each, held, policy, NOW) for each in (small, grown))
        return compare(short, before, after, NOW)

    return [*rows, (f"what if: 500 jobs on 100 x 8 {name}", _took(what_if, few), "1 s")]


def trace_time(trace: Trace, lab: Lab) -> Timed:
    """Time the whole Philly trace on a lab."""
    jobs = build(trace, lab, Cut(), lambda name: random.Random(f"0/{name}"))
    began = time.process_time()
    made = metrics(simulate(lab, jobs, named_policy("weighted"), random.Random(0)))
    took = time.process_time() - began
    assert made.unfinished == 0
    what = f"{len(jobs.jobs):,} jobs of Philly on {lab.devices} devices, `weighted`, load"
    speed = f"{took:.0f} s: {2 * len(jobs.jobs) / took:,.0f} arrivals and ends a second"
    return f"{what} {jobs.offered_load:.2f}", speed, "60 s"


def _placed(request: Request, board: Board, policy: Policy) -> Candidate:
    made = profile(request, board, policy, NOW)
    found = pick(made, board)
    assert found is not None
    return candidate(found, made, board)


def _refused(request: Request, board: Board, policy: Policy) -> int:
    return len(decide_on(request, board, policy, NOW).rejections)


def _queue(count: int) -> list[Request]:
    return [_request(number) for number in range(count)]


def _request(number: int, devices: int | None = None) -> Request:
    dice = random.Random(number)
    count = devices or dice.choice((1, 1, 1, 1, 2, 4, 8))
    return Request(
        f"job-{number}",
        Task(f"task-{number}", devices=count),
        dice.uniform(2_000, 60_000),
        count,
        float(number),
        user=f"user-{number % 30}",
        run_time_s=dice.lognormvariate(8, 2),
    )


def _holders(fleet: FleetSnapshot, share: float) -> dict[str, Holder]:
    dice = random.Random(0)
    return {
        device.uuid: Holder(f"held-{device.uuid}", "t", "u", 0.0, dice.uniform(1e5, 3e5), 4000.0)
        for host in fleet.hosts
        for device in host.devices
        if dice.random() < share
    }


def _pace() -> float:
    began = time.process_time()
    sum(number * number % 7 for number in range(1_000_000))
    return time.process_time() - began


def _took(run: Callable[[], object], repeats: int) -> str:
    spans = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        spans.append(time.process_time() - began)
    return _shown(median(spans))


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def main(words: Sequence[str] | None = None) -> int:
    """Time what is asked for and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement_times")
    parser.add_argument("--quick", action="store_true", help="without the trace")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared" / "traces")
    given = parser.parse_args(words)
    for what, took, target in engine_times(given.repeats):
        print(f"{what:65} {took:>12} {target}", flush=True)
    if given.quick:
        return 0
    name = "philly_vc_jobs.csv.gz"
    with gzip.open(given.traces / name, "rt", encoding="utf-8") as lines:
        trace = READERS["philly"](lines, name)
    path = ROOT / "inventory" / "lab20.yaml"
    lab = parse_lab(path.read_text(encoding="utf-8"), path.name)
    print("{:65} {:>12} {}".format(*trace_time(trace, lab)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
