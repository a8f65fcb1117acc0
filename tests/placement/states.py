"""Random states of a lab and its queue, far stranger than a real one, and what must hold in each.

The rules are written down once more here, from the raw devices, so that a fault in the engine's own
bookkeeping shows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from random import Random

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState, PeerLink
from gpuconsole.core.jobs import Task
from gpuconsole.placement import Board, Candidate, Holder, Policy, Request, pass_over, why_waiting
from gpuconsole.placement.engine.backfill import free_at
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.queue_pass import Outcome
from gpuconsole.placement.model import FREE, Rules
from gpuconsole.placement.policy import BASELINES, POLICIES, named_policy
from gpuconsole.placement.rules.quotas import Limits, Quota, Use
from gpuconsole.placement.rules.rules import LabRules

NOW = 10_000.0
MODELS = (
    *[("NVIDIA A100-SXM4-40GB", 40960.0, "gpu")] * 8,
    ("NVIDIA GeForce RTX 3090", 24576.0, "gpu"),
    ("Tesla V100-SXM2-32GB", 32768.0, "gpu"),
    ("910B2", 65536.0, "npu"),
    ("Unheard Of", None, "gpu"),
)
USERS = ("ann", "bob", "eve")


@dataclass(frozen=True)
class State:
    """A fleet, who holds what, a queue, a policy and the lab's rules."""

    snapshot: FleetSnapshot
    holders: dict[str, Holder]
    queue: tuple[Request, ...]
    policy: Policy
    rules: Rules
    most_devices: int | None
    """Quota of devices for each user."""


def random_state(random: Random) -> State:
    """Draw a state."""
    hosts = tuple(_host(random, number) for number in range(random.randint(0, 6)))
    snapshot = FleetSnapshot(1, NOW, hosts)
    policy = replace(
        named_policy(random.choice((*POLICIES, *BASELINES))),
        memory_threshold=random.choice((0.5, 0.85, 1.0)),
        sharing=random.random() < 0.5,
        preemption=random.random() < 0.5,
        avoid_foreign=random.random() < 0.2,
        fair_share=random.choice((0.0, 0.5)),
        patience=random.choice((0.0, 0.2)),
    )
    most = random.choice((None, None, None, 2, 6))
    limits = Limits((Quota(devices=most),)) if most is not None else Limits()
    rules: Rules = LabRules(limits, Use(), NOW) if most is not None else FREE
    queue = tuple(_request(random, f"j{number}") for number in range(random.randint(0, 8)))
    return State(snapshot, _holders(random, snapshot), queue, policy, rules, most)


def _host(random: Random, number: int) -> Host:
    name = f"h{number}"
    model, total, backend = random.choice(MODELS)
    devices = []
    for index in range(random.choice((1, 2, 4, 4, 8))):
        if random.random() < 0.05:
            model, total, backend = random.choice(MODELS)
        busy = random.random() < 0.1
        devices.append(
            Device(
                f"{name}-{index}",
                index,
                model,
                backend,  # type: ignore[arg-type]
                memory_total_mib=total,
                memory_used_mib=random.choice((0.0, 300.0, random.uniform(0, 40000), None))
                if busy
                else 3.0,
                utilization=random.choice((None, 0.0, 50.0)),
                processes=(DeviceProcess(1, "eve", 900.0),) if busy else (),
                lost=random.random() < 0.05,
                mig=random.random() < 0.02,
                ecc_uncorrected=1 if random.random() < 0.03 else 0,
                peers=tuple(
                    PeerLink(f"{name}-{other}", random.choice(("NV4", "PIX", "SYS")))
                    for other in range(index)
                ),
            )
        )
    return Host(
        name,
        random.choice((HostState.UP,) * 20 + (HostState.DOWN, HostState.STALE)),
        labels={"pool": random.choice(("train", "test"))},
        price_per_hour=random.choice((None, 1.0, 2.5)),
        devices=tuple(devices),
        drained="new disks" if random.random() < 0.05 else "",
        engine_error="no answer" if random.random() < 0.05 else "",
    )


def _holders(random: Random, snapshot: FleetSnapshot) -> dict[str, Holder]:
    found: dict[str, Holder] = {}
    number = 0
    for host in snapshot.hosts:
        free = list(host.devices)
        full = random.random()
        while free and random.random() < full:
            number += 1
            count = min(len(free), random.choice((1, 1, 2, 4)))
            holder = Holder(
                f"r{number}",
                f"run {number}",
                random.choice(USERS),
                NOW - random.uniform(0, 5000),
                random.choice((None, NOW - 10, NOW + random.uniform(1, 5000))),
                need_mib=random.choice((None, *[random.uniform(100, 15000)] * 3)),
                utilization=random.choice((None, 20.0, 30.0, 70.0)),
                share=random.random() < 0.5,
                priority=random.randint(0, 3),
                resumable=random.random() < 0.5,
            )
            for _ in range(count):
                found[free.pop(random.randrange(len(free))).uuid] = holder
    return found


def _request(random: Random, job: str) -> Request:
    task = Task(
        job,
        priority=random.randint(0, 3),
        labels={"pool": "train"} if random.random() < 0.1 else {},
        anti_labels={"pool": random.choice(("test", ""))} if random.random() < 0.06 else {},
        exclusive=random.random() < 0.1,
        share=random.random() < 0.6,
        hosts=random.choice((1, 1, 2, 3)),
        backend="npu" if random.random() < 0.1 else "gpu",
        preferred_devices=random.choice(((), (), (), (), ("RTX_3090",))),
        preference_timeout_s=random.choice((0.0, 300.0)),
        memory_threshold=random.choice((None, 0.6)),
        checkpoint_dir=random.choice(("", "/ckpt")),
    )
    return Request(
        job,
        task,
        random.choice((None, random.uniform(0, 60000), *[random.uniform(0, 15000)] * 4)),
        random.choice((1, 1, 1, 2, 3, 4, 6, 8)),
        NOW - random.uniform(0, 600),
        user=random.choice(USERS),
        run_time_s=random.choice((None, random.uniform(1, 8000))),
        utilization=random.choice((None, 30.0, 40.0, 90.0)),
    )


def check(state: State) -> None:
    """Assert what must hold in any state."""
    board = Board.of(state.snapshot, state.holders)
    outcome, queue = _pass(state, board)
    started = {start.request.job: start for start in outcome.started}
    blocked = [request.job for request in outcome.blocked]
    assert sorted([*started, *blocked]) == sorted(request.job for request in state.queue)
    assert len(started) == len(outcome.started), "a job started twice"
    _check_devices(state, outcome)
    for start in outcome.started:
        assert start.candidate is not None
        _check_place(state, start.request, start.candidate)
    _check_quota(state, outcome)
    _check_preempted(state, outcome)
    _check_reservation(state, outcome)
    again, _ = _pass(state, Board.of(state.snapshot, state.holders))
    assert [(s.request.job, s.candidate) for s in again.started] == [
        (s.request.job, s.candidate) for s in outcome.started
    ], "not decided alike"
    for request in outcome.blocked:
        why = why_waiting(request, outcome, state.policy, NOW, state.rules).waiting
        assert why is not None
        assert why.reason.endswith("."), why.reason
        assert why.estimated_start is None or why.estimated_start >= NOW
    _check_books(state, board, outcome, [request.job for request in queue])


def _pass(state: State, board: Board) -> tuple[Outcome, list[Request]]:
    return pass_over(state.queue, board, state.policy, NOW, state.rules)


def _check_devices(state: State, outcome: Outcome) -> None:
    """No device is given twice, but to two jobs that both share it."""
    taken: dict[str, str] = {uuid: holder.job for uuid, holder in state.holders.items()}
    shares = {holder.job: holder.share for holder in state.holders.values()}
    guests: set[str] = set()
    for start in outcome.started:
        assert start.candidate is not None
        shares[start.request.job] = start.request.task.share
        for device in start.candidate.devices:
            if start.candidate.shared:
                assert device.uuid in taken
                assert device.uuid not in guests, "three jobs on one device"
                assert shares[taken[device.uuid]]
                assert start.request.task.share
                guests.add(device.uuid)
            else:
                assert device.uuid not in taken, "a device was given twice"
                taken[device.uuid] = start.request.job


def _check_place(state: State, request: Request, candidate: Candidate) -> None:
    """Each device can do it, by its own figures; a gang is whole."""
    task = request.task
    assert len(candidate.devices) == request.devices, "a gang was split"
    assert len({device.uuid for device in candidate.devices}) == request.devices
    assert len({device.model for device in candidate.devices}) == 1
    assert len(candidate.places) <= max(1, task.hosts)
    assert len({len(place.devices) for place in candidate.places}) == 1
    threshold = min(state.policy.memory_threshold, task.memory_threshold or 1.0)
    for place in candidate.places:
        host = state.snapshot.host(place.host)
        assert host is not None
        assert host.state is HostState.UP
        assert not host.drained
        assert not host.engine_error
        assert all(host.labels.get(key) == value for key, value in task.labels.items())
        assert not any(value in ("", host.labels[key]) for key, value in task.anti_labels.items())
        for device in place.devices:
            assert device in host.devices
            assert device.backend == task.backend
            assert not any((device.lost, device.mig, device.ecc_uncorrected))
            _check_memory(state, request, device, threshold, shared=candidate.shared)


def _check_memory(
    state: State, request: Request, device: Device, threshold: float, *, shared: bool
) -> None:
    total, used, need = device.memory_total_mib, device.memory_used_mib, request.need_mib
    if need is None or request.task.exclusive or (state.policy.avoid_foreign and not shared):
        assert total is not None
        assert used is not None
        assert not device.processes
        assert used <= 0.10 * total
    if need is None:
        return
    assert total is not None
    assert used is not None
    if shared:
        held = state.holders.get(device.uuid)
        beside = held.need_mib if held is not None else 0.0
        assert beside is not None
        assert need + beside <= threshold * total + 1e-6, "memory over the bound"
    else:
        assert need <= min(threshold * total, total - used - 0.02 * total) + 1e-6


def _check_quota(state: State, outcome: Outcome) -> None:
    if state.most_devices is None:
        return
    held = Counter(holder.user for holder in state.holders.values())
    before = Counter(held)
    for start in outcome.started:
        held[start.request.user] += start.request.devices
    for user, count in held.items():
        assert count <= max(state.most_devices, before[user]), "a quota was passed"


def _check_preempted(state: State, outcome: Outcome) -> None:
    running = {holder.job: holder for holder in state.holders.values()}
    assert not outcome.preempted or state.policy.preemption
    for job in outcome.preempted:
        assert outcome.head is not None
        assert running[job].resumable
        assert running[job].priority < outcome.head.task.priority


def _check_reservation(state: State, outcome: Outcome) -> None:
    """Whoever passed the first blocked job does not delay it."""
    kept, head = outcome.reservation, outcome.head
    if kept is None or head is None:
        return
    board = outcome.board
    made = profile(head, board, state.policy, NOW, state.rules)
    each = head.devices // len(kept.sites)
    for place in kept.sites:
        moments = free_at(made, board, board.sites[place], kept.kind, each)
        assert moments[each - 1] <= kept.when + 1e-6, "the first blocked job is delayed"


def _check_books(state: State, board: Board, outcome: Outcome, jobs: list[str]) -> None:
    """What is free adds up, and giving everything back leaves the board as it was."""
    for start in outcome.started:
        board.release(start.request.job)
    fresh = Board.of(state.snapshot, state.holders)
    assert _books(board) == _books(fresh)
    assert board.free == fresh.free


def _books(board: Board) -> dict[str, object]:
    free: dict[str, object] = defaultdict(list)
    for site in board.sites:
        free[site.host.name] = (
            site.in_use,
            sorted((kind, count) for kind, count in site.free.items() if count),
            sorted(spot.device.uuid for cell in site.cells.values() for spot in cell.spots),
            sorted(
                (spot.device.uuid, cell.holder.job if cell.holder else "")
                for cell in site.held
                for spot in cell.spots
            ),
        )
    return free
