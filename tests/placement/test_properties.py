"""What holds for any fleet and any queue: nothing is promised twice, nothing beyond the limit."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.core.units import format_duration
from gpuconsole.placement import POLICIES, Holder, Request, decide, named_policy, plan
from gpuconsole.placement.engine.device_state import health_fault, is_empty
from gpuconsole.placement.model import Candidate, Waiting
from tests.placement import states
from tests.placement.states import State

NOW = 5_000.0
MODELS = [("NVIDIA A100-SXM4-40GB", 40960.0), ("NVIDIA GeForce RTX 3090", 24576.0), ("910A", None)]


@st.composite
def fleets(draw: st.DrawFn) -> tuple[FleetSnapshot, dict[str, Holder]]:
    hosts, leases = [], {}
    for number in range(draw(st.integers(0, 4))):
        devices = []
        for index in range(draw(st.integers(0, 4))):
            model, total = draw(st.sampled_from(MODELS))
            used = draw(st.none() | st.floats(0, 45000))
            processes = (DeviceProcess(1, "eve"),) if draw(st.booleans()) else ()
            device = Device(
                f"u{number}-{index}",
                index,
                model,
                memory_total_mib=total,
                memory_used_mib=used,
                processes=processes,
                lost=draw(st.integers(0, 9)) == 0,
            )
            devices.append(device)
            if draw(st.integers(0, 3)) == 0:
                ends = draw(st.none() | st.floats(0, 9_000))
                leases[device.uuid] = Holder("other", "other", "bob", 0.0, ends)
        state = draw(st.sampled_from([HostState.UP, HostState.UP, HostState.DOWN]))
        labels = {"pool": draw(st.sampled_from(["train", "test"]))}
        hosts.append(Host(f"h{number}", state, devices=tuple(devices), labels=labels))
    return FleetSnapshot(1, NOW, tuple(hosts)), leases


@st.composite
def requests(draw: st.DrawFn, job: str) -> Request:
    task = Task(
        job,
        priority=draw(st.integers(0, 2)),
        labels=draw(st.sampled_from([{}, {"pool": "train"}])),
        exclusive=draw(st.booleans()),
        preferred_devices=draw(st.sampled_from([(), ("RTX_3090",)])),
        preference_timeout_s=draw(st.sampled_from([0.0, 300.0])),
        memory_threshold=draw(st.sampled_from([0.5, 0.85, 1.0])),
    )
    need = draw(st.none() | st.floats(0, 50000))
    return Request(job, task, need, draw(st.integers(1, 3)), NOW - draw(st.floats(0, 600)))


QUEUES = st.integers(0, 5).flatmap(
    lambda count: st.tuples(*(requests(f"j{number}") for number in range(count)))
)


@given(fleets(), QUEUES, st.sampled_from(POLICIES))
def test_a_plan_never_overcommits(
    fleet: tuple[FleetSnapshot, dict[str, Holder]], queue: tuple[Request, ...], policy: str
) -> None:
    snapshot, leases = fleet
    by_job = {request.job: request for request in queue}
    taken = set(leases)
    decisions = plan(queue, snapshot, leases, named_policy(policy), NOW)
    assert {decision.job for decision in decisions} == set(by_job)
    for decision in decisions:
        request = by_job[decision.job]
        assert (decision.chosen is None) == (decision.waiting is not None)
        if decision.chosen is None:
            continue
        host = snapshot.host(decision.chosen.host)
        assert host is not None
        assert host.state is HostState.UP
        assert request.task.labels.items() <= host.labels.items()
        assert len(decision.chosen.devices) == request.devices
        assert len({device.model for device in decision.chosen.devices}) == 1
        for device in decision.chosen.devices:
            assert device in host.devices
            assert device.uuid not in taken
            assert not device.lost
            taken.add(device.uuid)
            total, used = device.memory_total_mib, device.memory_used_mib
            assert total is not None
            assert used is not None
            if request.need_mib is None or request.task.exclusive:
                assert not device.processes
            if request.need_mib is not None:
                assert request.need_mib <= 0.85 * total
                assert request.need_mib <= request.task.threshold(0.85) * total
                assert request.need_mib + used <= 0.98 * total + 1e-6


def _stands_for(one: Device, other: Device, offered: set[str]) -> bool:
    """Whether a device was offered that is as good as another beside it: both are empty."""
    alike = (one.model, one.memory_total_mib) == (other.model, other.memory_total_mib)
    return one.uuid in offered and alike and is_empty(one) and is_empty(other)


@given(fleets(), requests("j"), st.sampled_from(POLICIES))
def test_a_decision_is_repeatable_and_accounts_for_every_device(
    fleet: tuple[FleetSnapshot, dict[str, Holder]], request: Request, policy: str
) -> None:
    snapshot, leases = fleet
    first = decide(request, snapshot, leases, named_policy(policy), NOW)
    assert decide(request, snapshot, dict(leases), named_policy(policy), NOW) == first
    scores = [candidate.score for candidate in first.candidates]
    assert scores == sorted(scores, reverse=True)
    refused = {rejection.uuid for rejection in first.rejections}
    offered = {device.uuid for candidate in first.candidates for device in candidate.devices}
    assert not refused & offered
    if request.devices == 1:
        for host in snapshot.hosts:
            for device in host.devices:
                reported = device.uuid in refused | offered
                assert reported or any(_stands_for(one, device, offered) for one in host.devices)
    assert all(rejection.reason.endswith(".") for rejection in first.rejections)


IN_USE = re.compile(r"(\d+) of (\d+) devices of (\S+) in use\.")
LEAVES = re.compile(r"Leaves (\d+|none) (?:more )?free on the (?:same )?host\.")
ABLE = re.compile(r"(\d+) devices? could do it(?: \(\d+ together are needed\))?: ([^.]+)\.")
FREE_IN = re.compile(r"should be free in about ([^.]+)\.")


def _in_use(device: Device, holders: dict[str, Holder]) -> bool:
    """Whether anything shows that a device is in use."""
    total, used = device.memory_total_mib, device.memory_used_mib
    filled = total is not None and used is not None and not is_empty(device)
    return device.uuid in holders or bool(device.processes) or filled


def _check_place(candidate: Candidate, state: State) -> None:
    """What is in use, chosen, left free and faulty is all there is on the host."""
    host, reported = state.snapshot.host(candidate.host), " ".join(candidate.reasons)
    assert host is not None
    chosen = {device.uuid for device in candidate.devices}
    busy = {device.uuid for device in host.devices if _in_use(device, state.holders)}
    free = [device for device in host.devices if device.uuid not in busy | chosen]
    sound = sum(not health_fault(device, host) and not device.divided for device in free)
    for count, size, name in IN_USE.findall(reported):
        assert (int(count), int(size), name) == (len(busy), len(host.devices), host.name)
    for left in LEAVES.findall(reported):
        assert (0 if left == "none" else int(left)) == sound


def _check_wait(waiting: Waiting) -> None:
    """Parts add up to their sum, and the sentence has the time of the field."""
    for total, parts in ABLE.findall(waiting.reason):
        counted = [int(part.split(maxsplit=1)[0]) for part in re.findall(r"\d+ [^,]+", parts)]
        assert sum(counted) == int(total)
    for wait in FREE_IN.findall(waiting.reason):
        assert waiting.estimated_start is not None
        assert wait == format_duration(max(0.0, waiting.estimated_start - states.NOW))
        assert "should be free in" not in waiting.undated


@pytest.mark.parametrize("part", range(4))
def test_no_two_figures_of_a_reason_contradict(part: int) -> None:
    places = waits = 0
    for seed in range(part, 400, 4):
        state = states.random_state(Random(seed))
        for request in state.queue:
            decision = decide(
                request, state.snapshot, state.holders, state.policy, states.NOW, state.rules
            )
            for candidate in decision.candidates:
                _check_place(candidate, state)
                places += 1
            if decision.waiting is not None:
                _check_wait(decision.waiting)
                waits += 1
    assert min(places, waits) > 100
