"""Real sessions over a lab, for tests that watch jobs through faults."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.session.factory import open_session
from gpuconsole.session.session import Session
from gpuconsole.state import Journal
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import USER, Lab, LabHost
from tests.real.rig.patience import PATIENCE_S

COUNT = """
import os, time

results = os.environ["GPUCONSOLE_RESULTS"]
with open(os.path.join(results, "runs"), "a") as runs:
    runs.write("ran\\n")
number = 0
while not os.path.exists(os.path.join(results, "go")):
    print("line", number, flush=True)
    number += 1
    time.sleep(0.05)
print("counted", number, flush=True)
"""
"""Counts into its log until it is told to go on, and notes each time it is begun."""


class Desk:
    """A user's inventory, scripts and state folder; sessions are opened on them."""

    def __init__(self, lab: Lab, folder: Path, settings: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.state = folder / "state"
        self.inventory = folder / "inventory.yaml"
        # Jobs of other tests are not to be held up by measurements of their scripts.
        settings = settings or "lab:\n"
        if "measure:" not in settings:
            settings = settings.replace("lab:\n", "lab:\n  measure: never\n", 1)
        self.inventory.write_text(lab.inventory() + settings)
        self.project = folder / "project"
        self.project.mkdir()

    def script(self, text: str, name: str = "train.py") -> Path:
        """Write a script of the project."""
        path = self.project / name
        path.write_text(text)
        return path

    def task(self, text: str, name: str = "train") -> Task:
        """Write a script and return the task that runs it."""
        return Task(name, str(self.script(text, f"{name}.py")))

    def command(self, *words: str) -> list[str]:
        """Return a command line; without words it opens the console."""
        base = [sys.executable, "-m", "gpuconsole", "--inventory", str(self.inventory)]
        return [*base, "--state", str(self.state), *words]

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal]:
        """Give the journal as it is seen beside its consoles."""
        journal = Journal(self.state, clock=time.time, read_only=True)
        try:
            yield journal
        finally:
            journal.close()

    def session(self) -> Session:
        """Return a session, not entered yet."""
        return open_session(self.inventory, self.state)


@pytest.fixture(name="host")
def one_host(docker_lab: Lab) -> LabHost:
    """Give a lab's only host."""
    return docker_lab.add()


@pytest.fixture(name="engine")
def its_engine(host: LabHost) -> LabDocker:
    """Give the engine of the only host."""
    return host.start_engine()


@pytest.fixture(name="desk")
def one_desk(docker_lab: Lab, engine: LabDocker, tmp_path: Path) -> Desk:
    """Give a user of a lab of one host."""
    return Desk(docker_lab, tmp_path)


@pytest.fixture(name="session")
async def one_session(desk: Desk) -> AsyncIterator[Session]:
    """Give a session that has seen every host."""
    async with desk.session() as session:
        await seen(session)
        yield session


async def until(
    condition: Callable[[], object], within_s: float = PATIENCE_S, what: str = ""
) -> None:
    """Wait for a condition, at most so long, as `wait_until` does."""
    began = time.monotonic()
    deadline = began + within_s
    while not condition():
        asked = time.monotonic()
        assert asked < deadline, f"not in time: {what}"
        await asyncio.sleep(max(0.02, asked - began))
        began = time.monotonic()


def wait_until(
    condition: Callable[[], object], within_s: float = PATIENCE_S, what: str = ""
) -> None:
    """Wait for a condition where no event loop runs, at most so long. What takes long to find out
    is asked for no more than half of the time: what is waited for needs the processor too."""
    began = time.monotonic()
    deadline = began + within_s
    while not condition():
        asked = time.monotonic()
        assert asked < deadline, f"not in time: {what}"
        time.sleep(max(0.02, asked - began))
        began = time.monotonic()


async def job_is(
    session: Session, job: Job, *states: JobState, within_s: float = PATIENCE_S
) -> Job:
    """Return the job once it is in one of the states."""
    deadline = time.monotonic() + within_s
    while (now := session.job(job.id)).state not in states:
        assert time.monotonic() < deadline, f"{now.state}: {now.detail} {now.cause}"
        assert not now.state.ended, f"{now.state}: {now.cause}"
        await asyncio.sleep(0.02)
    return now


async def seen(session: Session) -> tuple[Host, ...]:
    """Return the hosts once all are up and their devices known."""
    await until(
        lambda: all(
            host.state is HostState.UP and host.devices for host in session.snapshot().hosts
        ),
        what="every host up",
    )
    return session.snapshot().hosts


def let_go(host: LabHost, job: Job) -> None:
    """Tell a counting script on a host to end, past every network."""
    found = host.run(["find", f"/home/{USER}", "-type", "d", "-path", f"*{job.id}*"])
    folders = sorted(found.stdout.decode().split(), key=len)
    assert folders, f"no results folder of {job.id}"
    host.run(["touch", f"{folders[0]}/go"]).check_returncode()


async def whole_log(session: Session, job: Job) -> list[str]:
    """Return the log of a counting job that has ended; it may still be on its way."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        lines = [line async for line in session.logs(job.id, follow=True)]
        if lines and lines[-1].startswith("counted "):
            return lines
        assert time.monotonic() < deadline, lines[-3:]
        await asyncio.sleep(0.05)


async def ran_once(session: Session, job: Job, folder: Path) -> None:
    """Hold a counting job to its end: begun once, one attempt, a log without gap or repetition."""
    job = session.job(job.id)
    assert (job.state, len(job.attempts)) == (JobState.SUCCEEDED, 1), job.cause
    lines = await whole_log(session, job)
    count = int(lines[-1].removeprefix("counted "))
    assert lines[:-1] == [f"line {number}" for number in range(count)]
    fetched = (await session.fetch_results(job.id, folder)).folder
    assert (fetched / "runs").read_text() == "ran\n"
