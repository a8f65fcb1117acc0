"""Which sleeping hosts are worth waking, and which jobs come to hosts that may be taken away."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.devices.host_power import Elastic
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement.elastic.wake import (
    LONGEST_PAUSE_S,
    Past,
    awake_as,
    in_use,
    may_wake,
    pause_s,
    to_wake,
    typical_s,
)
from gpuconsole.placement.model import Request, Ruling
from gpuconsole.placement.rules.quotas import Limits, Use
from gpuconsole.placement.rules.rules import LabRules

NOW = 1_800_000_000.0
LIMITS = Elastic(wakes_per_hour=2, wake_s=120.0, model="A100-SXM4-40GB", devices=2)


def host(name: str, count: int = 1, price: float = 1.0) -> Host:
    devices = tuple(Device(f"{name}-{index}", index, "A100") for index in range(count))
    return Host(name, HostState.UP, devices=devices, price_per_hour=price)


def lab(awake: list[Host], sleeping: list[Host]) -> FleetSnapshot:
    down = tuple(replace(one, state=HostState.DOWN) for one in sleeping)
    return FleetSnapshot(1, NOW, (*awake, *down))


def first_fit(**needs: int) -> object:
    """Return where jobs that need so many devices of one host would start."""

    def landing(snapshot: FleetSnapshot) -> Mapping[str, Collection[str]]:
        free = {one.name: len(one.devices) for one in snapshot.hosts if one.state is HostState.UP}
        found = {}
        for job, need in needs.items():
            name = next((name for name, left in free.items() if left >= need), None)
            if name is not None:
                free[name] -= need
                found[job] = [name]
        return found

    return landing


def chosen(
    awake: list[Host], sleeping: list[Host], budget: float | None = None, **needs: int
) -> dict[str, tuple[str, ...]]:
    return to_wake(lab(awake, sleeping), sleeping, first_fit(**needs), budget)  # type: ignore[arg-type]


def test_only_what_a_job_needs_is_woken_and_the_cheapest_does_it() -> None:
    dear, cheap = host("dear", 4, 9.0), host("cheap", 4, 1.0)
    assert chosen([], [dear, cheap], a=2, b=2) == {"cheap": ("a", "b")}
    assert chosen([], [dear, cheap], a=4, b=4) == {"cheap": ("a",), "dear": ("b",)}


def test_a_job_that_starts_anyhow_wakes_nobody() -> None:
    assert chosen([host("up", 2)], [host("cheap", 2)], a=2) == {}


def test_a_host_that_is_too_small_sleeps_on() -> None:
    assert chosen([], [host("small", 1), host("large", 8, 99.0)], a=4) == {"large": ("a",)}


def test_a_budget_is_kept() -> None:
    hosts = [host("x", 2, 1.0), host("y", 2, 1.5)]
    assert chosen([], hosts, 2.5, a=2, b=2) == {"x": ("a",)}
    assert chosen([], hosts, 1.0, a=2) == {}


def test_hosts_are_woken_together_for_a_job_that_needs_both() -> None:
    hosts = [host("x", 2), host("y", 2), host("z", 2)]

    def landing(snapshot: FleetSnapshot) -> Mapping[str, Collection[str]]:
        up = [one.name for one in snapshot.hosts if one.state is HostState.UP]
        return {"gang": up[:2]} if len(up) >= 2 else {}

    assert to_wake(lab([], hosts), hosts, landing, None) == {"x": ("gang",), "y": ("gang",)}
    assert to_wake(lab([], hosts), hosts, landing, 3.0) == {}


@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0.0, 10.0)), min_size=1, max_size=5),
    st.lists(st.integers(1, 8), min_size=1, max_size=5),
    st.floats(0.0, 100.0),
)
def test_whatever_is_woken_serves_a_job_and_fits_the_budget(
    hosts: list[tuple[int, float]], needs: list[int], budget: float
) -> None:
    made = [host(f"h{number}", count, price) for number, (count, price) in enumerate(hosts)]
    jobs = {f"j{number}": need for number, need in enumerate(needs)}
    found = chosen([], made, budget, **jobs)
    assert all(found.values())
    spent = sum((one.price_per_hour or 0) * len(one.devices) for one in made if one.name in found)
    assert spent <= budget + 1e-9


def test_limits_and_failures_are_told() -> None:
    past = Past("asleep", NOW, wakes=(NOW - 4000, NOW - 1800, NOW - 600))
    said = may_wake(LIMITS, past, NOW)
    assert said == "It was woken 2 times within an hour, its limit; it may be again in 30m00s."
    assert may_wake(LIMITS, past, NOW + 1801) == ""
    failed = Past("asleep", NOW, failures=1, try_after=NOW + 60)
    assert "did not wake" in may_wake(LIMITS, failed, NOW)
    assert may_wake(LIMITS, failed, NOW + 60) == ""
    pauses = [pause_s(number) for number in range(1, 20)]
    assert pauses[:3] == [60.0, 120.0, 240.0]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_what_was_seen_is_typical() -> None:
    assert typical_s(LIMITS, Past()) == 120.0
    assert typical_s(LIMITS, Past(took=(40.0, 300.0, 50.0))) == 50.0


def test_a_host_is_thought_awake_with_what_it_had_or_is_said_to_have() -> None:
    asleep = replace(host("x"), state=HostState.DOWN, devices=(), power="asleep", error="asleep")
    made = awake_as(asleep, Past(), LIMITS)
    assert (made.state, len(made.devices), made.error, made.power) == (HostState.UP, 2, "", "")
    known = Past(devices=(Device("GPU-1", 0, "T4"),))
    assert [one.uuid for one in awake_as(asleep, known, LIMITS).devices] == ["GPU-1"]


def test_a_busy_device_keeps_its_host_awake() -> None:
    device = Device("u", 0, "A100")
    assert in_use(Host("x", devices=(device,))) == ""
    assert "busy" in in_use(Host("x", devices=(replace(device, utilization=3.0),)))


def test_a_host_that_may_be_taken_away_wants_jobs_that_go_on() -> None:
    rules = LabRules(Limits(), Use(), NOW)
    spot = replace(host("spot"), interruptible=True)

    def ruling(checkpoint_dir: str, where: Host) -> Ruling | None:
        task = Task("t", checkpoint_dir=checkpoint_dir)
        return rules.host(Request("j", task, None, 1, 0.0), where, 0, 1)

    refused = ruling("", spot)
    assert refused is not None
    assert refused.code == "interruptible"
    assert "spot may be taken away" in refused.sentence
    assert ruling("checkpoints", spot) is None
    assert ruling("", host("steady")) is None
