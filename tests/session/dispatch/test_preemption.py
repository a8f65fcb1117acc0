"""Jobs that are stopped for others, or lose their host, and go on from their checkpoints."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.engines.transfers import LeftOut
from gpuconsole.core.jobs import Job, JobState, Mount, Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.dispatch.attempt.checkpoint import pack_parents
from gpuconsole.session.dispatch.attempt.container_spec import checkpoint_path
from gpuconsole.session.dispatch.preemption import interrupt, preempt
from gpuconsole.session.queue.commands import retry
from gpuconsole.state import Journal
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import Docker

RESUMES = Task("train", script="/p/train.py", project="/p", checkpoint_dir="out/ckpt")


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = make_lab(tmp_path / "state", hosts=("a", "b"))
    made.settings = LabSettings(preemption=True)
    yield made
    await made.close()


async def running(lab: Lab, desk: Desk, task: Task = RESUMES) -> Job:
    job_id = lab.submit(desk, task=task)
    if desk.task is None:
        desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    return desk.job(job_id)


def ended_by(job: Job) -> list[str]:
    return [attempt.ended_by for attempt in job.attempts]


async def test_a_preempted_job_is_stopped_and_goes_on_from_its_checkpoint(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    spec = lab.dockers["a"].only().spec
    assert spec.env["GPUCONSOLE_CHECKPOINT"] == "/workspace/out/ckpt"
    results = f"/home/u/results/{job.id}"
    assert spec.mounts == (
        Mount(results, "/results", read_only=False),
        Mount(f"{results}.checkpoint", "/workspace/out/ckpt", read_only=False),
    )
    preempt(desk.journal, job, "Preempted by ada.")
    await lab.clock.until(lambda: len(desk.job(job.id).attempts) == 2)
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.RUNNING)
    job = desk.job(job.id)
    assert ended_by(job) == ["preempted", ""]
    assert job.attempts[0].cause == "Preempted by ada."
    assert job.attempts[0].exit_code == 143
    assert job.queued_at is not None
    assert job.queued_at > job.submitted_at
    assert lab.dockers["a"].only().spec.mounts == spec.mounts
    assert lab.dockers["a"].sent == [], "it lies where it is needed"
    lab.dockers["a"].finish(0)
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.SUCCEEDED)
    assert ended_by(desk.job(job.id)) == ["preempted", "own"]


@pytest.mark.parametrize("code", [0, 1, 143])
async def test_however_a_script_ends_that_was_stopped_it_goes_on(lab: Lab, code: int) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    docker = lab.dockers["a"]
    docker.stop_code = code
    docker.write(b"Out of memory error on GPU 0. Caught, and gone on with less.\n")
    preempt(desk.journal, job, "Preempted by ada.")
    await lab.clock.until(lambda: len(desk.job(job.id).attempts) == 2)
    assert ended_by(desk.job(job.id))[0] == "preempted"


@pytest.mark.parametrize("allowed", [False, True])
async def test_the_plan_preempts_only_where_the_lab_allows_it(lab: Lab, allowed: bool) -> None:
    lab.settings = LabSettings(preemption=allowed)
    desk = lab.desk()
    job = await running(lab, desk)
    other = await running(lab, desk, replace(RESUMES, name="plain", checkpoint_dir=""))
    lab.planner.preempt = (job.id, other.id)
    third = lab.submit(desk, "third")
    if allowed:
        await lab.clock.until(lambda: desk.job(job.id).attempts[0].ended_by == "preempted")
        lab.planner.preempt = ()
        assert "a job that goes first" in desk.job(job.id).attempts[0].cause
        await lab.clock.until(lambda: len(lab.dockers["a"].history) == 2)
    else:
        await lab.clock.pass_time(30)
        assert desk.job(third).state is JobState.QUEUED
        assert desk.job(job.id).state is JobState.RUNNING
    assert desk.job(other.id).state is JobState.RUNNING, "it could not go on later"


async def test_a_checkpoint_follows_its_job_to_another_host(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    preempt(desk.journal, job, "Preempted by ada.")
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.QUEUED)
    other = await running(lab, desk, replace(RESUMES, name="first", checkpoint_dir=""))
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.RUNNING)
    places = {one.id: one.attempt.host for one in (desk.job(job.id), other) if one.attempt}
    assert sorted(places.values()) == ["a", "b"]
    moved = places[job.id]
    assert lab.dockers["a"].sent == (["checkpoint"] if moved == "b" else [])


async def moved(lab: Lab, desk: Desk) -> Job:
    """Return a preempted job once it has been placed on another host than before."""
    job = await running(lab, desk)
    lab.planner.avoided = frozenset({"a"})
    preempt(desk.journal, job, "Preempted by ada.")
    await lab.clock.until(lambda: len(desk.job(job.id).attempts) == 2)
    return job


async def test_what_a_checkpoint_loses_on_its_way_is_said(lab: Lab) -> None:
    desk = lab.desk()
    left = LeftOut().add("home\x1b[31m", "is a link that leads out of the folder")
    lab.dockers["b"].left_out = replace(left, count=3)
    job = await moved(lab, desk)
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.RUNNING)
    (reported,) = [
        event for _, event in desk.journal.events_after(0) if "left out" in event.message
    ]
    assert reported.message == (
        "3 things of its checkpoint were left out on the way from a to b: "
        "home is a link that leads out of the folder; and 2 more."
    )
    assert lab.dockers["b"].only().restored["/workspace/out/ckpt"]


async def test_a_job_whose_checkpoint_was_removed_does_not_begin_from_the_start(lab: Lab) -> None:
    desk = lab.desk()
    lab.dockers["a"].checkpoint_gone = True
    job = await moved(lab, desk)
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    assert desk.job(job.id).state is JobState.FAILED
    assert "where its checkpoint folder was removed since" in desk.job(job.id).cause


async def test_a_job_whose_checkpoint_is_out_of_sight_waits_for_it(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)

    def lose(docker: Docker, point: str) -> None:
        if point == "remove done":
            docker.reachable = False

    desk.hosts.listen(lose)
    preempt(desk.journal, job, "Preempted by ada.")
    await lab.clock.until(lambda: "out of sight" in desk.job(job.id).detail)
    desk.hosts.forget()
    await lab.clock.pass_time(60)
    assert desk.job(job.id).detail == "Its checkpoint lies on a, which is out of sight."
    assert not lab.dockers["b"].history
    lab.dockers["a"].reachable = True
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.RUNNING)


async def test_an_heir_stops_what_was_to_be_preempted(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    await desk.kill()
    Journal.save(
        desk.journal,
        desk.job(job.id),
        replace(job, attempts=(replace(job.attempts[0], ended_by="preempted", cause="Why."),)),
    )
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: len(heir.job(job.id).attempts) == 2)
    assert ended_by(heir.job(job.id)) == ["preempted", ""]
    assert heir.job(job.id).attempts[0].cause == "Why."


async def test_what_cannot_go_on_is_not_preempted(lab: Lab) -> None:
    desk = lab.desk()
    plain = await running(lab, desk, replace(RESUMES, checkpoint_dir=""))
    with pytest.raises(RefusedError, match="no checkpoint folder"):
        preempt(desk.journal, plain, "Why.")
    job = await running(lab, desk)
    stopping = interrupt(desk.journal, job, "crowded-out", "It grew too large.")
    with pytest.raises(RefusedError, match="about to end"):
        preempt(desk.journal, stopping, "Why.")
    await lab.clock.until(lambda: len(desk.job(job.id).attempts) == 2)
    assert ended_by(desk.job(job.id)) == ["crowded-out", ""]


@pytest.mark.parametrize("code", [137, 143, 255])
async def test_a_host_that_went_down_under_a_job_costs_one_retry(lab: Lab, code: int) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(RESUMES, retries=1))
    for attempt in (1, 2):
        docker = next(one for one in lab.dockers.values() if one.running)
        docker.reachable = False
        docker.notify()
        await lab.clock.until(lambda: desk.job(job.id).state is JobState.UNKNOWN)
        await lab.clock.pass_time(600)
        assert len(desk.job(job.id).attempts) == attempt, "not begun while it may run on"
        docker.finish(code)
        docker.reachable = True
        await lab.clock.until(lambda: desk.job(job.id).state in (JobState.RUNNING, JobState.FAILED))
    done = desk.job(job.id)
    assert done.state is JobState.FAILED
    assert ended_by(done) == ["lost-host", "lost-host"]
    assert "went away while it ran there" in done.cause
    assert sum(docker.starts for docker in lab.dockers.values()) == 2


async def test_a_host_taken_out_of_the_inventory_gives_its_job_free(
    lab: Lab, tmp_path: Path
) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    all_hosts = desk.hosts.snapshots
    lost = lab.dockers["a"]
    lost.reachable = False
    lost.notify()
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.UNKNOWN)
    bundle = desk.context.bundle(job.id)
    with pytest.raises(RefusedError) as refused:
        retry(desk.journal, desk.job(job.id), bundle, lab.clock.now(), ("a", "b"))
    assert "take it out of the inventory" in refused.value.hint
    with pytest.raises(RefusedError):
        retry(desk.journal, desk.job(job.id), bundle, lab.clock.now())

    desk.hosts.snapshots = replace(all_hosts, revision=50, hosts=all_hosts.hosts[1:])
    asked = retry(desk.journal, desk.job(job.id), bundle, lab.clock.now(), ("b",))
    assert asked.state is JobState.UNKNOWN, "the dispatcher ends it"
    await lab.clock.until(lambda: lab.dockers["b"].running)
    assert ended_by(desk.job(job.id)) == ["lost-host", ""]
    # The word was wrong: the host comes back, and what it still runs must not go on.
    assert lost.running
    lost.reachable = True
    desk.hosts.snapshots = replace(all_hosts, revision=99)
    await lab.clock.until(lambda: not lost.containers)
    assert desk.job(job.id).state is JobState.RUNNING
    assert lab.dockers["b"].running


async def test_a_script_that_failed_while_its_host_was_away_has_failed(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    docker = lab.dockers["a"]
    docker.reachable = False
    docker.notify()
    await lab.clock.until(lambda: desk.job(job.id).state is JobState.UNKNOWN)
    docker.finish(1, b"ValueError: no\n")
    docker.reachable = True
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    assert ended_by(desk.job(job.id)) == ["own"]
    assert desk.job(job.id).cause == "Exit code 1. ValueError: no"


def test_folders_above_the_checkpoints_are_made_for_the_script(tmp_path: Path) -> None:
    packed = tmp_path / "parents.tar"
    assert pack_parents(Task("t", checkpoint_dir="a/b/ckpt"), packed)
    with tarfile.open(packed) as tar:
        assert [(entry.name, entry.isdir()) for entry in tar] == [("a", True), ("a/b", True)]
    for needless in ("", "ckpt", "/data/ckpt"):
        assert not pack_parents(Task("t", checkpoint_dir=needless), packed)


def test_where_checkpoints_may_lie() -> None:
    def path(folder: str) -> str:
        return checkpoint_path(Task("t", checkpoint_dir=folder))

    assert path("") == ""
    assert path("ckpt") == "/workspace/ckpt"
    assert path("/data/ckpt") == "/data/ckpt"
    for wrong in (".", "..", "a/../..", "/", "/results", "/workspace"):
        with pytest.raises(UsageError, match="Wrong checkpoint folder"):
            path(wrong)


async def test_two_requests_at_once_make_one_stop(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    preempt(desk.journal, job, "One.")
    interrupt(desk.journal, job, "preempted", "Two.")
    await asyncio.sleep(0)
    await lab.clock.until(lambda: len(desk.job(job.id).attempts) == 2)
    await lab.clock.pass_time(30)
    assert len(desk.job(job.id).attempts) == 2
