"""The console before it has a session: what it draws, imports, and does with what is typed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable

from gpuconsole.config import LabSettings, TriageSection
from gpuconsole.core.fleet import FleetSnapshot, Host
from gpuconsole.errors import JournalError
from gpuconsole.session.session import Session
from gpuconsole.tui.app import ConsoleApp
from gpuconsole.tui.runtime.awaited_session import AwaitedSession
from gpuconsole.tui.screens.help import HelpScreen
from tests.tui.console import WIDE, Driven
from tests.tui.fake import FakeSession

HOSTS = FleetSnapshot(hosts=(Host("first-named"), Host("second-named")))
LATER = ["session", "remote.hosts", "placement", "preflight", "triage", "simulated_lab"]
"""Our own modules, and what they hold, that the first frame does not need."""
FIRST_FRAME = """
import asyncio, sys
from pathlib import Path
from gpuconsole.cli.entry import main
from gpuconsole.cli import sessions
from gpuconsole.cli.options import Options
from gpuconsole.config import LabSettings
from gpuconsole.errors import UsageError
from gpuconsole.remote.inventory import Inventory
from gpuconsole.tui.app import ConsoleApp
from gpuconsole.tui.runtime.awaited_session import AwaitedSession

lab = Inventory("lab", ())
first = sessions.awaited_session(Options(state=Path(sys.argv[1])), lab, LabSettings()).snapshot

async def opened():
    print(*sorted(sys.modules))
    raise UsageError("Seen", "That was the first frame.")

async def run():
    app = ConsoleApp(AwaitedSession(opened, first))
    async with app.run_test():
        while app.return_code is None:
            await asyncio.sleep(0.01)

asyncio.run(run())
"""


def awaited(
    session: FakeSession, when: Callable[[], Awaitable[object]], *, read_only: bool = False
) -> AwaitedSession:
    """A session that is made once `when` is over."""

    async def made() -> Session:
        await when()
        return session  # type: ignore[return-value]

    return AwaitedSession(made, HOSTS, read_only)


def test_the_first_frame_imports_neither_the_session_nor_what_it_is_made_of(
    tmp_path: object,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_FRAME, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    imported = done.stdout.split()
    assert "gpuconsole.tui.screens.fleet" in imported
    assert "textual.app" in imported
    rooms = [f"gpuconsole.{room}." for room in LATER]
    early = [name for name in imported if name.startswith(tuple(rooms))]
    assert not early
    assert not {"asyncssh", "docker", "paddle", "sqlite3", "cryptography"} & set(imported)


async def test_the_hosts_are_shown_before_there_is_a_session() -> None:
    session, ready = FakeSession(), asyncio.Event()
    app = ConsoleApp(awaited(session, ready.wait, read_only=True))
    async with app.run_test(size=WIDE) as pilot:
        console = Driven(app, pilot)
        await console.shows("first-named", "second-named", "READ-ONLY")
        assert not app.has_session
        await pilot.resize_terminal(200, 60)
        await console.shows("second-named")
        ready.set()
        await console.until(lambda: app.opened, "the session is open")
        await console.shows("a100-01")
        assert session.calls[0] == ("enter",)


async def test_what_is_typed_before_there_is_a_session_is_acted_on_in_its_order() -> None:
    ready = asyncio.Event()
    app = ConsoleApp(awaited(FakeSession(), ready.wait))
    async with app.run_test(size=WIDE) as pilot:
        console = Driven(app, pilot)
        await console.shows("first-named")
        await pilot.press("slash", "r", "t", "x")
        assert "filter: rtx" not in console.text
        ready.set()
        await console.shows("filter: rtx")
        await console.press("enter")
        await console.press("question_mark")
        await console.until(lambda: isinstance(app.screen, HelpScreen), "the help")


async def test_a_session_that_cannot_be_made_ends_the_console_with_its_message() -> None:
    async def full() -> None:
        raise JournalError("State folder", "/state is full.", "Make room.")

    app = ConsoleApp(awaited(FakeSession(), full))
    async with app.run_test() as pilot:
        await Driven(app, pilot).until(lambda: app.return_code is not None, "the end")
    assert app.return_code == 2


async def test_one_may_leave_before_there_is_a_session() -> None:
    given_up = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    app = ConsoleApp(awaited(FakeSession(), never))
    async with app.run_test() as pilot:
        await Driven(app, pilot).shows("first-named")
        app.leave()
        await Driven(app, pilot).until(lambda: app.return_code is not None, "the end")
    assert given_up.is_set()


async def test_the_bell_is_that_of_the_session_that_was_awaited() -> None:
    ready = asyncio.Event()
    bell = LabSettings(triage=TriageSection(bell=True, notify="critical"))
    app = ConsoleApp(awaited(FakeSession(settings=bell), ready.wait))
    async with app.run_test(size=WIDE) as pilot:
        console = Driven(app, pilot)
        await console.shows("first-named")
        assert app.look.bell == ""
        ready.set()
        await console.until(lambda: app.look.bell == "critical", "the lab's bell")
