"""What the live queue knows of people, lengths and rules, from settings and the journal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.placement import Holder
from gpuconsole.session.queue.placement_adapter import Placer, Standing
from gpuconsole.session.queue.planner import Situation
from gpuconsole.yamldoc import parse
from tests.session.queue.test_placement_adapter import FLEET, NOW, job, running

HOUR = 3600.0


def standing(jobs: list[Job], settings: LabSettings | None = None) -> Standing:
    return Placer(settings or LabSettings()).standing(Situation(jobs, FLEET, NOW))


def done(name: str, seconds: float, user: str = "ada") -> Job:
    finished = running(name, "GPU-0")
    attempt = replace(
        finished.attempts[0],
        created_at=NOW - 2 * HOUR,
        starting_at=NOW - 2 * HOUR,
        started_at=NOW - 2 * HOUR,
        ended_at=NOW - 2 * HOUR + seconds,
    )
    return replace(finished, state=JobState.SUCCEEDED, user=user, attempts=(attempt,))


def holder(found: Standing, uuid: str) -> Holder:
    return found.holders[uuid]


def test_requests_know_user_length_and_deadline() -> None:
    past = [done(f"p{number}", HOUR) for number in range(3)]
    found = standing([*past, job("q", deadline="2027-01-15T10:00:00.000Z", account="grant")])
    (request,) = found.requests
    assert request.user == "ada"
    assert request.run_time_s == pytest.approx(HOUR)
    assert request.deadline == NOW + 2 * HOUR
    assert request.task.account == "grant"


def test_holders_know_need_end_priority_and_whether_they_resume() -> None:
    past = [done(f"p{number}", HOUR) for number in range(3)]
    held = running("r", "GPU-1", priority=3, account="grant", share=True, checkpoint_dir="ckpt")
    found = holder(standing([*past, held]), "GPU-1")
    assert (found.need_mib, found.priority, found.account) == (1000.0, 3, "grant")
    assert found.share
    assert found.resumable
    # A minute of the hour is over; that it has lasted so long already changes little.
    assert found.ends_at == pytest.approx(NOW + HOUR - 60, rel=1e-6)
    assert holder(standing([running("r", "GPU-1")]), "GPU-1").ends_at is None
    assert holder(standing([running("r", "GPU-1", run_time_s=90.0)]), "GPU-1").ends_at == NOW + 30


def settings(text: str) -> LabSettings:
    return parse(text, "config.yaml", LabSettings)


def why(jobs: list[Job], lab: LabSettings, waiting: str) -> str:
    plan = Placer(lab).plan(Situation(jobs, FLEET, NOW))
    assert waiting not in {choice.job for choice in plan.choices}
    return plan.waiting[waiting].reason


def test_a_quota_holds_a_job_back_and_says_so() -> None:
    lab = settings("quotas: [{user: '*', devices: 1}]")
    reported = why([running("r", "GPU-0"), job("q")], lab, "q")
    assert "User ada may have 1 device at once and holds 1" in reported
    assert Placer(lab).plan(Situation([job("q")], FLEET, NOW)).choices
    # Of two that wait the second is held back by the first, which starts now.
    both = Placer(lab).plan(Situation([job("x"), job("y")], FLEET, NOW))
    assert len(both.choices) == 1


def test_a_reserved_window_keeps_its_host() -> None:
    lab = settings(
        """
windows:
  - name: course
    begins: 2027-01-15T07:00Z
    ends: 2027-01-15T12:00Z
    hosts: [a]
    users: [tea]
"""
    )
    reported = why([job("q")], lab, "q")
    assert "Kept for tea (course)" in reported
    mine = replace(job("q"), user="tea")
    assert Placer(lab).plan(Situation([mine], FLEET, NOW)).choices


def test_devices_per_host() -> None:
    lab = settings("max_devices_per_host: 1")
    reported = why([running("r", "GPU-0"), job("q")], lab, "q")
    assert "One user may have 1 device on one host; ada holds 1 on a." in reported


def test_whoever_had_less_of_the_lab_goes_first() -> None:
    """One device is free; both ask for the same, ada first, who has had all of it until now."""
    past = [done(f"p{number}", HOUR) for number in range(3)]
    queue = [
        *past,
        running("r", "GPU-0"),
        replace(job("of-ada"), submitted_at=NOW - 20),
        replace(job("of-bob"), user="bob", submitted_at=NOW - 10),
    ]
    fair = Placer(LabSettings(fair_share=1.0)).plan(Situation(queue, FLEET, NOW))
    assert [choice.job for choice in fair.choices] == ["of-bob"]


def test_the_journal_is_looked_through_once() -> None:
    placer = Placer(LabSettings())
    jobs = [*(done(f"p{number}", HOUR) for number in range(50)), job("q")]
    placer.plan(Situation(jobs, FLEET, NOW))
    count = placer._ledger.runs.count
    for _ in range(3):
        placer.plan(Situation(jobs, FLEET, NOW))
    placer.plan(Situation([*jobs, done("new", HOUR)], FLEET, NOW))
    assert placer._ledger.runs.count == count + 1 == 51


def test_a_job_of_unknown_length_is_not_held_back_by_a_long_one_before_a_window() -> None:
    lab = settings(
        """
windows:
  - {name: course, begins: 2027-01-15T12:00Z, ends: 2027-01-15T13:00Z, users: [tea]}
"""
    )
    queue = [job("long", run_time_s=24 * HOUR), job("unknown")]
    found = Placer(lab).plan(Situation(queue, FLEET, NOW))
    assert [choice.job for choice in found.choices] == ["unknown"]
    assert "would not be done" in found.waiting["long"].reason


def test_a_window_is_free_when_it_begins_and_keeps_nobody_past_its_end() -> None:
    """Jobs of half an hour keep coming from two hours before a window until after it."""
    lab = settings(
        """
windows:
  - {name: course, begins: 2027-01-15T10:00Z, ends: 2027-01-15T12:00Z, hosts: [a], users: [tea]}
"""
    )
    begins, ends, length, tick = NOW + 2 * HOUR, NOW + 4 * HOUR, HOUR / 2, 600.0
    waiting: list[Job] = []
    ran: dict[str, Job] = {}
    for number in range(int(12 * HOUR / tick)):
        now = NOW + number * tick
        if now <= ends:
            arrived = replace(
                job(f"b{number}", run_time_s=length), user="bo", submitted_at=now, queued_at=now
            )
            waiting.append(arrived)
        if now == begins:
            waiting += [replace(job(f"t{n}", run_time_s=length), user="tea") for n in range(2)]
        held = [one for one in ran.values() if one.state is JobState.RUNNING]
        for one in held:
            attempt = one.attempts[0]
            if now >= attempt.created_at + length:
                over = replace(attempt, ended_at=attempt.created_at + length)
                ran[one.id] = replace(one, state=JobState.SUCCEEDED, attempts=(over,))
        plan = Placer(lab).plan(Situation([*ran.values(), *waiting], FLEET, now))
        for choice in plan.choices:
            one = next(one for one in waiting if one.id == choice.job)
            waiting.remove(one)
            began = replace(
                running(one.id, choice.device_uuids[0]).attempts[0],
                host=choice.host, created_at=now, starting_at=now, started_at=now,
            )  # fmt: skip
            ran[one.id] = replace(one, state=JobState.RUNNING, attempts=(began,))

    def begun(user: str) -> list[float]:
        return [one.attempts[0].created_at for one in ran.values() if one.user == user]

    assert begun("tea") == [begins] * 2
    assert not waiting
    outside = begun("bo")
    # Until the last moment at which a job is done before the window, and again from its end on.
    assert begins - length in outside
    assert not [at for at in outside if begins - length < at < ends]
    assert ends in outside
