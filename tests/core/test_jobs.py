"""Job states: which moves are legal, and what a job tells of itself."""

from __future__ import annotations

import itertools
import json

import pytest

from gpuconsole.core.jobs import ENDED, Attempt, Job, JobState, Task, may_move


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


def test_a_queued_job_has_no_host_and_no_end() -> None:
    document = Job("j1", Task("t"), "eve", JobState.QUEUED, 1.0).as_json()
    assert document["host"] is document["ended_at"] is document["exit_code"] is None
    assert (document["devices"], document["attempt"]) == ([], 0)
