"""How long the engine takes: one decision, one pass, one long trace. Processor time, one core."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.placement import (
    Board,
    Candidate,
    Holder,
    Policy,
    Request,
    decide_on,
    engine,
    named_policy,
)
from gpuconsole.placement.order import ordered
from gpuconsole.placement.picking import pick
from gpuconsole.placement.profile import profile
from gpuconsole.placement.reasons import candidate
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.labfile import parse_lab
from gpuconsole.placement.simulate.loop import simulate
from gpuconsole.placement.simulate.metrics import metrics
from gpuconsole.placement.simulate.traces import Trace
from gpuconsole.placement.simulate.workload import Cut, build

_REPEATS = 7
_FLEET = """version: 1
hosts:
- {name: a100, count: 250, model: A100-SXM4-80GB, devices: 8, price_per_hour: 10}
- {name: v100, count: 250, model: Tesla V100-SXM2-32GB, devices: 8, price_per_hour: 4}
- {name: rtx3090, count: 250, model: GeForce RTX 3090, devices: 8, price_per_hour: 2}
- {name: rtx4090, count: 250, model: GeForce RTX 4090, devices: 8, price_per_hour: 3}
"""
Timed = tuple[str, str, str]
"""What, how long, the target."""


def all_of(trace: Trace, lab: Lab) -> list[Timed]:
    """Time everything."""
    return [*engine_times(), trace_time(trace, lab)]


def engine_times() -> list[Timed]:
    """Time decisions and passes over a fleet of 1,000 hosts with 8 devices each."""
    fleet = parse_lab(_FLEET, "fleet").snapshot()
    holders = _holders(fleet, 0.7)
    policy = named_policy("weighted")
    now = 100_000.0
    board, full = Board.of(fleet, holders), Board.of(fleet, _holders(fleet, 1.0))
    single, several = _request(0, 1), _request(1, 4)
    queue = ordered([_request(number) for number in range(1000)], policy, now)
    rows: list[tuple[str, Callable[[], object]]] = [
        ("best place for one job, with reasons", lambda: _placed(single, board, policy, now)),
        ("the same, 4 devices", lambda: _placed(several, board, policy, now)),
        ("20 candidates with reasons", lambda: decide_on(single, board, policy, now)),
    ]
    found = [(f"{what} (1,000 x 8)", _took(run), "5 ms") for what, run in rows]
    asked: list[tuple[str, Callable[[], object]]] = [
        ("every refusal, when it is read", lambda: _refused(single, board, policy, now)),
        ("why a job waits for 2,000 held devices", lambda: decide_on(single, full, policy, now)),
        ("a board from a fresh picture", lambda: Board.of(fleet, holders)),
    ]
    found += [(f"{what} (1,000 x 8)", _took(run), "") for what, run in asked]
    passes = []
    for _ in range(_REPEATS):
        fresh = Board.of(fleet, holders)
        began = time.process_time()
        engine.run(fresh, queue, policy, now)
        passes.append(time.process_time() - began)
    found.append(("pass over 1,000 waiting jobs (1,000 x 8)", _shown(median(passes)), "100 ms"))
    return found


def trace_time(trace: Trace, lab: Lab) -> Timed:
    """Time the whole Philly trace on 160 devices."""
    jobs = build(trace, lab, Cut(), lambda name: random.Random(f"0/{name}"))
    began = time.process_time()
    made = metrics(simulate(lab, jobs, named_policy("weighted"), random.Random(0)))
    took = time.process_time() - began
    assert made.unfinished == 0
    what = f"{len(jobs.jobs):,} jobs of Philly on {lab.devices} devices, `weighted`, load"
    return f"{what} {jobs.offered_load:.2f}", f"{took:.0f} s", "60 s"


def _placed(request: Request, board: Board, policy: Policy, now: float) -> Candidate:
    made = profile(request, board, policy, now)
    found = pick(made, board)
    assert found is not None
    return candidate(found, made, board)


def _refused(request: Request, board: Board, policy: Policy, now: float) -> int:
    return len(decide_on(request, board, policy, now).rejections)


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


def _took(run: Callable[[], object]) -> str:
    spans = []
    for _ in range(_REPEATS):
        began = time.process_time()
        run()
        spans.append(time.process_time() - began)
    return _shown(median(spans))


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
