"""A console that leaves takes back what it was launching; what a launch made may also be taken
away from it by others, while it is asleep."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.jobs import JobState, Task
from gpuconsole.session.async_helpers import to_its_end
from gpuconsole.session.dispatch.attempt.end import LEFT
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import Docker

ALONE = Task("train", script="/p/train.py")
GANG = Task("train", script="/p/train.py", project="/p", devices=2, hosts=2)
BEFORE_START = ("image", "claim", "claim done", "prepare", "create", "create done", "put")


def make(state: Path, task: Task) -> Lab:
    lab = make_lab(state, hosts=("a", "b")[: task.hosts])
    lab.settings = LabSettings(gang_network="host")
    return lab


async def closed_at(lab: Lab, desk: Desk, wanted: str) -> None:
    """Start a console and close it when a call of its engines is reached."""
    desk.start()
    task, closing = desk.task, asyncio.Event()
    assert task is not None

    def heard(_: Docker, point: str) -> None:
        if point == wanted and not closing.is_set():
            closing.set()
            task.cancel()

    desk.hosts.listen(heard)
    await lab.clock.until(closing.is_set)
    await asyncio.wait({task})
    assert task.cancelled()


@pytest.mark.parametrize("task", [ALONE, GANG], ids=["alone", "gang"])
@pytest.mark.parametrize("point", BEFORE_START)
async def test_closing_takes_a_launch_back(tmp_path: Path, point: str, task: Task) -> None:
    lab = make(tmp_path / "state", task)
    desk = lab.desk()
    job_id = lab.submit(desk, task=task)
    await closed_at(lab, desk, point)
    job = desk.job(job_id)
    assert (job.state, job.detail) == (JobState.QUEUED, LEFT)
    for docker in lab.dockers.values():
        assert not docker.containers
        assert not docker.leases
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.job(job_id).state is JobState.RUNNING)
    assert [docker.starts for docker in lab.dockers.values()] == [1] * task.hosts
    assert [attempt.number for attempt in heir.job(job_id).attempts] == [1]
    await lab.close()


async def test_closing_cancels_what_was_to_be_cancelled(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)

    def cancel(_: Docker, point: str) -> None:
        if point == "create":
            desk.journal.save(desk.job(job_id), replace(desk.job(job_id), cancel_requested=True))

    desk.hosts.listen(cancel)
    await closed_at(lab, desk, "create done")
    assert desk.job(job_id).state is JobState.CANCELLED
    assert not lab.docker.containers
    assert not lab.docker.leases


async def test_what_an_engine_does_not_let_go_is_said_and_left_to_the_next_console(
    lab: Lab,
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)

    def fall_silent(docker: Docker, point: str) -> None:
        if point == "put":
            docker.silent_at = None

    desk.hosts.listen(fall_silent)
    await closed_at(lab, desk, "put")
    job = desk.job(job_id)
    assert job.state is JobState.LAUNCHING
    assert job.detail == f"{LEFT} The engine of a did not let go of it in time."
    assert lab.docker.only().state == "created"
    lab.docker.silent_at = frozenset()
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.job(job_id).state is JobState.RUNNING)
    assert lab.docker.starts == 1
    assert len(lab.docker.history) == 1


async def test_a_console_that_lost_its_role_takes_nothing_back(lab: Lab) -> None:
    desk, heir = lab.desk(), lab.desk()
    job_id = lab.submit(desk)

    def lose_role(_: Docker, point: str) -> None:
        if point == "put":
            desk.hosts.forget()
            lab.clock.time += 60
            heir.start()

    desk.hosts.listen(lose_role)
    desk.start()
    await lab.clock.until(lambda: heir.dispatcher.active)
    await desk.stop()
    assert heir.job(job_id).state in (JobState.LAUNCHING, JobState.RUNNING)
    await lab.clock.until(lambda: heir.job(job_id).state is JobState.RUNNING)
    assert lab.docker.starts == 1


async def test_closing_waits_for_a_start_that_is_under_way(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    await closed_at(lab, desk, "start")
    assert lab.docker.starts == 1
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.job(job_id).state is JobState.RUNNING)
    assert lab.docker.starts == 1


@pytest.mark.parametrize("asleep_at", ["put", "put done", "start"])
async def test_a_console_that_wakes_late_starts_nothing_and_queues_its_job_again(
    lab: Lab, asleep_at: str
) -> None:
    """Others took it for dead: its container is gone, and another job has the device."""
    desk = lab.desk()
    job_id = lab.submit(desk)
    theirs = Lease("GPU-a-0", "other", "other-1", "eve", "J2", lab.clock.now())

    def sleep(docker: Docker, point: str) -> None:
        if point == asleep_at and docker.containers:
            desk.hosts.forget()
            docker.containers.clear()
            docker.leases = {theirs.uuid: theirs}

    desk.hosts.listen(sleep)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).attempt and not desk.job(job_id).state.active)
    assert desk.job(job_id).state is JobState.QUEUED
    await lab.clock.pass_time(60)
    job = desk.job(job_id)
    assert job.state is JobState.QUEUED
    assert lab.docker.starts == 0
    assert lab.docker.leases == {theirs.uuid: theirs}
    lab.docker.leases.clear()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    assert lab.docker.starts == 1
    assert len(desk.job(job_id).attempts) == 1


async def test_a_launch_that_takes_long_shows_signs_and_removes_the_last(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    go_on = asyncio.Event()
    lab.docker.put_waits = go_on
    desk.start()
    await lab.clock.until(lambda: lab.docker.containers)
    await lab.clock.pass_time(2 * desk.context.settings.lease_grace + 1)
    assert lab.docker.signs == [desk.journal.id] * 8
    go_on.set()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    assert lab.docker.removed[-8:] == [f"sign-{number}" for number in range(1, 9)]
    await lab.clock.pass_time(600)
    assert len(lab.docker.signs) == 8


async def test_work_that_must_not_be_cut_ends_before_the_cancellation_does() -> None:
    go_on, done = asyncio.Event(), []

    async def work() -> None:
        await go_on.wait()
        done.append("made")

    task = asyncio.ensure_future(to_its_end(work(), lambda: asyncio.sleep(3600)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["made"]


async def test_work_that_never_ends_is_left_when_patience_is_over() -> None:
    over = asyncio.Event()
    task = asyncio.ensure_future(to_its_end(asyncio.Event().wait(), over.wait))
    await asyncio.sleep(0)
    task.cancel()
    over.set()
    with pytest.raises(asyncio.CancelledError):
        await task
