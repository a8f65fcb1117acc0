"""A frozen engine is named within seconds, asked one thing at a time, and found again at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.jobs import JobState
from gpuconsole.session.dispatch.dispatcher import SWEEP_AGAIN_S
from gpuconsole.session.fleet.leases import PATIENCE_S, REFRESH_S
from gpuconsole.session.fleet.silent_engines import BELIEVED_S
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import Docker

NAMED_S = 5.0


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Lab]:
    made = make_lab(tmp_path / "state", hosts=("a", "b"))
    yield made
    await made.close()


def freeze(docker: Docker) -> None:
    """As the engine's own way to it has it: a question fails, all else hangs."""
    docker.silent_at = frozenset({"ping"})
    docker.hangs_at = frozenset({"inspect", "leases", "own", "release", "claim"})


def thaw(docker: Docker) -> None:
    docker.silent_at, docker.hangs_at = frozenset(), frozenset()
    docker.notify()


async def running(lab: Lab, desk: Desk) -> str:
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    return job_id


async def test_a_silence_is_said_at_the_job_and_at_the_host_and_so_is_its_end(lab: Lab) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    freeze(lab.docker)
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN, within=NAMED_S)
    assert "permission denied on the socket" in desk.job(job_id).detail
    host = desk.fleet.snapshot().host("a")
    assert host is not None
    assert host.engine_error == "permission denied on the socket."
    thaw(lab.docker)
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING, within=NAMED_S)
    await lab.clock.until(lambda: not _engine_error(desk), within=30)


def _engine_error(desk: Desk) -> str:
    host = desk.fleet.snapshot().host("a")
    assert host is not None
    return host.engine_error


async def test_a_job_that_ended_in_a_silence_is_named_when_it_is_over(lab: Lab) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    freeze(lab.docker)
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN, within=NAMED_S)
    lab.docker.end(lab.docker.only(), 0, b"done\n")
    await lab.clock.pass_time(45)
    assert desk.job(job_id).state is JobState.UNKNOWN
    thaw(lab.docker)
    await lab.clock.until(lambda: desk.job(job_id).state.ended, within=NAMED_S)
    assert desk.job(job_id).state is JobState.SUCCEEDED
    # Though no job needs the engine any more.
    await lab.clock.until(lambda: not _engine_error(desk), within=BELIEVED_S + NAMED_S)


async def test_a_silent_engine_is_asked_nothing_but_the_question(lab: Lab) -> None:
    """Nothing is piled up in front of it, however long it lasts."""
    desk = lab.desk()
    job_id = await running(lab, desk)
    freeze(lab.docker)
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN, within=NAMED_S)
    await lab.clock.pass_time(1)
    before = lab.docker.hanging
    calls = len(desk.console.calls)
    await lab.clock.pass_time(600)
    assert lab.docker.hanging == before
    assert set(desk.console.calls[calls:]) <= {"engine", "ping"}


async def test_a_frozen_engine_delays_no_look_at_the_others(two: Lab) -> None:
    desk = two.desk()
    two.dockers["a"].hangs_at = None
    looked = asyncio.ensure_future(desk.leases.refresh())
    await two.clock.until(looked.done, within=PATIENCE_S)
    assert desk.leases.seen() == {"b": ()}
    theirs = Lease("GPU-b-0", "other", "other-1", "eve", "J2", two.clock.now())
    two.dockers["b"].leases[theirs.uuid] = theirs
    for _ in range(5):
        await two.clock.pass_time(REFRESH_S)
        await desk.leases.refresh()
        assert desk.leases.seen()["b"] == (theirs,)
    assert two.dockers["a"].hanging == 1
    await desk.leases.close()
    assert two.dockers["a"].hanging == 0


async def test_a_lease_that_a_silent_engine_kept_is_released_when_it_answers(two: Lab) -> None:
    """The claim took effect, its answer was lost: the job runs elsewhere, and nobody waits for the
    lease to go stale."""
    desk = two.desk()
    lost = two.dockers["a"]
    lost.silent_at = frozenset({"claim done", "release", "own", "leases", "ping"})
    job_id = two.submit(desk)
    desk.start()
    await two.clock.until(lambda: two.dockers["b"].running)
    assert [lease.job for lease in lost.leases.values()] == [job_id]
    await two.clock.pass_time(60)
    assert lost.leases
    lost.silent_at = frozenset()
    await two.clock.until(lambda: not lost.leases, within=2 * SWEEP_AGAIN_S)
    assert two.dockers["b"].leases


async def test_no_job_is_placed_on_a_device_whose_lease_is_being_removed(two: Lab) -> None:
    """The same attempt, placed there again, would lose the lease that it has just claimed."""
    desk = two.desk()
    lost = two.dockers["a"]
    lost.silent_at = frozenset({"claim done", "release", "own", "leases", "ping"})
    job_id = two.submit(desk)
    desk.start()
    await two.clock.until(lambda: two.dockers["b"].running)
    lost.silent_at, lost.hangs_at = frozenset(), frozenset({"release"})
    await two.clock.until(lambda: lost.hanging == 1, within=60)
    second = two.submit(desk, "second")
    await two.clock.pass_time(60)
    assert desk.job(second).state is JobState.QUEUED
    thaw(lost)
    await two.clock.until(lambda: desk.job(second).state is JobState.RUNNING, within=60)
    (held,) = lost.leases.values()
    assert held.job == second
    assert desk.job(job_id).state is JobState.RUNNING
