"""Hosts that are up while their engine cannot be asked: no job may be lost to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.jobs import JobState
from gpuconsole.session.fleet.leases import REFRESH_S, marked
from gpuconsole.session.fleet.silent_engines import BELIEVED_S, SILENT_S
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.planner import Situation
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import Docker

SENTENCE = (
    "a: its Docker engine does not answer: permission denied on the socket;"
    " `gpuconsole check a` says what to do."
)
BEFORE_CREATE = ("inspect", "image", "claim", "claim done", "prepare")


def cancel(desk: Desk, job_id: str) -> None:
    job = desk.job(job_id)
    desk.journal.save(job, replace(job, cancel_requested=True))


async def test_placement_leaves_out_a_host_whose_engine_cannot_be_asked(lab: Lab) -> None:
    desk = lab.desk()
    lab.docker.silent_at = None
    job_id = lab.submit(desk)
    await desk.leases.refresh()
    snapshot = marked(desk.hosts.snapshot(), desk.leases.silent())
    job = replace(desk.job(job_id), estimate_mib=1000.0)
    placer, now = Placer(LabSettings()), lab.clock.now()
    plan = placer.plan(Situation([job], snapshot, now))
    assert plan.choices == ()
    assert "1 on hosts with a Docker engine that does not answer" in plan.waiting[job_id].reason
    assert SENTENCE in plan.waiting[job_id].reason
    decision = placer.decide(job.task, None, Situation([], snapshot, now))
    assert [(one.filter, one.reason) for one in decision.rejections] == [("engine", SENTENCE)]

    assert desk.outlook.plan.choices == ()
    await lab.clock.pass_time(SILENT_S)
    assert len(desk.outlook.plan.choices) == 1, "what was not asked for long is tried"


async def test_an_engine_that_is_back_is_believed_after_a_while(lab: Lab) -> None:
    desk = lab.desk()
    lab.docker.silent_at = None
    await desk.leases.refresh()
    lab.docker.silent_at = frozenset()
    await lab.clock.pass_time(REFRESH_S)
    await desk.leases.refresh()
    assert desk.leases.silent()
    await lab.clock.pass_time(BELIEVED_S - REFRESH_S)
    await desk.leases.refresh()
    assert not desk.leases.silent()


@pytest.mark.parametrize("point", BEFORE_CREATE)
async def test_a_job_that_got_no_container_goes_back_and_runs_elsewhere(
    tmp_path: Path, point: str
) -> None:
    lab = make_lab(tmp_path / "state", hosts=("a", "b"))
    lab.dockers["a"].silent_at = frozenset({point})
    desk = lab.desk()
    job_id = lab.submit(desk)
    number = desk.journal.last_event()
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING, within=10)
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    assert (attempt.host, attempt.number) == ("b", 1)
    assert lab.dockers["a"].history == []
    reported = [event.message for _, event in desk.journal.events_after(number)]
    assert not [message for message in reported if "unknown" in message]
    await lab.close()


async def test_a_job_that_got_no_container_waits_with_the_reason(lab: Lab) -> None:
    lab.docker.silent_at = None
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).attempt and desk.job(job_id).detail == SENTENCE)
    assert desk.job(job_id).state is JobState.QUEUED
    lab.docker.silent_at = frozenset()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING, within=SILENT_S + 5)
    assert lab.docker.starts == 1
    assert len(desk.job(job_id).attempts) == 1


@pytest.mark.parametrize("point", ["create", "create done", "put", "start", "start done"])
async def test_a_job_that_may_have_a_container_stays_unknown_and_starts_once(
    lab: Lab, point: str
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)

    def fall_silent() -> None:
        lab.docker.silent_at = frozenset({point, "inspect"})

    lab.docker.on_claim = fall_silent
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    await lab.clock.pass_time(120)
    assert desk.job(job_id).state is JobState.UNKNOWN
    lab.docker.on_claim = lambda: None
    lab.docker.silent_at = frozenset()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    assert lab.docker.starts == 1
    assert len(lab.docker.history) == 1


async def test_a_job_of_a_host_that_is_down_before_its_container_is_cancelled_at_once(
    lab: Lab,
) -> None:
    lab.docker.pull_blocks = True
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: "43 %" in desk.job(job_id).detail)
    lab.docker.reachable = False
    lab.docker.pull_blocks = False
    cancel(desk, job_id)
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job_id).state.ended, within=3)
    job = desk.job(job_id)
    assert (job.state, job.cause) == (JobState.CANCELLED, "Cancelled before it started.")
    assert job.ended_at is not None
    assert lab.docker.history == []


@pytest.mark.parametrize("lost_at", ["image", "create", "create done", "put done"])
async def test_a_job_of_a_host_that_goes_down_before_it_starts_runs_elsewhere(
    tmp_path: Path, lost_at: str
) -> None:
    lab = make_lab(tmp_path / "state", hosts=("a", "b"))
    try:
        desk = lab.desk()
        job_id = lab.submit(desk)
        gone = lab.dockers["a"]

        def lose(docker: Docker, point: str) -> None:
            if point == lost_at and docker is gone:
                gone.reachable = False

        desk.hosts.listen(lose)
        desk.start()
        await lab.clock.until(lambda: lab.dockers["b"].running)
        job = desk.job(job_id)
        assert [attempt.number for attempt in job.attempts] == [1], "no try was used up"
        assert gone.starts == 0
        # What was made on the lost host is removed when it is back, though the job runs on.
        gone.reachable = True
        await lab.clock.until(lambda: not gone.containers)
        assert desk.job(job_id).state is JobState.RUNNING
        lab.dockers["b"].finish(0)
        await lab.clock.until(lambda: desk.job(job_id).state is JobState.SUCCEEDED)
    finally:
        await lab.close()


async def test_a_job_that_may_have_a_container_is_not_cancelled_unseen(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)

    def fall_silent() -> None:
        lab.docker.silent_at = frozenset({"create done", "inspect"})

    lab.docker.on_claim = fall_silent
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    cancel(desk, job_id)
    await lab.clock.pass_time(120)
    assert desk.job(job_id).state is JobState.UNKNOWN
    lab.docker.silent_at = frozenset()
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).state is JobState.CANCELLED
    assert not lab.docker.leases
    await lab.clock.until(lambda: not lab.docker.containers)
    assert lab.docker.starts == 0


async def test_a_device_claimed_by_a_try_that_was_put_back_is_claimed_again(lab: Lab) -> None:
    """The claim took effect, its answer was lost: the lease is the same job's at the next try."""
    lab.docker.silent_at = frozenset({"claim done"})
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).detail.startswith("a: its Docker"))
    held: Lease = lab.docker.leases["GPU-a-0"]
    lab.docker.silent_at = frozenset()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    assert lab.docker.leases["GPU-a-0"].attempt == held.attempt
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert not lab.docker.leases
