"""A lab's own past: jobs as a trace, hosts as a lab, and windows of both."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Member, Task
from gpuconsole.errors import UsageError
from gpuconsole.placement.learned.journal_trace import lab_of, trace_of
from gpuconsole.placement.learned.windows import HELD_OUT, LEAST_JOBS, history
from gpuconsole.placement.simulate.trace_readers import DAY, Trace, TraceJob

V100, A100 = "Tesla V100-SXM2-32GB", "A100-SXM4-80GB"
GIB = 1024.0


def ended(number: int, state: JobState = JobState.SUCCEEDED, uuid: str = "v0") -> Job:
    at = 1000.0 * number
    attempt = Attempt(
        1, "h", (uuid,), (0,), created_at=at, started_at=at + 100.0, ended_at=at + 700.0
    )
    return Job(f"j{number}", Task("t"), "ana", state, at, attempts=(attempt,), estimate_mib=5000.0)


def test_ended_jobs_are_a_trace_on_the_reference_device() -> None:
    models = {"v0": V100, "a0": A100}
    trace = trace_of([ended(2, uuid="a0"), ended(1), ended(3, uuid="gone")], models)
    assert [row.submitted_s for row in trace.jobs] == [1000.0, 2000.0, 3000.0]
    slow, fast, unknown = trace.jobs
    assert slow.run_time_s == pytest.approx(600.0)
    assert fast.run_time_s > 1.3 * slow.run_time_s
    assert unknown.run_time_s == 600.0
    assert (slow.user, slow.need_mib, slow.backends) == ("ana", 5000.0, ("gpu",))


def test_what_did_not_run_or_still_runs_is_no_past() -> None:
    never = replace(ended(1, JobState.CANCELLED), attempts=())
    begun = replace(ended(2).attempts[0], started_at=None)
    jobs = [
        never,
        replace(ended(2, JobState.FAILED), attempts=(begun,)),
        ended(3, JobState.RUNNING),
        ended(4, JobState.FAILED),
    ]
    assert [row.submitted_s for row in trace_of(jobs, {}).jobs] == [4000.0]


def test_a_gang_counts_all_its_devices() -> None:
    job = ended(1)
    member = Member("i", ("w0", "w1"), (0, 1), "c")
    gang = replace(job, attempts=(replace(job.attempts[0], members=(member,)),))
    assert trace_of([gang], {}).jobs[0].devices == 3


def test_hosts_are_a_lab_by_model() -> None:
    def card(uuid: str, model: str, memory: float) -> Device:
        return Device(uuid, 0, model, memory_total_mib=memory * GIB)

    mixed = Host(
        "mixed",
        HostState.UP,
        price_per_hour=3.0,
        devices=(card("a", V100, 32), card("b", A100, 80), card("c", V100, 32)),
    )
    lab = lab_of(FleetSnapshot(1, 0.0, (mixed, Host("down", HostState.DOWN))))
    assert [(h.name, h.model, h.devices, h.price_per_hour) for h in lab.hosts] == [
        ("mixed/1", V100, 2, 3.0),
        ("mixed/2", A100, 1, 3.0),
    ]
    assert lab.hosts[1].speed["language"] > lab.hosts[0].speed["language"]
    assert "down" in lab.assumptions[0]


def dice(name: str) -> random.Random:
    return random.Random(name)


def past(jobs: int, days: float) -> Trace:
    step = days * DAY / jobs
    return Trace("past", tuple(TraceJob(n * step, 900.0, 1 + n % 2) for n in range(jobs)))


def test_the_latest_days_are_held_out() -> None:
    lab = lab_of(
        FleetSnapshot(
            1,
            0.0,
            (
                Host(
                    "h",
                    HostState.UP,
                    devices=tuple(
                        Device(f"v{n}", n, V100, memory_total_mib=32 * GIB) for n in range(8)
                    ),
                ),
            ),
        )
    )
    found = history(past(600, 30.0), lab, dice)
    assert found.train
    assert found.held_out
    latest = max(job.submitted_s for window in found.held_out for job in window.jobs)
    assert latest <= 30.0 * HELD_OUT * DAY
    many = history(past(8_000, 30.0), lab, dice)
    assert all(len(window.jobs) < 2000 for window in (*many.train, *many.held_out))
    with pytest.raises(UsageError, match=f"{LEAST_JOBS} are the least"):
        history(past(LEAST_JOBS - 1, 30.0), lab, dice)
