"""Sessions in the simulated lab: a terminal that shows what is typed, and ports that answer."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.interactive.attached import AttachedTerminal
from gpuconsole.session.session import Session
from gpuconsole.state import Journal
from tests.waiting import until


async def begun(session: Session, job: Job) -> Job:
    await until(lambda: session.job(job.id).state is JobState.RUNNING)
    return session.job(job.id)


async def hears(terminal: AttachedTerminal, words: bytes) -> bytes:
    written = b""
    while words not in written:
        said = await terminal.read()
        assert said is not None
        written += said.data
    return written


async def test_a_shell_is_used_left_and_ended(tmp_path: Path) -> None:
    demo = DemoOptions(hosts=2, speed=20.0)
    async with open_session(None, tmp_path, demo=demo) as session:
        job = await begun(session, await session.shell())
        first = await session.attach(job.id)
        await first.write(b"lx\x7fs\r")
        assert b"Nothing is run in the simulated lab" in await hears(first, b"ends this session")
        await first.close()
        second = await session.attach(job.id)
        # What was written before is shown.
        await hears(second, b"ends this session")
        assert (await second.state()).viewers == 1
        await second.write(b"x\x03\x04")
        while (await second.read()) is not None:
            pass
        assert (await second.exit_code(), second.lost) == (0, False)
        await until(lambda: session.job(job.id).state is JobState.SUCCEEDED)


async def test_ports_answer_and_a_notebook_has_an_address(tmp_path: Path) -> None:
    demo = DemoOptions(hosts=2, speed=20.0)
    async with open_session(None, tmp_path, demo=demo) as session:
        job = await begun(session, await session.jupyter())
        address = await session.jupyter_address(job.id)
        async with aiohttp.ClientSession() as http, http.get(address) as page:
            assert await page.text() == "Port 8888 of jupyter, in the simulated lab.\n"
        await session.cancel(job.id)
        await until(lambda: session.job(job.id).state is JobState.CANCELLED)


def test_a_demos_queue_says_so_later_and_one_with_real_jobs_does_not(tmp_path: Path) -> None:
    demo = DemoOptions(hosts=1)
    open_session(None, tmp_path / "new", demo=demo)
    kept = Journal(tmp_path / "used", clock=time.time)
    kept.add(Job("j1", Task("mine", script="/p/train.py"), "ada", JobState.QUEUED, 1.0))
    kept.close()
    open_session(None, tmp_path / "used", demo=demo)
    marks = {}
    for name in ("new", "used"):
        journal = Journal(tmp_path / name, clock=time.time, read_only=True)
        marks[name] = journal.simulated
        journal.close()
    assert marks == {"new": True, "used": False}
