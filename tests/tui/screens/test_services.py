"""Services in the console: their states in the queue, and the keys that act on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.services import SERVICE, Replica, Service
from tests.tui.console import NARROW, SIZES, opened
from tests.tui.fake import NOW, FakeSession, job


def replica(number: int, state: JobState, known: Replica) -> Job:
    made = job(f"ocr[{number}]", state, number, replica=known)
    task = replace(made.task, kind=SERVICE, sweep="ocr", service=Service(8040, replicas=2))
    return replace(made, task=task)


HEALTHY = replica(1, JobState.RUNNING, Replica("gpuconsole-ocr[1]", "healthy"))
WAITING = replica(2, JobState.QUEUED, Replica(restarts=3, restart_at=NOW + 8))


@pytest.mark.parametrize("size", SIZES)
async def test_the_queue_tells_how_replicas_are(size: tuple[int, int]) -> None:
    starting = replica(3, JobState.RUNNING, Replica())
    ill = replica(4, JobState.RUNNING, Replica("gpuconsole-ocr[4]", "unhealthy"))
    leaving = replica(5, JobState.RUNNING, Replica("gpuconsole-ocr[5]", "healthy", leaving_at=1.0))
    session = FakeSession(jobs_now=(HEALTHY, WAITING, starting, ill, leaving))
    async with opened(session, size) as console:
        await console.press("2")
        await console.shows("healthy", "backing off", "starting", "unhealthy", "draining")


async def test_a_key_changes_how_many_there_are() -> None:
    session = FakeSession(jobs_now=(HEALTHY, WAITING))
    async with opened(session) as console:
        await console.press("2")
        await console.shows("Z replicas")
        await console.press("Z")
        await console.shows("Replicas of ocr", "finish their connections first")
        await console.press("backspace")
        await console.type("4")
        await console.press("enter")
        await console.until(lambda: ("scale", "ocr", 4) in session.calls, "scaled")
        await console.shows("The service ocr is to have 4 replicas.")


async def test_of_another_job_the_key_says_that_it_is_no_service() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session, NARROW) as console:
        await console.press("2")
        assert "Z replicas" not in console.text
        await console.press("Z")
        await console.shows("resnet is no replica of a service that runs.")


async def test_its_replicas_are_no_sweep_to_be_compared() -> None:
    session = FakeSession(jobs_now=(HEALTHY, WAITING))
    async with opened(session) as console:
        await console.press("2")
        await console.shows("Z replicas")
        assert "M compare" not in console.text
        await console.press("M")
        await console.toast("It is in no sweep")


async def test_the_filter_counts_replicas_that_are_added() -> None:
    session = FakeSession(jobs_now=(HEALTHY, job("resnet", JobState.RUNNING)))
    async with opened(session) as console:
        await console.press("2", "slash")
        await console.type("ocr")
        await console.shows("1 job matches")
        session.jobs_now = (*session.jobs_now, WAITING)
        await console.shows("2 jobs match")


async def test_its_port_is_opened_for_the_service() -> None:
    session = FakeSession(jobs_now=(HEALTHY,))
    async with opened(session) as console:
        await console.press("3", "O")
        await console.shows("Ports of ocr", "Connections are spread over its healthy")
        await console.press("enter")
        await console.until(lambda: ("forward", "ocr", 8040) in session.calls, "opened")
        await console.press("escape")
        await console.shows("is port 8040")
