"""Two jobs on one device from start to end, through the dispatcher."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.devices.device_sharing import Share
from gpuconsole.core.jobs import JobState, Task
from gpuconsole.session.dispatch.device_sharing import MEMORY_FLAG, willing
from gpuconsole.session.queue.planner import Choice, Plan, Situation, Why
from gpuconsole.session.queue.why import why_of
from tests.session.conftest import Desk, Lab

UUID = "GPU-a-0"


class Beside:
    """Places jobs on the only device, the second of two that are willing beside the first."""

    def plan(self, situation: Situation) -> Plan:
        jobs = situation.jobs
        there = [job for job in jobs if job.state.active]
        choices: list[Choice] = []
        waiting: dict[str, Why] = {}
        for job in jobs:
            if job.state is not JobState.QUEUED:
                continue
            beside = len(there) == 1 and willing(there[0]) and willing(job)
            if there and not beside:
                waiting[job.id] = Why("queued", "No device is free.")
                continue
            there.append(job)
            choices.append(Choice(job.id, "a", (UUID,), (0,), ("first",), shared=beside))
        return Plan(tuple(choices), waiting)


@pytest.fixture
def shared(lab: Lab) -> Lab:
    lab.settings = LabSettings(sharing=True)
    lab.planner = Beside()
    return lab


def submit(lab: Lab, desk: Desk, name: str, need: float = 8000.0) -> str:
    job = desk.job(lab.submit(desk, name, Task(name, script="/p/t.py", share=True)))
    estimate = {"memory": {"context_mib": 500.0}}
    desk.journal.save(job, replace(job, estimate_mib=need, estimate=estimate))
    return job.id


def uses(desk: Desk, mib: float) -> None:
    """Let the driver say how much of the device is in use."""
    fleet = desk.hosts.snapshots
    (device,) = fleet.hosts[0].devices
    host = replace(fleet.hosts[0], devices=(replace(device, memory_used_mib=mib),))
    desk.hosts.snapshots = replace(fleet, revision=fleet.revision + 1, hosts=(host,))


def running(desk: Desk) -> list[str]:
    jobs = desk.journal.jobs()
    return [job.task.name for job in jobs if job.state is JobState.RUNNING]


async def both_running(lab: Lab, desk: Desk) -> tuple[str, str]:
    first, later = submit(lab, desk, "first"), submit(lab, desk, "later")
    desk.start()
    await lab.clock.until(lambda: running(desk) == ["first", "later"])
    return first, later


async def test_both_are_bound_and_leased(shared: Lab) -> None:
    desk = shared.desk()
    first, later = await both_running(shared, desk)
    limits = {
        container.spec.labels["gpuconsole.job"]: container.spec.env[MEMORY_FLAG]
        for container in shared.docker.containers.values()
    }
    assert limits == {first: "7500", later: "7500"}
    taken = {lease.job: lease.share for lease in shared.docker.leases.values()}
    limit = 0.85 * 40960.0
    assert taken == {first: Share(8000.0, limit), later: Share(8000.0, limit, beside=True)}
    attempt = desk.job(later).attempt
    assert attempt is not None
    assert attempt.shared
    await shared.clock.until(lambda: desk.job(first).detail)
    why = why_of(desk.job(first), {})
    assert why.reason == (
        f"It runs on a. first It shares its device with later ({later}); what that costs cannot be"
        " measured: no steps were seen while one ran alone."
    )


async def test_without_room_for_both_the_second_waits(shared: Lab) -> None:
    desk = shared.desk()
    submit(shared, desk, "first", 20000.0)
    later = submit(shared, desk, "later", 20000.0)
    desk.start()
    await shared.clock.until(lambda: running(desk) == ["first"])
    await shared.clock.pass_time(15)
    # 40,000 MiB are more than 85 % of 40,960: the engine's claim refuses it.
    assert running(desk) == ["first"]
    assert desk.job(later).state in (JobState.QUEUED, JobState.LAUNCHING)
    assert len(shared.docker.leases) == 1


async def test_the_later_one_makes_room_and_waits_for_a_device_of_its_own(shared: Lab) -> None:
    desk = shared.desk()
    first, later = await both_running(shared, desk)
    uses(desk, 38000.0)
    await shared.clock.until(lambda: desk.job(later).state is JobState.QUEUED)
    job = desk.job(later)
    assert job.attempt is not None
    assert job.attempt.ended_by == "crowded-out"
    assert job.attempt.cause.startswith(f"It made room for first ({first})")
    assert job.queued_at == job.attempt.ended_at
    assert running(desk) == ["first"]
    assert [lease.job for lease in shared.docker.leases.values()] == [first]
    uses(desk, 8000.0)
    await shared.clock.pass_time(60)
    assert desk.job(later).state is JobState.QUEUED
    shared.docker.finish(0)
    await shared.clock.until(lambda: running(desk) == ["later"])
    again = desk.job(later).attempt
    assert again is not None
    assert (again.number, again.shared) == (2, False)
    assert MEMORY_FLAG not in shared.docker.only().spec.env


async def test_when_the_first_has_ended_the_later_one_runs_on(shared: Lab) -> None:
    desk = shared.desk()
    first, later = await both_running(shared, desk)
    await shared.clock.until(lambda: desk.job(later).detail)
    shared.docker.finish(0)
    await shared.clock.until(lambda: desk.job(first).state is JobState.SUCCEEDED)
    await shared.clock.until(lambda: not desk.job(later).detail)
    uses(desk, 40000.0)
    await shared.clock.pass_time(30)
    assert running(desk) == ["later"]


async def test_a_console_that_is_killed_while_one_makes_room_is_followed_by_another(
    shared: Lab,
) -> None:
    desk = shared.desk()
    _, later = await both_running(shared, desk)
    shared.docker.silent_at = frozenset({"stop"})
    uses(desk, 38000.0)
    await shared.clock.until(lambda: (a := desk.job(later).attempt) is not None and a.ended_by)
    await desk.kill()
    shared.docker.silent_at = frozenset()
    heir = shared.desk()
    heir.start()
    await shared.clock.until(lambda: heir.job(later).state is JobState.QUEUED)
    assert running(heir) == ["first"]
    assert len(shared.docker.leases) == 1
