"""Containers of all hosts: one that hangs holds up none, and no command runs unrecorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from gpuconsole.core.engines.host_containers import HostContainer
from gpuconsole.errors import ConsoleError, EngineError, JournalError, ReadOnlyError, RefusedError
from gpuconsole.session.containers import service
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.lab_service.console.mirror import LabEngine
from gpuconsole.session.session import Session
from gpuconsole.simulated_lab.foreign import SimulatedCommand, SimulatedForeign


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with open_session(None, tmp_path / "state", demo=DemoOptions(hosts=3)) as made:
        yield made


async def running(session: Session) -> HostContainer:
    found = await session.containers.listing()
    return next(each for host in found for each in host.containers if each.runs)


async def run(session: Session, container: HostContainer, *words: str, **more: Any) -> bytes:
    process = await session.containers.run(container, words, terminal=False, typing=False, **more)
    said = b""
    while (piece := await process.read()) is not None:
        said += piece.data
    await process.exit_code()
    await process.close()
    return said


async def test_one_host_that_hangs_and_one_that_fails_hold_up_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ANSWER_S", 0.05)
    monkeypatch.setattr(service, "PARALLEL", 1)
    hangs, fails, well = session.containers.hosts()
    listed = SimulatedForeign.list

    async def asked(self: SimulatedForeign, *, stopped: bool) -> Any:
        name = self._host.site.name
        if name == hangs:
            await asyncio.Event().wait()
        if name == fails:
            raise EngineError("Docker refused", "permission denied", "Ask.")
        return await listed(self, stopped=stopped)

    monkeypatch.setattr(SimulatedForeign, "list", asked)
    found = {each.host: each for each in await session.containers.listing()}
    assert "has not answered for 0.05 s" in found[hangs].error
    assert (found[fails].error, found[fails].hint) == ("permission denied", "Ask.")
    assert found[well].error == ""


async def test_a_command_is_recorded_before_it_runs(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    container, seen = await running(session), []
    start = SimulatedCommand.start

    async def started(self: SimulatedCommand, size: tuple[int, int] | None = None) -> None:
        seen.append([act.verb for act in await session.audit()])
        await start(self, size)

    monkeypatch.setattr(SimulatedCommand, "start", started)
    assert b"SIMULATED" in await run(session, container, "rm", "a b", user="root")
    assert seen == [["exec"]]
    (act,) = await session.audit()
    assert act.subject == container.key
    assert act.detail == f"{container.id[:12]}: rm 'a b' (as root)"


async def test_that_a_closed_terminal_has_ended_a_command_is_recorded(session: Session) -> None:
    container = await running(session)
    shell = await session.containers.run(container, ("sh",), terminal=True, typing=True)
    await shell.close()
    left = await session.containers.run(container, ("bash",), terminal=True, typing=True)
    await left.leave()
    await left.close()
    short = container.id[:12]
    assert [act.detail for act in await session.audit()] == [
        f"{short}: bash",
        f"{short}: sh: ended, as its terminal was closed",
        f"{short}: sh",
    ]


async def test_what_cannot_be_recorded_does_not_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(act: object) -> None:
        raise JournalError("Disk full", "No space is left.")

    started = []
    monkeypatch.setattr(SimulatedCommand, "start", lambda *_: started.append(1))
    monkeypatch.setattr(session._context.journal, "record", full)
    with pytest.raises(JournalError):
        await run(session, await running(session), "true")
    assert started == []


async def test_what_an_engine_refuses_is_recorded_with_the_reason(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise EngineError("Docker refused", "authorization denied by plugin")

    container = await running(session)
    monkeypatch.setattr(SimulatedForeign, "command", refuse)
    with pytest.raises(ConsoleError):
        await run(session, container, "true")
    (act,) = await session.audit()
    assert act.refused == "authorization denied by plugin"


async def test_a_container_that_does_not_run_and_a_read_only_session_refuse(
    tmp_path: Path, session: Session
) -> None:
    container = await running(session)
    stopped = HostContainer(container.host, container.id, "over", "x", "exited")
    with pytest.raises(RefusedError, match="is exited"):
        await run(session, stopped, "true")
    demo = DemoOptions(hosts=3)
    async with open_session(None, tmp_path / "state", demo=demo, read_only=True) as looking:
        with pytest.raises(ReadOnlyError):
            await run(looking, container, "true")
        assert await looking.containers.listing()


async def test_a_host_behind_the_labs_service_says_so(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def engine(host: str) -> LabEngine:
        return LabEngine(host, cast("Any", None), cast("Any", None))

    monkeypatch.setattr(session.containers._context.hosts, "engine", engine)
    for found in await session.containers.listing():
        assert "is reached by the lab's service" in found.error
        assert found.hint == "Ask an operator of the lab."


async def test_a_log_has_its_end_or_all_of_it(session: Session) -> None:
    container = await running(session)

    async def lines(tail: int | None) -> list[bytes]:
        log = session.containers.log(container, tail=tail)
        return b"".join([chunk async for chunk in log]).splitlines()

    assert b"SIMULATED" in (await lines(None))[0]
    assert len(await lines(3)) == 3
