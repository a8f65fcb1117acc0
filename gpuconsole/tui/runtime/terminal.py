"""The terminal that the console draws on, which may be closed at any time."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from select import select
from typing import Any, TextIO, cast

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

PAUSE_S = 0.1
"""How often it is looked whether a sequence goes on, and how long answers of the terminal that has
been handed back are awaited."""


class LastingFile:
    """A file to write to; what it does not take any more is dropped.

    Textual's writing thread would end at the first such text, and all who draw then wait for ever
    for the queue before it to empty.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write text if it can be written."""
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Flush if that can be done."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """Return the number of the file."""
        return self._file.fileno()


class WaitableEvent(threading.Event):
    """An event that `select` can wait for, beside files."""

    def __init__(self) -> None:
        super().__init__()
        self._out, self._in = os.pipe()

    def fileno(self) -> int:
        """Return the number of a file that can be read while the event is set."""
        return self._out

    def set(self) -> None:
        """Set it once."""
        if not self.is_set():
            super().set()
            os.write(self._in, b"\0")

    def clear(self) -> None:
        """Take it back."""
        if self.is_set():
            super().clear()
            os.read(self._out, 1)


def _read(file: int) -> bytes:
    """Return what can be read; nothing where the file is closed at its other end."""
    try:
        return os.read(file, 4096)
    except OSError:
        return b""


class LastingDriver(LinuxDriver):
    """Textual's driver, for a terminal that may be closed."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast("Any", LastingFile(cast("TextIO", self._file)))
        self._suspended = False
        self.exit_event: WaitableEvent = WaitableEvent()
        """Set while the thread that takes keys is to end."""

    def run_input_thread(self) -> None:
        """Take keys as they come, until asked to end.

        Textual looks ten times a second, typed or not. Here that is done only while what was typed
        may be the beginning of a longer sequence.
        """
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")().decode
        leaving = self.exit_event.fileno()
        terminal = [self.fileno]

        def take(ready: Sequence[int]) -> None:
            text = ""
            if self.fileno in ready:
                typed = _read(self.fileno)
                text = decode(typed)
                if not typed:
                    terminal.clear()
                    # It is closed. The kernel says so only to the session that it belongs to.
                    os.kill(os.getpid(), signal.SIGHUP)
            for message in (*(parser.feed(text) if text else ()), *parser.tick()):
                self.process_message(message)

        while not self.exit_event.is_set():
            pause = None if parser._timeout_time is None else PAUSE_S
            take(select([*terminal, leaving], [], [], pause)[0])
        # What the terminal still answers is not for who has it next.
        take(select(terminal, [], [], PAUSE_S)[0])

    def suspend_application_mode(self) -> None:
        """Hand the terminal to somebody else."""
        super().suspend_application_mode()
        self._suspended = True

    def resume_application_mode(self) -> None:
        """Take the terminal back."""
        self._suspended = False
        super().resume_application_mode()

    def write(self, data: str) -> None:
        """Draw; while the terminal is somebody else's nothing is: the console goes on beside it,
        and draws all of its screen once it has it back."""
        if not self._suspended:
            super().write(data)


def lasting(driver: type[Driver]) -> type[Driver]:
    """Return the driver to use for the one that Textual has chosen."""
    return LastingDriver if driver is LinuxDriver else driver
