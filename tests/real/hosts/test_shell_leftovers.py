"""Sessions opened and ended in every way, at random: nothing of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import RefusedError, UnreachableError
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.session import Session
from tests.real.rig import terminal as rig
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.sessions import Desk, job_is, seen, until, wait_until

SESSIONS = 100
AT_ONCE = 10
SEED = 18


@pytest.fixture
def host(docker_lab: Lab) -> LabHost:
    return docker_lab.add(devices=AT_ONCE)


async def test_none_leaves_a_container_a_lease_or_a_port(
    session: Session, host: LabHost, engine: LabDocker
) -> None:
    ports: list[int] = []
    cutting = asyncio.Lock()

    async def some(number: int) -> None:
        # What each of them does depends on the seed alone; how they meet does not.
        dice = random.Random(SEED + number)
        for _ in range(SESSIONS // AT_ONCE):
            job = await session.shell()
            if dice.random() < 0.25:
                # Wherever its launch is.
                await cancelled(session, job)
                continue
            await job_is(session, job, JobState.RUNNING)
            # Another may have cut the host off at that moment.
            with contextlib.suppress(UnreachableError, RefusedError):
                ports.append((await session.forward(job.id, 7007)).local_port)
                await left_somehow(session, host, job, dice, cutting)
            await cancelled(session, job)

    await asyncio.gather(*map(some, range(AT_ONCE)))
    assert len(session.jobs()) == SESSIONS
    # Where others cut the host off for long, as on a busy machine, fewer come so far.
    assert len(ports) > SESSIONS // 4
    await until(lambda: all(job.state.ended for job in session.jobs()), what="all ended")
    await until(lambda: not session.forwards.open_now(), what="all forwards ended")
    client = engine.client()
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")
    for port in set(ports):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, port)


async def cancelled(session: Session, job: Job) -> None:
    """Cancel a session that has not ended, as soon as its host can be reached."""
    while not session.job(job.id).state.ended:
        with contextlib.suppress(UnreachableError, RefusedError):
            await session.cancel(job.id)
        await asyncio.sleep(0.05)


async def left_somehow(
    session: Session, host: LabHost, job: Job, dice: random.Random, cutting: asyncio.Lock
) -> None:
    """Look at a session and leave it. UnreachableError, or RefusedError for a job that is out of
    sight, where another cuts the host off."""
    way = dice.choice(("exit", "close", "cut", "drop"))
    terminal = await session.attach(job.id)
    try:
        if way == "exit":
            await terminal.write(b"exit\n")
            while (await terminal.read()) is not None:
                pass
        if way == "cut":
            async with cutting:
                host.stop_sshd()
                host.start_sshd()
                while (await terminal.read()) is not None:
                    pass
                await seen(session)
        if way == "drop":
            # It is cancelled while somebody looks.
            await cancelled(session, job)
    finally:
        await terminal.close()


async def test_a_command_that_is_killed_leaves_the_session_to_others(
    desk: Desk, engine: LabDocker, tmp_path: Path
) -> None:
    reason = rig.why_not()
    if reason:
        pytest.skip(reason)
    await asyncio.to_thread(killed, desk, tmp_path)
    client = engine.client()
    assert any("terminal.py" in str(client.top(one["Id"], "-efww")) for one in client.containers())
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
