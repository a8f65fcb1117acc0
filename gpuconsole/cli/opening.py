"""`Opening`: what the terminal shows before the console draws.

To import the console takes most of its start. What is known before is shown at once, on the
terminal's other screen, which the console then draws over: the program's name, then the hosts of
the inventory. Keys typed meanwhile wait for the console.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import termios
from collections.abc import Sequence
from types import TracebackType
from typing import Any

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_TOP = "\x1b[H\x1b[2J"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_GAP = 2
"""Columns between two names."""


class Opening:
    """The terminal's other screen, from the first word to the console's first frame."""

    def __init__(self) -> None:
        # Textual reads keys from stdin and draws on stderr.
        self._shown = sys.stdin.isatty() and sys.stderr.isatty()
        self._before: list[Any] | None = None
        self._handed_over = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Opening:
        """Take the other screen, and keep what is typed from being shown on it."""
        if self._shown:
            # Before the first word: Ctrl-C would raise an error here, where nothing would hear it.
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._end)
            self._keep_keys()
            sys.stderr.write(_ENTER)
            self.show(())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back as it was; the console itself leaves the screen it draws on."""
        if self._shown and (kind is not None or not self._handed_over):
            self._leave()
        self._restore_keys()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def show(self, hosts: Sequence[str]) -> None:
        """Show the hosts that will be connected, as many as there is room for."""
        if not self._shown:
            return
        columns, rows = shutil.get_terminal_size()
        what = f"connecting to {len(hosts)} hosts" if len(hosts) > 1 else "opening"
        lines = [f"{_BOLD} gpuconsole{_PLAIN}  {what}"[: columns + len(_BOLD + _PLAIN)], ""]
        lines += in_columns(hosts, columns - 1)
        sys.stderr.write(_TOP + "\r\n".join(lines[: max(1, rows - 1)]))
        sys.stderr.flush()

    def hand_over(self) -> None:
        """Leave the screen to the console, which takes it away at its end."""
        self._handed_over = True

    def _end(self, number: int, _frame: object) -> None:
        """Give the terminal back and end with the code that shells expect, until the console has
        handlers of its own.

        Nothing is flushed: the signal may have come in the middle of that.
        """
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), _LEAVE.encode())
        self._restore_keys()
        os._exit(128 + number)

    def _leave(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(_LEAVE)
            sys.stderr.flush()

    def _restore_keys(self) -> None:
        if self._before is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._before)

    def _keep_keys(self) -> None:
        with contextlib.suppress(termios.error, OSError):
            self._before = termios.tcgetattr(sys.stdin.fileno())
            quiet = termios.tcgetattr(sys.stdin.fileno())
            quiet[0] &= ~termios.ICRNL
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, quiet)


def in_columns(names: Sequence[str], width: int) -> list[str]:
    """Return lines of names in columns, as wide as the longest name."""
    if not names:
        return []
    cell = max(map(len, names)) + _GAP
    across = max(1, (width - 1) // cell)
    return [
        " " + "".join(f"{name:{cell}}" for name in names[at : at + across])[: width - 1].rstrip()
        for at in range(0, len(names), across)
    ]
