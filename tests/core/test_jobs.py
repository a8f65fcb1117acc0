"""Job states: which moves are legal, and what a job tells of itself."""

from __future__ import annotations

import itertools
import json

import pytest

from gpuconsole.core.jobs import ENDED, Attempt, Job, JobState, Member, Task, may_move
from gpuconsole.core.services import Replica, Service


def test_an_end_is_left_only_by_a_retry() -> None:
    for end, state in itertools.product(ENDED, JobState):
        assert may_move(end, state) == (state is JobState.QUEUED)


def test_nothing_runs_that_was_not_launched() -> None:
    for state in (JobState.HELD, JobState.QUEUED, *ENDED):
        assert not may_move(state, JobState.RUNNING)


def test_a_host_out_of_sight_may_come_back_with_any_news() -> None:
    for state in (JobState.RUNNING, JobState.LAUNCHING, *ENDED):
        assert may_move(JobState.UNKNOWN, state)
    assert not may_move(JobState.UNKNOWN, JobState.HELD)


def test_only_active_jobs_hold_devices_and_only_ends_are_ends() -> None:
    active = {state for state in JobState if state.active}
    assert active == {JobState.LAUNCHING, JobState.RUNNING, JobState.UNKNOWN}
    assert {state for state in JobState if state.ended} == ENDED
    assert not active & ENDED


@pytest.mark.parametrize("state", [state for state in JobState if not state.ended])
def test_every_open_job_can_be_cancelled(state: JobState) -> None:
    assert may_move(state, JobState.CANCELLED)


def test_a_job_as_json_follows_its_latest_attempt() -> None:
    attempts = (
        Attempt(1, "a", ("u0",), started_at=5.0, ended_at=6.0, exit_code=1, cause="lost"),
        Attempt(2, "b", ("u1", "u2"), started_at=7.0, ended_at=9.0, exit_code=0, peak_mib=12.5),
    )
    job = Job("j1", Task("t", script="/p/t.py"), "eve", JobState.SUCCEEDED, 1.0, attempts=attempts)
    document = job.as_json()
    assert json.loads(json.dumps(document)) == document
    assert (document["host"], document["devices"], document["attempt"]) == ("b", ["u1", "u2"], 2)
    assert (document["state"], document["exit_code"], document["cause"]) == ("succeeded", 0, None)
    assert document["started_at"] == "1970-01-01T00:00:07.000Z"
    assert document["ended_at"] == "1970-01-01T00:00:09.000Z"


SERVICE = Service(8040, 3)


@pytest.mark.parametrize(
    ("replica", "state", "expected"),
    [
        (None, JobState.RUNNING,
         {"health": "starting", "since": None, "last_check": None, "restarts": 0,
          "restart_at": None, "draining": False}),
        (Replica("c", "unhealthy", 5.0, "no answer", restarts=2, restart_at=9.0), JobState.RUNNING,
         {"health": "unhealthy", "since": "1970-01-01T00:00:05.000Z", "last_check": "no answer",
          "restarts": 2, "restart_at": "1970-01-01T00:00:09.000Z", "draining": False}),
        (Replica("c", "healthy", 5.0, leaving_at=6.0), JobState.RUNNING,
         {"health": "healthy", "since": "1970-01-01T00:00:05.000Z", "last_check": None,
          "restarts": 0, "restart_at": None, "draining": True}),
        (Replica("b", "healthy", 5.0, "no answer", restarts=1), JobState.RUNNING,
         {"health": "starting", "since": None, "last_check": None, "restarts": 1,
          "restart_at": None, "draining": False}),
        (Replica("c", "healthy", 5.0), JobState.FAILED,
         {"health": None, "since": "1970-01-01T00:00:05.000Z", "last_check": None,
          "restarts": 0, "restart_at": None, "draining": False}),
    ],
)  # fmt: skip
def test_the_document_of_a_job_is_whole(
    replica: Replica | None, state: JobState, expected: dict[str, object]
) -> None:
    """Programs read these names."""
    attempt = Attempt(
        2, "a", ("u0",), container_name="c", started_at=7.0, ended_at=9.0, exit_code=3,
        ended_by="own", peak_mib=12.5, steps_mib=11.0, members=(Member("b", ("u1",), (0,), "c"),),
    )  # fmt: skip
    task = Task(
        "ocr[1]", script="/p/t.py", time_limit_s=60.0, after=("j0",), sweep="ocr", service=SERVICE
    )
    job = Job(
        "j1", task, "eve", state, 1.0, attempts=(attempt,), cause="It failed.", estimate_mib=10.0,
        replica=replica,
    )  # fmt: skip
    assert job.as_json() == {
        "id": "j1", "name": "ocr[1]", "user": "eve", "state": state.value, "script": "/p/t.py",
        "host": "a", "hosts": ["a", "b"], "devices": ["u0", "u1"], "attempt": 2,
        "submitted_at": "1970-01-01T00:00:01.000Z", "started_at": "1970-01-01T00:00:07.000Z",
        "ended_at": "1970-01-01T00:00:09.000Z" if state.ended else None,
        "exit_code": 3, "cause": "It failed.",
        "ended_by": "own" if state.ended else None, "time_limit_s": 60.0,
        "after": ["j0"], "estimate_mib": 10.0, "peak_mib": 12.5, "first_steps_mib": 11.0,
        "service": {"name": "ocr", "port": 8040, "replicas": 3, **expected},
    }  # fmt: skip


def test_a_queued_job_has_no_host_and_no_end() -> None:
    document = Job("j1", Task("t"), "eve", JobState.QUEUED, 1.0).as_json()
    assert document["host"] is document["ended_at"] is document["exit_code"] is None
    assert (document["devices"], document["hosts"], document["attempt"]) == ([], [], 0)
    assert {name for name, value in document.items() if value is None} == {
        "host", "started_at", "ended_at", "exit_code", "cause", "ended_by", "time_limit_s",
        "estimate_mib", "peak_mib", "first_steps_mib", "service",
    }  # fmt: skip
