"""A terminal that is closed does not stop those who draw; a signal asks to leave, once it may."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import tty
from select import select
from types import SimpleNamespace
from typing import Any, cast

import pytest
from textual import events
from textual.app import App
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver

from gpuconsole.tui.runtime import terminal
from gpuconsole.tui.runtime.signals import ending
from gpuconsole.tui.runtime.terminal import (
    PAUSE_S,
    LastingDriver,
    LastingFile,
    WaitableEvent,
    lasting,
)  # fmt: skip
from tests.waiting import DEADLINE_S


def test_who_draws_does_not_wait_for_a_terminal_that_is_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as gone:
        writer = WriterThread(LastingFile(gone))  # type: ignore[arg-type]
        writer.start()
        drawing = threading.Thread(target=lambda: [writer.write("x" * 9000) for _ in range(200)])
        drawing.daemon = True
        drawing.start()
        drawing.join(DEADLINE_S)
        assert not drawing.is_alive()
        writer.stop()
        # What is left of it must not be missed at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)


def test_only_a_terminal_gets_the_lasting_driver() -> None:
    assert lasting(LinuxDriver) is LastingDriver
    assert lasting(WebDriver) is WebDriver


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_a_signal_asks_to_leave_with_the_code_of_shells(number: signal.Signals) -> None:
    left = asyncio.get_running_loop().create_future()
    # The tests may run where it is ignored: in the background of a script, or under nohup.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with ending(left.set_result):
            os.kill(os.getpid(), number)
            assert await asyncio.wait_for(left, DEADLINE_S) == 128 + number
    finally:
        signal.signal(number, before)


async def test_what_the_caller_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    left: list[int] = []
    try:
        with ending(left.append):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert left == []


class Typing:
    """A driver that reads what is typed into a pseudo-terminal, in a thread as Textual runs it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses: list[float | None] = []
        self._ours, theirs = os.openpty()
        self.driver = LastingDriver(cast("App[object]", SimpleNamespace()), size=(80, 24))
        self.driver.fileno = theirs
        self._taken: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        monkeypatch.setattr(self.driver, "process_message", self._take)
        monkeypatch.setattr(terminal, "select", self._select)
        self.thread = threading.Thread(target=self.driver.run_input_thread, daemon=True)
        tty.setraw(theirs)
        self.thread.start()

    async def type(self, keys: bytes, *expected: str) -> None:
        """Type, and see that these keys are taken."""
        os.write(self._ours, keys)
        for key in expected:
            assert await asyncio.wait_for(self._taken.get(), DEADLINE_S) == key

    def close(self) -> None:
        """Close the terminal, as an emulator does that is closed."""
        os.close(self._ours)

    def end(self) -> None:
        """Ask the thread to end, as it does at once."""
        self.driver.exit_event.set()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()

    def _take(self, key: events.Key) -> None:
        self._loop.call_soon_threadsafe(self._taken.put_nowait, key.key)

    def _select(self, reading: Any, writing: Any, faulty: Any, pause: float | None) -> Any:
        self.pauses.append(pause)
        return select(reading, writing, faulty, pause)


async def test_keys_are_taken_as_they_come_and_not_looked_for_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typing = Typing(monkeypatch)
    await typing.type(b"ab", "a", "b")
    await asyncio.sleep(3 * PAUSE_S)
    looks = len(typing.pauses)
    assert set(typing.pauses) == {None}
    assert looks <= 3
    typing.end()


async def test_what_may_begin_a_sequence_is_a_key_if_nothing_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typing = Typing(monkeypatch)
    await typing.type(b"\x1b", "escape")
    await typing.type(b"\x1b[A\xc3\xa9", "up", "é")
    assert PAUSE_S in typing.pauses
    assert typing.pauses[-1] is None
    typing.end()


async def test_a_terminal_that_is_closed_is_looked_at_no_more_and_ends_the_console(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda process, number: sent.append((process, number)))
    typing = Typing(monkeypatch)
    await typing.type(b"a", "a")
    typing.close()
    await asyncio.sleep(3 * PAUSE_S)
    typing.end()
    assert len(typing.pauses) <= 4
    assert sent == [(os.getpid(), signal.SIGHUP)]


def test_an_event_can_be_waited_for_beside_files() -> None:
    event = WaitableEvent()
    for _ in range(2):
        assert select([event], [], [], 0.0)[0] == []
        event.set()
        event.set()
        assert select([event], [], [], 0.0)[0] == [event]
        event.clear()
        event.clear()
