"""A restored journal learns from hosts what ran since its backup; nothing is started twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.containers import ContainerStatus, Lease
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.jobs import ADOPTED, Attempt, Job, JobState, Task
from gpuconsole.errors import RefusedError
from gpuconsole.session.dispatch.attempt.container_spec import container_name, labels_of
from gpuconsole.session.factory import NoHosts
from gpuconsole.session.queue.commands import retry
from gpuconsole.session.restore.jobs_from_containers import (
    FOUND,
    Found,
    adopted,
    found_on,
    started_unseen,
)
from gpuconsole.session.results import list_results
from gpuconsole.state.backup.backups import make_backup, restore
from gpuconsole.state.backup.restoration import HELD
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import START

R = JobState.RUNNING


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = make_lab(tmp_path / "state", ("a", "b"))
    yield made
    await made.close()


def backup(lab: Lab) -> None:
    make_backup(lab.state, lab.clock.now())


async def restored(lab: Lab, desk: Desk, *, empty: bool = False) -> Desk:
    """End a console, lose its journal, restore it, and open another console on it."""
    await desk.stop()
    journal = desk.journal.id
    desk.journal.close()
    lab.desks.remove(desk)
    for path in lab.state.glob("journal.sqlite*"):
        path.unlink()
    restore(lab.state, None, lab.clock.now(), journal=journal if empty else "")
    return lab.desk()


def starts(lab: Lab) -> int:
    return sum(docker.starts for docker in lab.dockers.values())


async def test_jobs_of_the_backup_are_adopted_and_end(lab: Lab) -> None:
    desk = lab.desk()
    first, second, third = (lab.submit(desk) for _ in range(3))
    desk.start()
    await lab.clock.until(lambda: [desk.job(one).state for one in (first, second)] == [R, R])
    backup(lab)
    heir = await restored(lab, desk)
    heir.start()
    await lab.clock.pass_time(30)
    assert [heir.job(one).state for one in (first, second, third)] == [R, R, "queued"]
    assert starts(lab) == 2
    lab.dockers["a"].finish(0)
    await lab.clock.until(lambda: heir.job(third).state is R)
    lab.dockers["a"].finish(0)
    lab.dockers["b"].finish(0)
    await lab.clock.until(lambda: all(job.state.ended for job in heir.journal.jobs()))
    assert starts(lab) == 3
    assert heir.journal.restoration() is None


async def test_what_was_started_since_the_backup_is_not_started_again(lab: Lab) -> None:
    desk = lab.desk()
    waiting = lab.submit(desk)
    backup(lab)
    desk.start()
    await lab.clock.until(lambda: desk.job(waiting).state is R)
    former = desk.job(waiting).attempt
    assert former is not None
    # Not in the backup at all.
    late = lab.submit(desk, "late")
    await lab.clock.until(lambda: desk.job(late).state is R)
    heir = await restored(lab, desk)
    assert [job.id for job in heir.journal.jobs()] == [waiting]
    assert heir.job(waiting).state is JobState.HELD
    heir.start()
    await lab.clock.until(lambda: heir.journal.restoration() is None)
    await lab.clock.pass_time(30)
    assert starts(lab) == 2
    again = heir.job(waiting).attempt
    assert again is not None
    assert (again.container_name, again.number) == (former.container_name, 1)
    assert (again.host, again.device_uuids) == (former.host, former.device_uuids)
    assert [heir.job(one).state for one in (waiting, late)] == [R, R]
    found = heir.job(late)
    assert (found.task.kind, found.task.name, found.user) == (ADOPTED, "late", "ada")
    # Both end as any job does, with their logs and their devices given back.
    for docker in lab.dockers.values():
        docker.finish(0, b"done\n")
    await lab.clock.until(lambda: all(job.state.ended for job in heir.journal.jobs()))
    assert [job.state for job in heir.journal.jobs()] == ["succeeded", "succeeded"]
    await lab.clock.until(lambda: not any(docker.containers for docker in lab.dockers.values()))
    assert not any(docker.leases for docker in lab.dockers.values())
    assert heir.dispatcher.active
    with pytest.raises(RefusedError, match="task is not known"):
        retry(heir.journal, heir.job(late), Path("/"), lab.clock.now())


async def test_what_ended_and_is_gone_is_known_by_its_log(lab: Lab) -> None:
    desk = lab.desk()
    waiting = lab.submit(desk)
    backup(lab)
    desk.start()
    await lab.clock.until(lambda: desk.job(waiting).state is R)
    lab.dockers["a"].finish(0, b"done\n")
    await lab.clock.until(lambda: not lab.dockers["a"].containers)
    heir = await restored(lab, desk)
    heir.start()
    await lab.clock.until(lambda: heir.journal.restoration() is None)
    await lab.clock.pass_time(30)
    job = heir.job(waiting)
    assert (job.state, starts(lab)) == (JobState.FAILED, 1)
    assert "how it ended is not known" in job.cause
    # A person decides that it runs again; its number is a new one.
    (lab.state / "bundles").mkdir(exist_ok=True)
    retry(heir.journal, job, heir.context.bundle(waiting), lab.clock.now())
    await lab.clock.until(lambda: heir.job(waiting).state is R)
    attempt = heir.job(waiting).attempt
    assert attempt is not None
    assert attempt.number == 2


async def test_nothing_old_starts_before_every_host_was_asked(lab: Lab) -> None:
    desk = lab.desk()
    waiting = lab.submit(desk)
    backup(lab)
    lab.dockers["a"].reachable = False
    desk.start()
    await lab.clock.until(lambda: desk.job(waiting).state is R)
    (container,) = lab.dockers["b"].containers.values()
    assert container.state == "running"
    await desk.stop()
    # Now the host on which it runs is the one that cannot be asked.
    lab.dockers["a"].reachable, lab.dockers["b"].reachable = True, False
    heir = await restored(lab, desk)
    heir.start()
    await lab.clock.pass_time(120)
    job = heir.job(waiting)
    assert (job.state, starts(lab)) == (JobState.HELD, 1)
    assert "gpuconsole journal adopt" in job.cause
    # What is submitted now is not in doubt.
    fresh = lab.submit(heir)
    await lab.clock.until(lambda: heir.job(fresh).state is R)
    lab.dockers["b"].reachable = True
    await lab.clock.until(lambda: heir.job(waiting).state is R)
    assert heir.journal.restoration() is None
    assert starts(lab) == 2


async def test_an_empty_journal_adopts_all_that_runs(lab: Lab) -> None:
    desk = lab.desk()
    names = [lab.submit(desk, name) for name in ("one", "two")]
    desk.start()
    await lab.clock.until(lambda: [desk.job(one).state for one in names] == [R, R])
    heir = await restored(lab, desk, empty=True)
    heir.start()
    await lab.clock.until(lambda: len(heir.journal.jobs()) == 2)
    # Hosts are asked at once: which answers first is by chance.
    adopted = sorted((job.task.name, job.state) for job in heir.journal.jobs())
    assert adopted == [("one", R), ("two", R)]
    for docker in lab.dockers.values():
        docker.finish(0)
    await lab.clock.until(lambda: all(job.state.ended for job in heir.journal.jobs()))
    assert starts(lab) == 2


async def test_an_engine_that_does_not_answer_is_asked_again(lab: Lab) -> None:
    desk = lab.desk()
    waiting = lab.submit(desk)
    backup(lab)
    heir = await restored(lab, desk)
    lab.dockers["b"].silent_at = None
    heir.start()
    await lab.clock.pass_time(30)
    assert heir.job(waiting).state is JobState.HELD
    lab.dockers["b"].silent_at = frozenset()
    await lab.clock.until(lambda: heir.job(waiting).state is R)


# -- what containers tell --------------------------------------------------------------------------


def a_job(state: JobState = JobState.QUEUED, *attempts: Attempt) -> Job:
    return Job("job1", Task("train", script="/p/t.py"), "ada", state, START, attempts=attempts)


def status(
    number: int = 1, nonce: str = "aa", rank: int = 0, state: str = "running", **changed: str
) -> ContainerStatus:
    attempt = Attempt(number, "h", container_name=container_name("job1", number, nonce, rank))
    labels = {**labels_of(a_job(), attempt, "j"), "gpuconsole.devices": "G1"} | changed
    return ContainerStatus(
        f"id-{number}-{rank}", attempt.container_name, state, labels, created_at=START + number
    )


def host(name: str = "h") -> Host:
    return Host(name, HostState.UP, devices=(Device("G1", 3, "A100"),))


def found(*statuses: ContainerStatus, on: str = "h") -> list[Found]:
    return found_on(host(on), statuses, ())


def test_a_container_tells_its_attempt() -> None:
    (one,) = found(status(2))
    assert (one.job, one.number, one.rank, one.nonce) == ("job1", 2, 0, "aa")
    assert (one.uuids, one.indexes, one.backend) == (("G1",), (3,), "gpu")
    (bare,) = found_on(
        host(),
        [replace(status(2), labels={**status(2).labels, "gpuconsole.devices": ""})],
        [
            Lease("G1", "job1", "job1-2", "ada", "j", START),
            Lease("G2", "x", "x-1", "ada", "j", 1.0),
        ],
    )
    assert bare.uuids == ("G1",)


@pytest.mark.parametrize(
    "changed",
    [
        {"gpuconsole.job": "job2"},
        {"gpuconsole.attempt": "job1-9"},
        {"gpuconsole.nonce": "bb"},
        {"gpuconsole.job": ""},
    ],
)
def test_one_that_contradicts_itself_tells_nothing(changed: dict[str, str]) -> None:
    assert found(status(**changed)) == []


@pytest.mark.parametrize("name", ["x", "gpuconsole-lease-GPU", "gpuconsole-a/b-1-aa", ""])
def test_nor_does_one_of_another_name(name: str) -> None:
    assert found(replace(status(), name=name)) == []


def test_what_the_journal_knows_is_no_news() -> None:
    known = Attempt(1, "h", container_name=container_name("job1", 1, "aa"))
    assert adopted(a_job(R, known), found(status()), START) is None


def test_a_job_that_is_held_goes_on_with_the_attempt_that_the_journal_knows() -> None:
    known = Attempt(1, "h", container_name=container_name("job1", 1, "aa"))
    job = replace(a_job(JobState.HELD, known), cause=HELD)
    (one, same) = (adopted(job, found(status(state=state)), START) for state in ("created", "dead"))
    assert one is not None
    assert same is not None
    assert (one.state, same.state) == (JobState.LAUNCHING, R)
    assert one.attempts == same.attempts == (known,)
    # A person has held this one.
    assert adopted(replace(job, cause=""), found(status()), START) is None


def test_an_older_attempt_that_is_found_changes_nothing_else() -> None:
    known = Attempt(2, "h", container_name=container_name("job1", 2, "bb"), starting_at=1.0)
    ended = a_job(JobState.SUCCEEDED, replace(known, ended_at=2.0))
    job = adopted(ended, found(status(1, state="exited")), START)
    assert job is not None
    assert (job.state, [one.number for one in job.attempts]) == (JobState.SUCCEEDED, [1, 2])


def test_a_later_attempt_ends_the_one_before() -> None:
    known = Attempt(1, "g", container_name=container_name("job1", 1, "bb"), starting_at=1.0)
    job = adopted(a_job(JobState.FAILED, known), found(status(2)), START)
    assert job is not None
    assert (job.state, [one.number for one in job.attempts]) == (R, [1, 2])
    assert job.attempts[0].ended_at == START
    assert job.attempts[1].placement_reasons == (FOUND,)


def test_the_number_of_an_attempt_that_never_began_was_used_again() -> None:
    known = Attempt(1, "g", container_name=container_name("job1", 1, "bb"))
    job = adopted(a_job(JobState.LAUNCHING, known), found(status(1)), START)
    assert job is not None
    assert [one.container_name for one in job.attempts] == [container_name("job1", 1, "aa")]
    begun = replace(known, starting_at=1.0)
    assert adopted(a_job(R, begun), found(status(1)), START) is None


def test_the_parts_of_a_gang_come_together_also_later() -> None:
    zero, one, two = (found(status(rank=rank), on=f"h{rank}") for rank in range(3))
    job = adopted(a_job(), [*two, *zero], START)
    assert job is not None
    attempt = job.attempts[0]
    assert (attempt.host, [member.host for member in attempt.members]) == ("h0", ["h2"])
    job = adopted(job, [*zero, *one, *two], START)
    assert job is not None
    assert {part.host for part in job.attempts[0].parts} == {"h0", "h1", "h2"}


def test_one_that_waits_is_launched_or_named_where_its_task_is_not_known() -> None:
    job = adopted(a_job(), found(status(state="created")), START)
    assert job is not None
    assert (job.state, job.attempts[0].starting_at) == (JobState.LAUNCHING, None)
    unknown = adopted(None, found(status(state="created")), START)
    assert unknown is not None
    assert unknown.state is JobState.FAILED
    assert "submit it again" in unknown.cause


def test_hostile_labels_are_cleaned() -> None:
    evil = {"gpuconsole.name": "\x1b[31mred\n" * 500, "gpuconsole.user": "\x1b]0;x\x07"}
    job = adopted(None, found(status(**evil)), START)
    assert job is not None
    assert "\x1b" not in job.task.name + job.user
    assert len(job.task.name) <= 128


async def test_a_log_tells_of_an_attempt_that_is_on_no_host() -> None:
    assert started_unseen(a_job(), [], START) is None
    known = Attempt(1, "h", container_name="x", starting_at=1.0, ended_at=2.0)
    assert started_unseen(a_job(JobState.QUEUED, known), [1], START) is None
    job = started_unseen(a_job(JobState.QUEUED, known), [1, 2], START)
    assert job is not None
    assert (job.state, [one.number for one in job.attempts]) == (JobState.FAILED, [1, 2])
    with pytest.raises(RefusedError, match="host is not known"):
        await list_results(NoHosts(), job)
