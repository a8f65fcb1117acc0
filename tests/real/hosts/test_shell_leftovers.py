"""A session whose command was killed with its terminal: it runs on, and nothing of it is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from tests.real.rig import terminal as rig
from tests.real.rig.docker import LabDocker
from tests.real.rig.sessions import Desk, job_is, seen, until, wait_until


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
