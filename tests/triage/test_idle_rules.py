"""Jobs that hold devices and do nothing: found with proof, and never without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.config import Thresholds
from gpuconsole.core.fleet import Device, HostState
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.triage import actions_for
from tests.triage.labs import NOW, device, found, host, job, lab

RULES = {"idle-job", "no-steps"}
MINUTE = 60.0
SPINNING: dict[str, Any] = {"utilization": 100.0, "power_w": 80.0, "power_limit_w": 400.0}
WORKING: dict[str, Any] = {"utilization": 99.0, "power_w": 380.0, "power_limit_w": 400.0}


def reported(*devices: Device, jobs: tuple[Job, ...]) -> dict[str, Incident]:
    incidents = found(host(*devices), jobs=jobs)
    return {name: one for name, one in incidents.items() if name in RULES}


def stepping(made: Job, *, last: float, read: float = 30.0) -> Job:
    """Return a job whose reporter, read `read` s ago, reported steps, the last as old."""
    attempt = replace(made.attempts[0], steps=100, stepped_at=NOW - last, steps_read_at=NOW - read)
    return replace(made, attempts=(attempt,))


TRAIN = job("train", "GPU-a0")


@pytest.mark.parametrize(
    ("how", "made", "confidence"),
    [
        ({"utilization": 0.0}, TRAIN, "high"),
        ({"utilization": 0.0}, stepping(TRAIN, last=40 * MINUTE), "high"),
        (SPINNING, stepping(TRAIN, last=40 * MINUTE), "high"),
        # Small kernels one after another look like that: it is named, and no more.
        (SPINNING, TRAIN, "medium"),
    ],
)
def test_a_job_that_does_nothing_is_found(how: dict[str, Any], made: Job, confidence: str) -> None:
    incidents = reported(device(**how), jobs=(made,))
    assert set(incidents) == {"idle-job"}
    incident = incidents["idle-job"]
    assert incident.jobs == (made.id,)
    assert incident.confidence == confidence
    actions = actions_for(incident, host(device(**how)), [made])
    assert [one.kind for one in actions][:1] == ["cancel"]


@pytest.mark.parametrize(
    ("how", "made"),
    [
        (WORKING, TRAIN),
        ({"utilization": 30.0}, TRAIN),
        # It makes steps, whatever its device says.
        ({"utilization": 0.0}, stepping(TRAIN, last=2 * MINUTE)),
        (SPINNING, stepping(TRAIN, last=2 * MINUTE)),
        # It has reported steps, and could not be asked lately.
        ({"utilization": 0.0}, stepping(TRAIN, last=90 * MINUTE, read=60 * MINUTE)),
        # The device does not tell how much it is used, or what it draws.
        ({"utilization": None}, TRAIN),
        ({"utilization": 100.0, "power_w": None}, TRAIN),
        ({"utilization": 100.0, "power_w": 80.0, "power_limit_w": None}, TRAIN),
        ({"utilization": 0.0}, replace(TRAIN, state=JobState.LAUNCHING)),
        ({"utilization": 0.0}, replace(TRAIN, state=JobState.UNKNOWN)),
    ],
)
def test_nothing_is_said_without_proof(how: dict[str, Any], made: Job) -> None:
    assert reported(device(**how), jobs=(made,)) == {}


def test_a_job_on_several_devices_is_idle_only_as_a_whole() -> None:
    both = job("train", "GPU-a0", "GPU-a1")
    idle, busy = device(utilization=0.0), device(1, **WORKING)
    assert reported(idle, busy, jobs=(both,)) == {}
    incidents = reported(idle, device(1, utilization=0.0), jobs=(both,))
    assert set(incidents) == {"idle-job"}, "reported once, at its first device"
    assert reported(idle, jobs=(both,)) == {}, "of one device nothing is known"


def test_steps_that_stop_while_devices_work_are_told_without_a_verdict() -> None:
    limits = Thresholds()
    watch = lab(limits)
    watch.jobs = (stepping(TRAIN, last=20 * MINUTE),)
    watch.hold(host(device(**WORKING)), seconds=20)
    assert watch.opened == []
    late = stepping(TRAIN, last=40 * MINUTE)
    watch.jobs = (late,)
    watch.hold(host(device(**WORKING)), seconds=20)
    (incident,) = watch.opened
    assert (incident.rule, incident.confidence) == ("no-steps", "low")
    assert "it may evaluate" in incident.reason


def test_it_must_hold_for_half_an_hour_and_use_ends_it() -> None:
    watch = lab(Thresholds())
    watch.jobs = (TRAIN,)
    watch.hold(host(device()), seconds=25 * MINUTE, step=30)
    assert watch.opened == []
    watch.hold(host(device(**WORKING)), seconds=3 * MINUTE, step=30)
    watch.hold(host(device()), seconds=25 * MINUTE, step=30)
    assert watch.opened == [], "it had worked in between"
    watch.hold(host(device()), seconds=10 * MINUTE, step=30)
    assert [one.rule for one in watch.opened] == ["idle-job"]
    watch.hold(host(device(**WORKING)), seconds=5 * MINUTE, step=30)
    assert [one.rule for one in watch.closed] == ["idle-job"]


def test_a_host_out_of_sight_proves_nothing() -> None:
    watch = lab(Thresholds())
    watch.jobs = (TRAIN,)
    watch.hold(host(device()), seconds=20 * MINUTE, step=30)
    watch.hold(host(device(), state=HostState.DOWN), seconds=40 * MINUTE, step=30)
    assert "idle-job" not in [one.rule for one in watch.opened]
