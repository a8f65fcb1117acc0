"""Who may share a device, what each is bound to, and what runs there together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import HostAccount, Lease
from gpuconsole.core.devices.device_sharing import Share
from gpuconsole.core.engines.device_requests import SHARE_LABEL, container_labels
from gpuconsole.core.engines.docker_command import docker_line
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Member, Task
from gpuconsole.session.dispatch.attempt.container_spec import container_spec
from gpuconsole.session.dispatch.device_sharing import (
    MEMORY_FLAG,
    Pair,
    Seat,
    memory_variables,
    pairs,
    share_of,
)
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.planner import Situation

NOW = 1_800_000_000.0
ON = LabSettings(sharing=True)
HOST = Host("h", devices=(Device("GPU-0", 0, "RTX 3090", memory_total_mib=24000.0),))
ATTEMPT = Attempt(1, "h", ("GPU-0",), (0,), "gpuconsole-j-1-nonce", created_at=5.0)


def job(
    name: str = "j",
    *,
    need: float | None = 8000.0,
    attempt: Attempt = ATTEMPT,
    state: JobState = JobState.RUNNING,
    **task: Any,
) -> Job:
    asked = Task("train", script="/p/t.py", **{"share": True, **task})
    estimate = {"memory": {"context_mib": 500.5, "high_mib": need}}
    return Job(name, asked, "ada", state, 1.0, None, (attempt,), estimate_mib=need,
               estimate=estimate)  # fmt: skip


def test_a_job_that_shares_is_bound_to_its_upper_bound() -> None:
    share = share_of(job(), ATTEMPT, ON, HOST)
    assert share == Share(8000.0, 0.85 * 24000.0)
    # Without the context, in whole MiB: 8000 - 500.5.
    assert memory_variables(job(), share) == {MEMORY_FLAG: "7499"}
    later = replace(ATTEMPT, shared=True)
    assert share_of(job(), later, ON, HOST) == Share(8000.0, 20400.0, beside=True)


@pytest.mark.parametrize(
    "fields",
    [{"share": False}, {"exclusive": True}, {"backend": "npu"}, {"backend": "xpu"}],
)
def test_who_does_not_ask_for_it_or_cannot_be_bound_has_the_device_alone(
    fields: dict[str, Any],
) -> None:
    assert share_of(job(**fields), ATTEMPT, ON, HOST) is None
    assert memory_variables(job(**fields), None) == {}


def test_the_lab_has_to_allow_it_and_the_need_to_be_known() -> None:
    assert share_of(job(), ATTEMPT, LabSettings(), HOST) is None
    assert share_of(job(need=None), ATTEMPT, ON, HOST) is None
    assert share_of(job(), ATTEMPT, ON, None) is None
    unknown = replace(HOST, devices=(replace(HOST.devices[0], memory_total_mib=None),))
    assert share_of(job(), ATTEMPT, ON, unknown) is None


def test_a_job_on_several_devices_or_hosts_shares_none() -> None:
    two = replace(ATTEMPT, device_uuids=("GPU-0", "GPU-1"))
    assert share_of(job(), two, ON, HOST) is None
    gang = replace(ATTEMPT, members=(Member("i", ("GPU-9",), (0,), "c"),))
    assert share_of(job(attempt=gang), gang.parts[0], ON, HOST) is None


def test_one_that_had_to_make_room_is_not_put_beside_another_again() -> None:
    before = replace(ATTEMPT, ended_by="crowded-out")
    again = replace(job(), attempts=(before, ATTEMPT))
    assert share_of(again, ATTEMPT, ON, HOST) is None


def test_a_lower_limit_of_the_tasks_own_stands() -> None:
    share = Share(8000.0, 20400.0)
    for own, limit in (("4000", "4000"), ("9000", "7499"), ("0", "7499"), ("much", "7499")):
        assert memory_variables(job(env={MEMORY_FLAG: own}), share) == {MEMORY_FLAG: limit}


def test_the_container_says_and_keeps_it() -> None:
    made = container_spec(
        job(env={MEMORY_FLAG: "9000"}), ATTEMPT, command=("python",), image="paddle",
        account=HostAccount(1000, 100, "/r"), journal="J", settings=ON, host=HOST,
    )  # fmt: skip
    assert made.env[MEMORY_FLAG] == "7499"
    assert container_labels(made)[SHARE_LABEL] == "8000.000/20400.000"
    assert f"{MEMORY_FLAG}=7499" in docker_line(made)


def test_pairs_know_who_came_later() -> None:
    first = job("first")
    later = job("later", attempt=replace(ATTEMPT, created_at=9.0, shared=True))
    alone = job("alone", attempt=replace(ATTEMPT, device_uuids=("GPU-1",)))
    over = job("over", state=JobState.SUCCEEDED)
    (pair,) = pairs([later, alone, first, over], {})
    assert pair == Pair(
        "h", "GPU-0", Seat("first", "train", 5.0, own=True), Seat("later", "train", 9.0, own=True)
    )
    assert pair.beside("first").job == "later"
    assert pair.beside("later").job == "first"
    assert pairs([first, alone], {}) == ()


def test_another_consoles_job_counts_and_clocks_do_not() -> None:
    mine = job("mine", attempt=replace(ATTEMPT, created_at=9.0))
    share = Share(1.0, 2.0, beside=True)
    theirs = Lease("GPU-0", "t", "t-1", "bob", "theirs", 1.0, share)
    (pair,) = pairs([mine], {"h": [theirs], "i": [replace(theirs, uuid="GPU-7")]})
    assert (pair.first.job, pair.later) == ("mine", Seat("t", "a job of bob", 1.0, own=False))


ONE = FleetSnapshot(
    1, NOW, (Host("h", HostState.UP, devices=(replace(HOST.devices[0], memory_used_mib=9000.0),)),)
)


def placer_that_saw(percent: float) -> tuple[Placer, Job]:
    """Return a placer that watched a job of this script to its end, and that job."""
    placer = Placer(ON)
    attempt = replace(ATTEMPT, container_id="c", starting_at=6.0, started_at=6.0)
    before = job("before", attempt=attempt)
    process = DeviceProcess(1, container_id="c")
    device = replace(ONE.hosts[0].devices[0], utilization=percent, processes=(process,))
    busy = replace(ONE, hosts=(replace(ONE.hosts[0], devices=(device,)),))
    for frame in range(61):
        placer.plan(Situation([before], replace(busy, revision=frame), NOW))
    ended = replace(attempt, ended_at=NOW - 5)
    return placer, replace(before, attempts=(ended,), state=JobState.SUCCEEDED)


def queued(name: str, **fields: Any) -> Job:
    return replace(job(name, state=JobState.QUEUED, **fields), attempts=())


def placed(placer: Placer, *jobs: Job, avoid: frozenset[tuple[str, str]] = frozenset(),
           theirs: tuple[Lease, ...] = ()) -> list[tuple[str, bool]]:  # fmt: skip
    plan = placer.plan(Situation(jobs, ONE, NOW, leases={"h": theirs}, avoid=avoid))
    return [(choice.job, choice.shared) for choice in plan.choices]


def test_a_job_comes_beside_another_when_no_whole_device_is_free() -> None:
    placer, before = placer_that_saw(45.0)
    assert placed(placer, before, job("on"), queued("next")) == [("next", True)]
    # Nobody is beside a third, nor beside one that another console has just come beside.
    later = job("two", attempt=replace(ATTEMPT, shared=True, created_at=6.0))
    assert placed(placer, before, job("on"), later, queued("next")) == []
    recent = frozenset({("h", "GPU-0")})
    assert placed(placer, before, job("on"), queued("next"), avoid=recent) == []
    theirs = Lease("GPU-0", "t", "t-1", "bob", "theirs", 1.0, Share(1.0, 2.0, beside=True))
    assert placed(placer, before, job("on"), queued("next"), theirs=(theirs,)) == []


def test_it_waits_where_both_would_be_too_much() -> None:
    placer, before = placer_that_saw(55.0)
    assert placed(placer, before, job("on"), queued("next")) == []
    placer, before = placer_that_saw(45.0)
    assert placed(placer, before, job("on"), queued("next", need=12500.0)) == []
    assert placed(placer, before, job("on"), queued("next", need=12400.0)) == [("next", True)]


def test_one_that_made_room_waits_for_a_device_of_its_own() -> None:
    placer, before = placer_that_saw(45.0)
    crowded = replace(ATTEMPT, shared=True, ended_by="crowded-out", ended_at=NOW - 3)
    again = replace(queued("next"), attempts=(crowded,))
    assert placed(placer, before, job("on"), again) == []
    assert placed(placer, before, again) == [("next", False)]


def test_a_script_that_runs_now_tells_for_those_after_it() -> None:
    placer, before = placer_that_saw(45.0)
    # With other arguments too, as in a sweep.
    assert placed(placer, before, job("on"), queued("next", args=("--lr", "2"))) == [("next", True)]
    fresh = Placer(ON)
    running = job("on", attempt=replace(ATTEMPT, container_id="c", started_at=6.0))
    device = replace(ONE.hosts[0].devices[0], utilization=40.0)
    busy = replace(ONE, hosts=(replace(ONE.hosts[0], devices=(device,)),))
    for frame in range(61):
        fresh.plan(Situation([running], replace(busy, revision=frame), NOW))
    assert placed(fresh, running, queued("next")) == [("next", True)]
