"""The terminal that the console draws on, which may be closed at any time."""

from __future__ import annotations

import contextlib
from typing import Any, TextIO, cast

from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver


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
