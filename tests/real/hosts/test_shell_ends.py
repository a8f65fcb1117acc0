"""Sessions that end by themselves, or lose their host, on real parts: an idle clock that stands
while a device computes, a time at which they end, and a network that goes and comes back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.session.interactive import idle_stop, shells
from gpuconsole.session.session import Session
from tests.real.hosts.test_shell import begun, does, hears
from tests.real.rig import terminal as rig
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, until

IDLE_S = 12.0


async def test_an_idle_session_ends_and_one_whose_device_computes_runs_on(
    session: Session, host: LabHost, engine: LabDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shells, "LEAST_IDLE_S", 1.0)
    monkeypatch.setattr(idle_stop, "ASK_EVERY_S", 1.0)
    host.driver.set({"0.util": 0, "1.util": 0})
    computing = await begun(session, idle_stop_s=IDLE_S, name="computing")
    assert computing.attempt is not None
    (busy,) = computing.attempt.device_indexes
    # A long computation: nothing is typed, and its device is used.
    host.driver.set({f"{busy}.util": 97})
    idle = await begun(session, idle_stop_s=IDLE_S, name="idle")
    terminal = await session.attach(idle.id, watch=True)
    await hears(terminal, "Nothing is typed and no device used; it ends in")
    await until(lambda: session.job(idle.id).state.ended, what="the idle one ends")
    ended = session.job(idle.id)
    assert (ended.state, ended.state_word) == (JobState.FAILED, "ended idle")
    assert ended.cause.startswith("Ended idle: for ")
    assert "nothing was typed and no device used" in ended.cause
    await terminal.close()
    # The other has been as long without a key, and its clock has not begun.
    started = session.job(computing.id).attempt
    assert started is not None
    assert started.started_at is not None
    assert time.time() - started.started_at > IDLE_S
    assert session.job(computing.id).state is JobState.RUNNING
    # Once its device is at rest the clock runs; a key sets it back.
    terminal = await session.attach(computing.id)
    host.driver.set({f"{busy}.util": 0})
    await hears(terminal, "it ends in")
    await does(terminal, "echo $((40+2))", "42\r\n")
    await hears(terminal, "it ends in")
    await until(lambda: session.job(computing.id).state.ended, what="it ends, too")
    assert session.job(computing.id).state_word == "ended idle"
    await terminal.close()
    client = engine.client()
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")


async def test_until_ends_it_with_a_warning(session: Session, engine: LabDocker) -> None:
    job = await begun(session, until=time.time() + 30.0)
    terminal = await session.attach(job.id)
    await hears(terminal, "This session ends in")
    await does(terminal, "echo still-''here", "still-here\r\n")
    while (await terminal.read()) is not None:
        pass
    await terminal.close()
    await until(lambda: session.job(job.id).state.ended, what="it ends")
    ended = session.job(job.id)
    assert job.task.until is not None
    assert ended.attempt is not None
    assert ended.attempt.ended_by == "time-limit"
    assert (ended.attempt.ended_at or 0.0) >= job.task.until - 2.0
    assert ended.cause.startswith("Time limit: ")
    client = engine.client()
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")


async def test_a_host_that_is_lost_and_comes_back_has_the_same_shell(
    session: Session, desk: Desk, host: LabHost, engine: LabDocker, tmp_path: Path
) -> None:
    """Its network goes without a word; the command finds the shell again by itself."""
    reason = rig.why_not()
    if reason:
        pytest.skip(reason)
    job = await begun(session)

    def name_is(state: HostState) -> bool:
        found = session.snapshot().host(host.name)
        return found is not None and found.state is state

    def used() -> None:
        with rig.Terminal(tmp_path, desk.command("shell", job.id), (90, 24)) as one:
            one.until(lambda text: text.rstrip().endswith(("$", "#")))
            one.type("kept=here; echo a-$kept")
            one.press("Enter")
            one.shows("a-here")
            host.cut()
            one.shows("The connection is lost; the session runs on.")
            host.heal()
            one.until(lambda text: text.count("a-here") >= 2)
            one.type("echo b-$kept")
            one.press("Enter")
            one.shows("b-here")
            one.press("C-p", "C-q")
            one.shows("It runs on. Come back to it with: gpuconsole shell")

    await asyncio.to_thread(used)
    await until(lambda: name_is(HostState.UP), what="the host is back")
    await until(lambda: session.job(job.id).state is JobState.RUNNING, what="it runs")
    assert len(session.job(job.id).attempts) == 1
    terminal = await session.attach(job.id)
    await hears(terminal, "b-here")
    await terminal.write(b"exit\n")
    await until(lambda: session.job(job.id).state is JobState.SUCCEEDED, PATIENCE_S, "it ends")
    await terminal.close()
    client = engine.client()
    await until(lambda: not client.containers(all=True), what="nothing left on the engine")
