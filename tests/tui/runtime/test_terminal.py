"""A terminal that is closed does not stop those who draw; a signal asks to leave, once it may."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver

from gpuconsole.tui.runtime.signals import ending
from gpuconsole.tui.runtime.terminal import LastingDriver, LastingFile, lasting
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
