"""What holds for any fleet and any queue: nothing is promised twice, nothing beyond the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import POLICIES, Holder, Request, decide, named_policy, plan
from gpuconsole.placement.engine.device_state import is_empty

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
                told = device.uuid in refused | offered
                assert told or any(_stands_for(one, device, offered) for one in host.devices)
    assert all(rejection.reason.endswith(".") for rejection in first.rejections)
