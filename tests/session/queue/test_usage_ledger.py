"""Use, run times and waits as the journal tells them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, EndedBy, Job, JobState, Member, Task
from gpuconsole.core.services import SERVICE, Service
from gpuconsole.session.queue.usage_ledger import Ledger, worked_s

NOW = 1_800_000_000.0
HOUR = 3600.0
EMPTY = FleetSnapshot()


def tried(
    number: int,
    began: float,
    ended: float | None = None,
    uuids: tuple[str, ...] = ("GPU-0",),
    ended_by: EndedBy = "",
) -> Attempt:
    return Attempt(
        number,
        "a",
        uuids,
        tuple(range(len(uuids))),
        created_at=began,
        starting_at=began,
        started_at=began,
        ended_at=ended,
        ended_by=ended_by,
    )


def job(name: str, state: JobState, *attempts: Attempt, **task: object) -> Job:
    return Job(
        name,
        Task(str(task.pop("name", name)), "/p/train.py", **task),  # type: ignore[arg-type]
        str(task.pop("user", "ada")) if "user" in task else "ada",
        state,
        NOW - 10 * HOUR,
        attempts=attempts,
    )


def test_use_counts_from_the_lease_to_the_end_and_only_once() -> None:
    ledger = Ledger(LabSettings())
    first = job("1", JobState.RUNNING, tried(1, NOW, None, ("GPU-0", "GPU-1")), account="x")
    for _ in range(3):
        ledger.follow([first], EMPTY)
    assert ledger.use.devices("user", "ada") == ledger.use.devices("account", "x") == 2
    ended = replace(
        first, state=JobState.SUCCEEDED, attempts=(tried(1, NOW, NOW + HOUR, ("GPU-0", "GPU-1")),)
    )
    for changed in (ended, replace(ended, cause="told again")):
        ledger.follow([changed], EMPTY)
    assert ledger.use.devices("user", "ada") == 0
    assert ledger.use.device_hours("user", "ada", "month", NOW + HOUR) == pytest.approx(2.0)
    assert ledger.runs.count == 1


def test_what_never_started_was_no_use_and_its_number_comes_again() -> None:
    ledger = Ledger(LabSettings())
    unused = replace(tried(1, NOW, NOW + 60), starting_at=None, started_at=None)
    ledger.follow([job("1", JobState.QUEUED, unused)], EMPTY)
    assert ledger.use.device_hours("user", "ada", "month", NOW + 60) == 0.0
    again = job("1", JobState.SUCCEEDED, tried(1, NOW + 100, NOW + 100 + HOUR))
    ledger.follow([again], EMPTY)
    assert ledger.use.device_hours("user", "ada", "month", NOW + 2 * HOUR) == pytest.approx(1.0)


def test_an_old_journal_is_taken_in_in_the_order_of_time() -> None:
    ended = [
        job(str(n), JobState.SUCCEEDED, tried(1, NOW - n * HOUR, NOW - n * HOUR + 60.0 * (n + 1)))
        for n in range(5)
    ]
    forwards, backwards = Ledger(LabSettings()), Ledger(LabSettings())
    forwards.follow(ended, EMPTY)
    backwards.follow(list(reversed(ended)), EMPTY)
    asked = job("q", JobState.QUEUED)
    assert forwards.prediction(asked, 1) == backwards.prediction(asked, 1)
    assert forwards.use.device_hours("user", "ada", "month", NOW) == pytest.approx(
        backwards.use.device_hours("user", "ada", "month", NOW)
    )


def test_run_times_come_from_runs_that_ended_well() -> None:
    ledger = Ledger(LabSettings())
    failed = job("1", JobState.FAILED, tried(1, NOW, NOW + 10))
    ledger.follow([failed], EMPTY)
    assert ledger.run_time_s(job("q", JobState.QUEUED), 1) is None
    ledger.follow([job("2", JobState.SUCCEEDED, tried(1, NOW, NOW + HOUR))], EMPTY)
    assert ledger.run_time_s(job("q", JobState.QUEUED), 1) == pytest.approx(HOUR)
    said = job("s", JobState.QUEUED, run_time_s=77.0)
    assert ledger.run_time_s(said, 1) == 77.0


def test_no_end_is_expected_of_a_service_and_its_runs_say_nothing_about_others() -> None:
    ledger = Ledger(LabSettings())
    served = {"kind": SERVICE, "service": Service(8040)}
    ended = [job(str(n), JobState.SUCCEEDED, tried(1, NOW, NOW + HOUR), **served) for n in range(4)]
    ledger.follow(ended, EMPTY)
    assert ledger.prediction(job("q", JobState.QUEUED), 1) is None
    ledger.follow([job("t", JobState.SUCCEEDED, tried(1, NOW, NOW + HOUR))], EMPTY)
    assert ledger.prediction(job("q", JobState.QUEUED), 1) is not None
    assert ledger.prediction(job("s", JobState.QUEUED, **served), 1) is None
    assert ledger.run_time_s(job("s", JobState.QUEUED, **served), 1) is None


def test_an_end_is_expected_by_the_runs_before_and_moves_when_it_is_passed() -> None:
    ledger = Ledger(LabSettings())
    past = [job(str(n), JobState.SUCCEEDED, tried(1, NOW, NOW + HOUR)) for n in range(4)]
    ledger.follow(past, EMPTY)
    attempt = tried(1, NOW)
    running = job("r", JobState.RUNNING, attempt)
    ledger.follow([*past, running], EMPTY)
    assert ledger.ends_at(running, attempt, NOW) == pytest.approx(NOW + HOUR)
    late = NOW + 3 * HOUR
    overdue = ledger.ends_at(running, attempt, late)
    assert overdue is not None
    assert overdue > late
    assert ledger.use.next_end("user", "ada", 1) == overdue


def test_a_job_that_resumes_has_worked_for_all_its_attempts() -> None:
    first = tried(1, NOW, NOW + HOUR, ended_by="preempted")
    second = tried(2, NOW + 2 * HOUR, NOW + 2 * HOUR + 60)
    resumed = job("1", JobState.SUCCEEDED, first, second, checkpoint_dir="ckpt")
    assert worked_s(resumed) == HOUR + 60
    from_the_start = replace(resumed, task=replace(resumed.task, checkpoint_dir=""))
    assert worked_s(from_the_start) == 60
    waiting = replace(resumed, state=JobState.QUEUED, attempts=(first,))
    assert worked_s(waiting) == HOUR
    assert worked_s(replace(waiting, task=from_the_start.task)) == 0


def test_the_usual_wait_is_told_from_five_starts_on() -> None:
    ledger = Ledger(LabSettings())
    done = [
        replace(job(str(n), JobState.SUCCEEDED, tried(1, NOW + n * 60, NOW + HOUR)), queued_at=NOW)
        for n in range(5)
    ]
    ledger.follow(done[:4], EMPTY)
    assert ledger.usual_wait() is None
    ledger.follow(done, EMPTY)
    assert ledger.usual_wait() == (120.0, 5)


def test_utilisation_is_measured_while_a_job_has_the_device_to_itself() -> None:
    ledger = Ledger(LabSettings())
    attempt = tried(1, NOW)
    running = job("r", JobState.RUNNING, attempt)

    def seen(busy: float) -> FleetSnapshot:
        device = Device("GPU-0", 0, "A100", utilization=busy)
        return FleetSnapshot(1, NOW, (Host("a", HostState.UP, devices=(device,)),))

    for _ in range(30):
        ledger.follow([running], seen(20.0))
    assert ledger.utilization(running) is None
    for _ in range(30):
        ledger.follow([running], seen(40.0))
    assert ledger.utilization(running) == pytest.approx(30.0)
    ended = replace(running, state=JobState.SUCCEEDED, attempts=(tried(1, NOW, NOW + HOUR),))
    ledger.follow([ended], EMPTY)
    assert ledger.utilization(job("next", JobState.QUEUED)) == pytest.approx(30.0)


def test_a_gang_counts_on_each_of_its_hosts() -> None:
    ledger = Ledger(LabSettings())
    gang = replace(tried(1, NOW), members=(Member("b", ("GPU-7", "GPU-8"), (0, 1), "c"),))
    ledger.follow([job("1", JobState.RUNNING, gang)], EMPTY)
    assert ledger.use.devices("user", "ada") == 3
    assert ledger.use.device_hours("user", "ada", "month", NOW + HOUR) == pytest.approx(3.0)


def test_utilisation_seen_before_this_console_was_opened_counts_for_its_like() -> None:
    ledger = Ledger(LabSettings())
    seen = Observation("old", 1, NOW, "ok", "d", "/p/train.py", ("--a",), utilization=35.0)
    ledger.remember([seen])
    alike = job("q", JobState.QUEUED, args=("--a",))
    assert ledger.utilization(alike) == 35.0
    assert ledger.utilization(job("q", JobState.QUEUED)) == 35.0
    other = replace(alike, task=replace(alike.task, script="/p/other.py"))
    assert ledger.utilization(other) is None


def test_no_run_is_expected_to_outlast_its_time_limit() -> None:
    lab = Ledger(LabSettings.model_validate({"limits": {"time_limit": 2 * HOUR}}))
    free = Ledger(LabSettings())
    says = job("1", JobState.QUEUED, run_time_s=5 * HOUR)
    assert (lab.run_time_s(says, 1), free.run_time_s(says, 1)) == (2 * HOUR, 5 * HOUR)
    plain = job("2", JobState.QUEUED)
    assert lab.run_time_s(plain, 1) is None, "the lab's limit says nothing of a job's length"
    own = job("3", JobState.QUEUED, time_limit_s=HOUR)
    assert (lab.run_time_s(own, 1), free.run_time_s(own, 1)) == (HOUR, HOUR)
    running = replace(says, state=JobState.RUNNING, attempts=(tried(1, NOW - HOUR, None),))
    assert lab.ends_at(running, running.attempts[0], NOW) == NOW + HOUR
    assert lab.limit_left_s(running, NOW) == HOUR
    assert free.limit_left_s(running, NOW) is None


def test_a_job_that_reached_its_time_limit_goes_on_from_its_checkpoint_when_retried() -> None:
    first = tried(1, NOW - 3 * HOUR, NOW - HOUR, ended_by="time-limit")
    again = job("1", JobState.QUEUED, first, checkpoint_dir="ckpt")
    assert worked_s(again) == 2 * HOUR
