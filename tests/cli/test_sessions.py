"""How the console gets its session: hosts first, then all the rest."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from gpuconsole.cli import sessions
from gpuconsole.cli.options import Options
from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import HostState
from gpuconsole.errors import JournalError
from gpuconsole.remote.inventory import HostEntry, Inventory, QueueEntry
from gpuconsole.remote.lazy_hosts import LazyHosts
from tests.waiting import DEADLINE_S

LAB = Inventory("lab", (HostEntry("one", address="192.0.2.1"),))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done with the hosts, and in which order; none is contacted."""
    done: list[str] = []

    async def start(_: LazyHosts) -> None:
        done.append("start")

    async def close(_: LazyHosts) -> None:
        done.append("close")

    def imported(name: str) -> None:
        done.append(name)

    monkeypatch.setattr(LazyHosts, "start", start)
    monkeypatch.setattr(LazyHosts, "close", close)
    monkeypatch.setattr(sessions, "import_module", imported)
    return done


def test_hosts_are_connected_before_the_session_is_imported(
    calls: list[str], tmp_path: Path
) -> None:
    wanted = sessions.awaited_session(Options(state=tmp_path, read_only=True), LAB, LabSettings())
    assert [(host.name, host.state) for host in wanted.snapshot.hosts] == [
        ("one", HostState.CONNECTING)
    ]
    assert wanted.read_only
    assert not calls

    async def opened() -> None:
        session = await wanted.open()
        assert calls == ["start", "gpuconsole.session.factory"]
        assert isinstance(session.hosts, LazyHosts)
        assert session.read_only
        await session.__aexit__(None, None, None)

    asyncio.run(opened())
    assert calls[2:] == ["close"]


def test_hosts_are_let_go_where_there_is_no_session(calls: list[str], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    wanted = sessions.awaited_session(Options(state=tmp_path / "state"), LAB, LabSettings())
    with pytest.raises(JournalError):
        asyncio.run(wanted.open())  # type: ignore[arg-type]
    assert calls == ["start", "gpuconsole.session.factory", "close"]


def test_the_labs_queue_is_asked_after_the_first_frame_and_beside_it(
    calls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Inventory("lab", LAB.hosts, queue=QueueEntry("/run/lab.sock", ()))
    asked, heard, session = threading.Event(), threading.Event(), object()

    def slow(chosen: Options, **given: object) -> object:
        calls.append("asked")
        asked.set()
        assert given["lab"] is lab
        assert heard.wait(DEADLINE_S)
        return session

    monkeypatch.setattr(sessions, "open_session", slow)
    wanted = sessions.awaited_session(Options(state=tmp_path), lab, LabSettings())
    assert [host.name for host in wanted.snapshot.hosts] == ["one"]
    assert not calls, "the first frame waits for no service"

    async def opened() -> object:
        opening = asyncio.ensure_future(wanted.open())
        assert await asyncio.to_thread(asked.wait, DEADLINE_S)
        # The loop goes on, and so keys and frames, while the service has not answered.
        heard.set()
        return await opening

    assert asyncio.run(opened()) is session
    assert calls == ["asked"], "no host is contacted beside the service"
