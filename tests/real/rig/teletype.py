"""A program on a terminal of its own, of which every mode is known afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.real.rig.patience import PATIENCE_S

_MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
_KEYBOARD = re.compile(rb"\x1b\[([<>])[0-9]*u")
_ESCAPE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)")
_INITIAL = {7: True, 25: True}
"""Private modes that are set on every terminal: lines wrap, the cursor is seen."""


class Teletype:
    """A pseudo terminal, 120 by 36, and the program that leads its session. Use as a context."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._command = list(command)
        self._env = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._written = bytearray()
        self._hung_up = False

    def __enter__(self) -> Teletype:
        self._master, self._slave = os.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
        self.attributes = self._attributes()
        name = os.ttyname(self._slave)
        # A session of its own, of which the terminal is the controlling one: it hears a hang-up.
        leader = ["setsid", "--ctty", *self._command]
        with open(name, "r+b", buffering=0) as end:
            self.process = subprocess.Popen(
                leader, stdin=end, stdout=end, stderr=end, env=self._env
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self._hung_up:
            self.hang_up()

    @property
    def text(self) -> str:
        """All that was written so far, without what moves the cursor or sets colours."""
        return _ESCAPE.sub(b"", bytes(self._written)).decode(errors="replace")

    def until(self, condition: Callable[[bytes], object], within_s: float = PATIENCE_S) -> None:
        """Wait until what was written fulfils a condition."""
        deadline = time.monotonic() + within_s
        while not condition(bytes(self._written)):
            assert self.process.poll() is None, f"it has ended: {self.text[-2000:]}"
            assert time.monotonic() < deadline, f"not in time: {self.text[-2000:]}"
            time.sleep(0.01)

    def shows(self, *words: str) -> None:
        """Wait until all the words were written."""
        self.until(lambda _: all(word in self.text for word in words))

    def until_raw(self, within_s: float = PATIENCE_S) -> None:
        """Wait until the program takes keys one by one: until then the terminal takes some, such as
        Ctrl-Q, for itself."""
        deadline = time.monotonic() + within_s
        while termios.tcgetattr(self._slave)[3] & termios.ICANON:
            assert self.process.poll() is None, f"it has ended: {self.text[-2000:]}"
            assert time.monotonic() < deadline, "the terminal stays as it was"
            time.sleep(0.01)

    def press(self, keys: bytes) -> None:
        """Send keys."""
        os.write(self._master, keys)

    def resize(self, columns: int, rows: int) -> None:
        """Change the window's size, of which its program hears."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Take the terminal away, as a window that is closed."""
        # Once alone: its numbers may be those of other files by then.
        self._hung_up = True
        os.close(self._slave)
        os.close(self._master)

    def ended(self, within_s: float = PATIENCE_S) -> int:
        """Wait for the program's end; returns its exit code, negative for a signal's."""
        return self.process.wait(within_s)

    def unrestored(self) -> dict[str, object]:
        """Return what of the terminal is not as it was before the program began."""
        # All that it has written must have been read: a mark of our own comes behind it.
        os.write(self._slave, b"\x00END")
        deadline = time.monotonic() + PATIENCE_S
        while not self._written.endswith(b"\x00END"):
            assert time.monotonic() < deadline, "the terminal is not read"
            time.sleep(0.01)
        modes: dict[int, bool] = {}
        for numbers, letter in _MODE.findall(self._written):
            modes |= dict.fromkeys(map(int, numbers.split(b";")), letter == b"h")
        found: dict[str, object] = {
            f"mode {mode}": on for mode, on in modes.items() if on is not _INITIAL.get(mode, False)
        }
        pushed = [way == b">" for way in _KEYBOARD.findall(self._written)]
        if sum(pushed) != len(pushed) - sum(pushed):
            found["keyboard protocol"] = pushed
        if self._attributes() != self.attributes:
            found["attributes"] = self._attributes()
        return found

    def left_behind(self) -> list[str]:
        """Return the command lines of processes of its session that are still there."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                after = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(after[3]) == self.process.pid and after[0] != "Z":
                    found.append((folder / "cmdline").read_text().replace("\0", " "))
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        self.process.send_signal(number)

    def _attributes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self._written += data
