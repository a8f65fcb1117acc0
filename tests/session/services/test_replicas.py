"""Which replicas a service lacks and which leave, decided from its jobs."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.services import SERVICE, Replica, Service
from gpuconsole.session.services.replicas import changes_of, services


def replica(
    number: int,
    *,
    host: str = "a",
    state: JobState = JobState.RUNNING,
    healthy: bool = True,
    wanted: int = 2,
    scaled_at: float = 0.0,
) -> Job:
    task = Task(
        f"ocr[{number}]",
        sweep="ocr",
        kind=SERVICE,
        service=Service(8040, replicas=wanted, scaled_at=scaled_at),
    )
    attempt = Attempt(1, host, container_name=f"c{number}")
    known = Replica(f"c{number}", "healthy" if healthy else "starting")
    return Job(f"job{number}", task, "ada", state, 1.0, attempts=(attempt,), replica=known)


def calm(host: str) -> str:
    return ""


def drained(host: str) -> str:
    return "a is drained" if host == "a" else ""


def left(jobs: list[Job], why: object = calm) -> list[str]:
    return [job.id for job, _ in changes_of(jobs, why).leave]  # type: ignore[arg-type]


def test_as_many_as_wanted_need_nothing() -> None:
    assert changes_of([replica(1), replica(2)], calm).add == 0
    assert left([replica(1), replica(2)]) == []


def test_a_drained_host_is_replaced_first_and_left_once_the_others_are_healthy() -> None:
    jobs = [replica(1), replica(2, host="b")]
    assert changes_of(jobs, drained).add == 1
    assert left(jobs, drained) == []
    starting = replica(3, host="b", healthy=False)
    assert changes_of([*jobs, starting], drained).add == 0
    assert left([*jobs, starting], drained) == []
    assert left([*jobs, replica(3, host="b")], drained) == ["job1"]


def test_two_on_a_drained_host_leave_one_after_the_other() -> None:
    jobs = [replica(1), replica(2), replica(3, host="b"), replica(4, host="b", healthy=False)]
    assert left(jobs, drained) == ["job1"]
    jobs[0] = replace(jobs[0], replica=Replica("c1", "healthy", leaving_at=5.0))
    assert left(jobs, drained) == []
    jobs[3] = replica(4, host="b")
    assert left(jobs, drained) == ["job2"]


def test_a_host_that_is_drained_no_more_keeps_its_replica() -> None:
    waiting = replica(3, state=JobState.QUEUED, healthy=False)
    assert left([replica(1), replica(2), waiting]) == ["job3"]


def test_fewer_are_wanted_as_was_said_last() -> None:
    jobs = [replica(1, wanted=1, scaled_at=9.0), replica(2, wanted=1, scaled_at=9.0)]
    assert left(jobs) == ["job2"]
    # One that was added meanwhile has the number of before.
    assert left([*jobs, replica(3, wanted=3, healthy=False)]) == ["job3", "job2"]


def test_the_youngest_goes_by_its_number_also_among_those_of_one_moment() -> None:
    ids = {1: "job7", 2: "job9", 10: "job8"}
    jobs = [replace(replica(number, wanted=1), id=ids[number]) for number in ids]
    assert left(jobs) == ["job8", "job9"]


def test_one_that_ended_for_good_is_not_begun_again_and_the_others_still_move() -> None:
    jobs = [replica(1), replica(2, state=JobState.FAILED)]
    assert changes_of(jobs, calm).add == 0
    assert changes_of(jobs, drained).add == 1
    assert left([*jobs, replica(3, host="b")], drained) == ["job1"]


def test_one_that_was_cancelled_alone_is_replaced_and_all_of_them_are_an_end() -> None:
    gone = replica(2, state=JobState.CANCELLED)
    assert changes_of([replica(1), gone], calm).add == 1
    asked = replace(replica(1), cancel_requested=True)
    assert changes_of([asked, gone], calm).add == 0


def test_services_are_told_apart_by_user_and_name() -> None:
    other = replace(replica(1), user="bob")
    plain = Job("j", Task("ocr", sweep="ocr"), "ada", JobState.QUEUED, 1.0)
    assert {key: len(jobs) for key, jobs in services([replica(1), other, plain]).items()} == {
        ("ada", "ocr"): 1,
        ("bob", "ocr"): 1,
    }
