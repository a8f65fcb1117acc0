"""What a console that ends in the middle of a launch leaves on a real engine, and who clears it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.dispatch.attempt.end import LEFT
from tests.real.consoles.test_faults_killed import submit
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import COUNT, Desk, job_is, let_go, ran_once, until, wait_until

GRACE_S = 10
SETTINGS = f"lab:\n  lease_grace: {GRACE_S}\n"
ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.OOM, JobState.CANCELLED)
LARGE = 24 * 2**20
"""Bytes of a project that takes a second or more to be copied into a container."""


@dataclass(frozen=True)
class Place:
    """A host whose engine is looked at beside the consoles."""

    host: LabHost
    engine: LabDocker
    client: docker.APIClient

    def unstarted(self) -> list[dict[str, Any]]:
        """Return the job containers that have not started."""
        wanted = {"label": "gpuconsole.nonce", "status": "created"}
        listed: list[dict[str, Any]] = self.client.containers(all=True, filters=wanted)
        return listed

    def of(self, job: str) -> list[dict[str, Any]]:
        """Return the containers and leases of a job."""
        wanted = {"label": f"gpuconsole.job={job}"}
        listed: list[dict[str, Any]] = self.client.containers(all=True, filters=wanted)
        return listed


@pytest.fixture
def place(docker_lab: Lab) -> Place:
    host = docker_lab.add(devices=1)
    engine = host.start_engine()
    return Place(host, engine, engine.client())


def desk_of(lab: Lab, folder: Path, *, large: bool = False) -> Desk:
    desk = Desk(lab, folder, SETTINGS)
    if large:
        (desk.project / "data.bin").write_bytes(os.urandom(LARGE))
    return desk


@contextmanager
def dispatching(desk: Desk) -> Iterator[subprocess.Popen[bytes]]:
    console = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
    try:
        yield console
    finally:
        if console.poll() is None:
            console.kill()
        console.wait()


def job_of(desk: Desk, job_id: str) -> Job:
    with desk.journal() as journal:
        job = journal.job(job_id)
    assert job is not None
    return job


def wait_state(desk: Desk, job_id: str, *states: JobState) -> None:
    def there() -> bool:
        return job_of(desk, job_id).state in states

    wait_until(there, what=f"{job_id} {states}")


def ends_well(place: Place, desk: Desk, job_id: str) -> None:
    """Let a running job end; it has been started once."""
    wait_state(desk, job_id, JobState.RUNNING)
    let_go(place.host, job_of(desk, job_id))
    wait_state(desk, job_id, *ENDS)
    ended = job_of(desk, job_id)
    assert (ended.state, len(ended.attempts)) == (JobState.SUCCEEDED, 1), ended.cause


def end_in_the_middle(
    desk: Desk, place: Place, number: int, before: Callable[[], None] = lambda: None
) -> str:
    """Dispatch a job, and send the console a signal once the container is created and before it
    has started; the job's id."""
    job = submit(desk, "--project", str(desk.project))
    with dispatching(desk) as console:
        wait_until(place.unstarted, what="a container that has not started")
        before()
        os.kill(console.pid, number)
        console.wait(PATIENCE_S)
    return job


@pytest.mark.fault(
    "A console dies between create and start",
    "Another user's console takes the device after the grace time",
)
def test_a_dead_console_s_claim_ends_after_the_grace_time(
    docker_lab: Lab, place: Place, tmp_path: Path
) -> None:
    """Another user's console takes the device, and the job of the dead one goes on after it."""
    dead = desk_of(docker_lab, tmp_path / "dead", large=True)
    job = end_in_the_middle(dead, place, signal.SIGKILL)
    assert len(place.of(job)) == 2, "the container and its lease are left"
    heir = desk_of(docker_lab, tmp_path / "heir")
    second = submit(heir)
    with dispatching(heir):
        wait_state(heir, second, JobState.RUNNING)
        assert place.of(job) == []
        with dispatching(dead):
            wait_state(dead, job, JobState.QUEUED)
            ends_well(place, heir, second)
            ends_well(place, dead, job)


@pytest.mark.fault(
    "SIGTERM between create and start",
    "Container and lease are taken back, the job is queued again",
)
def test_a_console_that_is_told_to_end_leaves_nothing(
    docker_lab: Lab, place: Place, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path / "desk", large=True)
    job = end_in_the_middle(desk, place, signal.SIGTERM)
    assert place.client.containers(all=True) == []
    left = job_of(desk, job)
    assert (left.state, left.detail) == (JobState.QUEUED, LEFT)


@pytest.mark.fault(
    "SIGTERM while the engine is frozen",
    "The console ends all the same",
)
def test_a_console_that_is_told_to_end_waits_for_no_engine_that_is_frozen(
    docker_lab: Lab, place: Place, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path / "desk", large=True)
    try:
        job = end_in_the_middle(desk, place, signal.SIGTERM, place.engine.freeze)
    finally:
        place.engine.thaw()
    left = job_of(desk, job)
    assert left.state is JobState.LAUNCHING
    assert left.detail.startswith(LEFT)
    with dispatching(desk):
        ends_well(place, desk, job)


@pytest.mark.fault(
    "A console is suspended in mid-launch and wakes after another took the device",
    "It starts nothing and queues the job again",
)
def test_a_console_that_was_suspended_finds_its_device_taken_and_waits(
    docker_lab: Lab, place: Place, tmp_path: Path
) -> None:
    """A laptop that slept for longer than the grace time, between create and start."""
    slow = desk_of(docker_lab, tmp_path / "slow", large=True)
    heir = desk_of(docker_lab, tmp_path / "heir")
    job, second = submit(slow, "--project", str(slow.project)), submit(heir)
    with dispatching(slow) as console:
        wait_until(place.unstarted, what="a container that has not started")
        os.kill(console.pid, signal.SIGSTOP)
        try:
            with dispatching(heir):
                wait_state(heir, second, JobState.RUNNING)
                os.kill(console.pid, signal.SIGCONT)
                wait_state(slow, job, JobState.QUEUED)
                assert len(place.client.containers(filters={"label": "gpuconsole.nonce"})) == 1
                ends_well(place, heir, second)
        finally:
            os.kill(console.pid, signal.SIGCONT)
        ends_well(place, slow, job)


@pytest.mark.fault(
    "An engine is frozen while jobs run, and one of them ends",
    "Job and host say within seconds that it does not answer; the end is named at once after",
)
async def test_a_frozen_engine_is_named_at_the_job_and_at_the_host(
    docker_lab: Lab, place: Place, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path / "desk")
    async with desk.session() as session:
        job = await session.queue.submit(desk.task(COUNT))
        await job_is(session, job, JobState.RUNNING, within_s=PATIENCE_S)
        place.engine.freeze()
        try:
            unknown = await job_is(session, job, JobState.UNKNOWN, within_s=PATIENCE_S)
            assert "asking for a sign of life: no answer in time" in unknown.detail

            def engine_error() -> str:
                host = session.snapshot().host(place.host.name)
                assert host is not None
                return host.engine_error

            assert "no answer in time" in engine_error()
            threads = threading.active_count()
            let_go(place.host, job)
            await asyncio.sleep(10)
            assert session.job(job.id).state is JobState.UNKNOWN
            assert threading.active_count() <= threads + 1, "nothing is piled up"
        finally:
            place.engine.thaw()
        await job_is(session, job, JobState.SUCCEEDED, within_s=PATIENCE_S)
        await until(lambda: not engine_error(), PATIENCE_S, "the host says no more of it")
        await ran_once(session, job, tmp_path / "out")
