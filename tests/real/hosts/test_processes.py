"""Signals to real processes over a real sshd, and containers stopped through a real engine."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.jobs import JobState
from gpuconsole.errors import ReadOnlyError, RefusedError
from gpuconsole.session.factory import open_session
from gpuconsole.session.session import Session
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.sessions import COUNT, Desk, job_is, seen, until

pytestmark = pytest.mark.real


@contextmanager
def sleeping(host: LabHost, *prefix: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process on the host, as root or through `prefix` as somebody else, and let device 0
    show it."""
    process = host.popen([*prefix, "sleep", "300"])
    host.driver.set({"0.procs": f"{process.pid}:1234"})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def shown(session: Session, process: subprocess.Popen[bytes]) -> AsyncIterator[DeviceProcess]:
    """Wait until the console shows the process by its command."""

    def found() -> DeviceProcess | None:
        devices = [device for host in session.snapshot().hosts for device in host.devices]
        known = [each for device in devices for each in device.processes]
        return next((p for p in known if p.pid == process.pid and "sleep" in p.command), None)

    await until(found, what="the process is shown")
    known = found()
    assert known is not None
    yield known


async def test_a_process_of_the_account_is_ended(lab: Lab, tmp_path: Path) -> None:
    host = lab.add(devices=1)
    desk = Desk(lab, tmp_path / "desk")
    as_account = ("setpriv", f"--reuid={host.uid}", "--clear-groups")
    async with desk.session() as session:
        with sleeping(host, *as_account) as process:
            async with shown(session, process):
                await session.processes.signal(host.name, process.pid, "TERM")
                assert await asyncio.to_thread(process.wait, 10) == -15
                host.driver.set({"0.procs": ""})
                await until(
                    lambda: not session.snapshot().hosts[0].devices[0].processes, what="it is gone"
                )
                with pytest.raises(RefusedError, match="ended already"):
                    await session.processes.signal(host.name, process.pid, "TERM")


async def test_a_process_of_root_says_who_must_be_asked(lab: Lab, tmp_path: Path) -> None:
    host = lab.add(devices=1)
    desk = Desk(lab, tmp_path / "desk")
    async with desk.session() as session:
        with sleeping(host) as process:
            async with shown(session, process) as known:
                with pytest.raises(RefusedError) as caught:
                    await session.processes.signal(host.name, process.pid, "KILL")
                assert caught.value.title == "Not permitted"
                assert "Ask root" in caught.value.hint
                other = replace(known, command="python train.py")
                with pytest.raises(RefusedError, match="another process"):
                    await session.hosts.signal(host.name, other, "KILL")
                assert process.poll() is None
    reading = open_session(desk.inventory, tmp_path / "other", read_only=True)
    with pytest.raises(ReadOnlyError):
        await reading.processes.signal(host.name, 2, "KILL")
    await reading.__aexit__(None, None, None)


def started(engine: LabDocker) -> str:
    """Start a container as somebody would without the console; returns its id."""
    client = engine.client()
    made = client.create_container(PADDLE_IMAGE, ["sleep", "300"], stop_signal="SIGKILL")
    client.start(made["Id"])
    client.close()
    return str(made["Id"])


def state_of(engine: LabDocker, container: str) -> str:
    client = engine.client()
    found = client.inspect_container(container)
    client.close()
    return str(found["State"]["Status"])


async def test_containers_are_stopped_and_a_job_is_cancelled(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add(devices=1)
    engine = await asyncio.to_thread(host.start_engine)
    desk = Desk(docker_lab, tmp_path / "desk")
    async with desk.session() as session:
        await seen(session)
        foreign = await asyncio.to_thread(started, engine)
        assert await session.processes.stop_container(host.name, foreign) is None
        assert await asyncio.to_thread(state_of, engine, foreign) == "exited"
        with pytest.raises(RefusedError, match="no container"):
            await session.processes.stop_container(host.name, "f" * 64)

        job = await session.queue.submit(desk.task(COUNT), force=True)
        job = await job_is(session, job, JobState.RUNNING)
        assert job.attempt is not None
        ended = await session.processes.stop_container(host.name, job.attempt.container_id)
        assert ended is not None
        assert (ended.id, ended.state) == (job.id, JobState.CANCELLED)
