"""Sessions opened and ended in every way, at random: nothing of them is left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from tests.real.rig import terminal as rig
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.sessions import Desk, job_is, seen, until, wait_until

SESSIONS = 10


@pytest.fixture
def host(docker_lab: Lab) -> LabHost:
    return docker_lab.add()


@pytest.fixture
def engine(host: LabHost) -> LabDocker:
    return host.start_engine()


@pytest.fixture
def desk(docker_lab: Lab, engine: LabDocker, tmp_path: Path) -> Desk:
    return Desk(docker_lab, tmp_path)


@pytest.fixture
async def session(desk: Desk) -> AsyncIterator[Session]:
    async with desk.session() as session:
        await seen(session)
        yield session


async def test_none_leaves_a_container_a_lease_or_a_port(
    session: Session, host: LabHost, engine: LabDocker
) -> None:
    dice = random.Random(18)
    ports: list[int] = []
    for _ in range(SESSIONS):
        job = await session.shell()
        if dice.random() < 0.25:
            # Wherever its launch is.
            await session.cancel(job.id)
            continue
        job = await job_is(session, job, JobState.RUNNING)
        ports.append((await session.forward(job.id, 7007)).local_port)
        await left_somehow(session, host, job, dice)
    await until(lambda: all(job.state.ended for job in session.jobs()), what="all ended")
    await until(lambda: not session.forwards.open_now(), what="all forwards ended")
    client = engine.client()
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, port)


async def left_somehow(session: Session, host: LabHost, job: Job, dice: random.Random) -> None:
    terminal = await session.attach(job.id)
    way = dice.choice(("exit", "close", "cut", "cancel"))
    if way == "exit":
        await terminal.write(b"exit\n")
        while (await terminal.read()) is not None:
            pass
        await terminal.close()
        await until(lambda: session.job(job.id).state.ended)
        return
    if way == "close":
        await terminal.close()
    if way == "cut":
        host.stop_sshd()
        host.start_sshd()
        while (await terminal.read()) is not None:
            pass
        await terminal.close()
        await seen(session)
    await session.cancel(job.id)
    await terminal.close()


async def test_a_command_that_is_killed_leaves_the_session_to_others(
    desk: Desk, engine: LabDocker, tmp_path: Path
) -> None:
    reason = rig.why_not()
    if reason:
        pytest.skip(reason)
    await asyncio.to_thread(killed, desk, tmp_path)
    client = engine.client()
    assert any("terminal.py" in str(client.top(one["Id"])) for one in client.containers())
    async with desk.session() as session:
        await seen(session)
        (job,) = session.jobs()
        await job_is(session, job, JobState.RUNNING)
        terminal = await session.attach(job.id)
        await terminal.write(b"exit\n")
        while (await terminal.read()) is not None:
            pass
        await terminal.close()
        await job_is(session, job, JobState.SUCCEEDED)
        await until(lambda: not client.containers(all=True), what="nothing left on the engine")


def killed(desk: Desk, folder: Path) -> None:
    """Open a session in a terminal, and end that terminal with all that runs in it."""
    (folder / "a").mkdir()
    with rig.Terminal(folder / "a", desk.command("shell"), (90, 24)) as one:
        one.shows("Ctrl-P Ctrl-Q leaves it running")
        one.until(lambda text: text.rstrip().endswith(("$", "#")))
    with desk.journal() as journal:
        wait_until(lambda: journal.jobs()[0].state is JobState.RUNNING)
