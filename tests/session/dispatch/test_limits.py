"""Time limits: warned of, carried out, named, and held to across consoles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.incidents import Incident, Severity
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.time_limits import require_time_limit, time_limit
from gpuconsole.errors import UsageError
from gpuconsole.session.dispatch.limits import Limits, grace_s
from gpuconsole.session.queue.why import why_of
from gpuconsole.state import Journal
from gpuconsole.yamldoc import parse
from tests.session.conftest import Desk, Lab, make_lab

MINUTE = 60.0
TASK = Task("train", script="/p/train.py", time_limit_s=2 * MINUTE)


def settings(text: str) -> LabSettings:
    return parse(text, "config.yaml", LabSettings)


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = make_lab(tmp_path / "state", hosts=("a",))
    yield made
    await made.close()


async def running(lab: Lab, desk: Desk, task: Task = TASK) -> Job:
    job_id = lab.submit(desk, task=task)
    if desk.task is None:
        desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    return desk.job(job_id)


def look(desk: Desk) -> None:
    epoch = desk.journal.role().epoch
    Limits(desk.context, lambda: ()).look(epoch)


def warnings(desk: Desk) -> list[str]:
    return [one.message for _, one in desk.journal.events_after(0) if one.what == "time-warning"]


async def test_a_job_is_warned_once_and_ended_at_its_limit_by_name(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    await lab.clock.pass_time(1.4 * MINUTE)
    look(desk)
    assert warnings(desk) == []
    await lab.clock.pass_time(0.5 * MINUTE)
    look(desk)
    look(desk)
    assert warnings(desk) == ["train: the job's limit of 2m00s ends it in 6s."]
    await lab.clock.pass_time(0.2 * MINUTE)
    look(desk)
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    job = desk.job(job.id)
    assert job.state is JobState.FAILED
    assert job.state_word == "time limit"
    assert job.cause == "Time limit: it ran 2m06s, and the job's limit of 2m00s was over."
    assert [attempt.ended_by for attempt in job.attempts] == ["time-limit"]
    assert job.as_json()["ended_by"] == "time-limit"
    assert "longer time limit" in why_of(job, {}).options[1]
    reported = [one for _, one in desk.journal.events_after(0) if one.what == "time-limit"]
    assert [one.message.split(".")[0] for one in reported] == [
        "train: time limit",
    ]


async def test_it_is_not_tried_again_by_itself(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, retries=5, checkpoint_dir="ckpt", auto_batch=True))
    await lab.clock.pass_time(2.1 * MINUTE)
    look(desk)
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    await lab.clock.pass_time(MINUTE)
    assert len(desk.job(job.id).attempts) == 1


async def test_another_console_ends_it_by_the_clock_of_its_start(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    await lab.clock.pass_time(1.9 * MINUTE)
    await desk.kill()
    await lab.clock.pass_time(0.2 * MINUTE)
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.dispatcher.active)
    look(heir)
    await lab.clock.until(lambda: heir.job(job.id).state.ended)
    assert heir.job(job.id).state_word == "time limit"


async def test_the_clock_is_the_hosts(lab: Lab) -> None:
    """A host with a clock 3 min ahead says that a job began in the future of this machine."""
    desk = lab.desk()
    job = await running(lab, desk)
    ahead = 3 * MINUTE
    started = (desk.job(job.id).attempts[0].started_at or 0.0) + ahead
    attempt = replace(desk.job(job.id).attempts[0], started_at=started)
    Journal.save(desk.journal, desk.job(job.id), replace(desk.job(job.id), attempts=(attempt,)))
    (host,) = desk.hosts.snapshots.hosts
    desk.hosts.snapshots = replace(
        desk.hosts.snapshots, hosts=(replace(host, clock_skew_s=ahead),), revision=99
    )
    await lab.clock.pass_time(1.0 * MINUTE)
    look(desk)
    assert desk.job(job.id).attempts[0].ended_by == ""
    await lab.clock.pass_time(1.1 * MINUTE)
    look(desk)
    assert desk.job(job.id).attempts[0].ended_by == "time-limit"


async def test_what_ended_by_itself_before_it_was_stopped_keeps_its_own_end(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    await desk.kill()
    await lab.clock.pass_time(MINUTE)
    lab.docker.finish(0)
    await lab.clock.pass_time(3 * MINUTE)
    # A console that has not looked at the container yet finds the limit over.
    heir = lab.desk()
    assert heir.journal.take_role("heir") is not None
    look(heir)
    assert heir.job(job.id).attempts[0].ended_by == "time-limit"
    heir.journal.give_back_role(heir.journal.role().epoch)
    heir.start()
    await lab.clock.until(lambda: heir.job(job.id).state.ended)
    assert heir.job(job.id).state is JobState.SUCCEEDED
    assert heir.job(job.id).attempts[0].ended_by == "own"


async def test_the_labs_limit_holds_for_jobs_that_name_none(lab: Lab) -> None:
    lab.settings = settings("limits: {time_limit: 1m}")
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, time_limit_s=None))
    assert lab.docker.only().spec.env["GPUCONSOLE_TIME_LIMIT"] == "60"
    await lab.clock.pass_time(1.1 * MINUTE)
    look(desk)
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    assert "the lab's limit of 1m00s" in desk.job(job.id).cause


def test_the_shorter_limit_holds_and_a_longer_one_is_refused() -> None:
    assert time_limit(TASK, MINUTE) == time_limit(replace(TASK, time_limit_s=None), MINUTE)
    mine = time_limit(TASK, 3 * MINUTE)
    assert mine is not None
    assert (mine.seconds, mine.lab) == (2 * MINUTE, False)
    assert time_limit(replace(TASK, time_limit_s=None), None) is None
    require_time_limit(TASK, 2 * MINUTE)
    with pytest.raises(UsageError, match="no job of this lab may run longer than 1m00s"):
        require_time_limit(TASK, MINUTE)


async def test_the_grace_runs_on_over_consoles_and_never_falls_to_nothing(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    now, made = lab.clock.now(), settings("limits: {grace: 10m}")
    assert grace_s(job, made, now) == made.stop_grace
    reported = replace(job.attempts[0], ended_by="time-limit", stopping_at=now - 60)
    stopped = replace(job, attempts=(reported,))
    assert grace_s(stopped, made, now) == 540
    assert grace_s(stopped, made, now + 10 * MINUTE) == 5
    assert grace_s(replace(stopped, cancel_requested=True), made, now) == made.stop_grace


def idle(job: Job, lab: Lab, **more: object) -> Incident:
    """Return an incident that says that a job has done nothing since it began."""
    now = lab.clock.now()
    assert job.attempt is not None
    made = Incident(
        "idle-job", job.id, Severity.WARNING, "train does nothing", "a",
        job.attempt.started_at or 0, now, jobs=(job.id,), confidence="high",
        reason="none of its devices was used",
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


async def test_an_idle_job_is_ended_by_the_labs_word_alone(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, time_limit_s=None))
    await lab.clock.pass_time(3 * MINUTE)
    epoch = desk.journal.role().epoch
    Limits(desk.context, lambda: (idle(job, lab),)).look(epoch)
    assert desk.job(job.id).attempts[0].ended_by == ""

    strict = replace(desk.context, settings=settings("limits: {idle: 2m}"))
    now = lab.clock.now()
    for innocent in (
        idle(job, lab, since=now - 60),
        idle(job, lab, since=now - 600),
        idle(job, lab, confidence="medium"),
        idle(job, lab, rule="no-steps"),
        idle(job, lab, last_seen=now - 600),
        idle(job, lab, ended_at=now),
        idle(job, lab, marked="resolved"),
        idle(job, lab, marked="snoozed", until=now + 60),
        idle(job, lab, host="nowhere"),
        idle(job, lab, jobs=("other",)),
    ):
        Limits(strict, lambda one=innocent: (one,)).look(epoch)  # type: ignore[misc]
        assert desk.job(job.id).attempts[0].ended_by == "", innocent
    Limits(strict, lambda: (idle(job, lab, marked="acknowledged"),)).look(epoch)
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    job = desk.job(job.id)
    assert (job.state, job.state_word) == (JobState.FAILED, "ended idle")
    assert job.cause.startswith("Ended idle: for 3m")
    assert "none of its devices was used" in job.cause


async def test_steps_are_read_while_a_job_runs(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, time_limit_s=None))
    await lab.clock.pass_time(400)
    assert desk.job(job.id).attempts[0].steps_read_at is None, "it tells of none"
    container = lab.docker.only()
    container.files["1.json"] = b'{"steps": 40, "device": "gpu:0"}'
    await lab.clock.until(lambda: desk.job(job.id).attempts[0].steps == 40)
    first = desk.job(job.id).attempts[0]
    assert first.stepped_at == first.steps_read_at
    await lab.clock.until(lambda: desk.job(job.id).attempts[0].steps_read_at != first.steps_read_at)
    assert desk.job(job.id).attempts[0].stepped_at == first.stepped_at, "no step since"
    container.files["1.json"] = b'{"steps": 41, "device": "gpu:0"}'
    await lab.clock.until(lambda: desk.job(job.id).attempts[0].steps == 41)
    assert (desk.job(job.id).attempts[0].stepped_at or 0) > (first.stepped_at or 0)
