"""What the terminal shows before the console draws, and how it is given back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.cli.opening import in_columns
from tests.waiting import DEADLINE_S

LEAVE = b"\x1b[?25h\x1b[?1049l"
SCRIPT = """
import sys
from gpuconsole.cli.opening import Opening
from gpuconsole.errors import UsageError
try:
    with Opening() as opening:
        opening.show(["cedar01", "cedar02"])
        print(f"<{input()}>")
        if sys.argv[1] == "hand":
            opening.hand_over()
        else:
            raise UsageError("No inventory", "none", "")
except UsageError:
    pass
"""


MANY = """
from gpuconsole.cli.opening import Opening
with Opening() as opening:
    opening.show(["n" * 400] * 400)
    while True:
        input()
"""
AT_ONCE = """
import os, signal, sys
from gpuconsole.cli.opening import Opening
class Early(Opening):
    def show(self, hosts):
        super().show(hosts)
        os.kill(os.getpid(), int(sys.argv[1]))
with Early():
    print("it went on")
"""
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Terminal:
    """A program on a terminal of its own, 500 by 500, of which nothing is read but when asked."""

    def __init__(self, *words: str) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 500, 500, 0, 0))
        self.before = termios.tcgetattr(self._theirs)
        self.written = b""
        # Sizes that the tests' own runner has put there would go before the terminal's.
        env = {name: os.environ[name] for name in os.environ if name not in ("COLUMNS", "LINES")}
        self.child = subprocess.Popen(
            [sys.executable, "-c", *words],
            stdin=self._theirs, stdout=self._theirs, stderr=self._theirs,
            env={**env, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip

    def read_until(self, condition: Callable[[], object]) -> None:
        """Read until a condition holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, self.written[-2000:]
            if select.select([self._ours], [], [], 0.05)[0]:
                self.written += os.read(self._ours, 4096)

    def ended(self) -> tuple[int, bytes, bool]:
        """Read to its end; returns the exit code, the last that it wrote, and whether the
        terminal's attributes are as they were."""
        self.read_until(lambda: self.child.poll() is not None)
        os.write(self._theirs, b"END")
        self.read_until(lambda: self.written.endswith(b"END"))
        same = termios.tcgetattr(self._theirs) == self.before
        for end in (self._ours, self._theirs):
            os.close(end)
        return self.child.returncode, self.written.removesuffix(b"END"), same


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_at_the_first_moment_gives_the_terminal_back(number: signal.Signals) -> None:
    """The terminal is taken, and the block that returns it has not been entered yet."""
    code, written, same = Terminal(AT_ONCE, str(int(number))).ended()
    assert code == 128 + number
    assert written.endswith(LEAVE)
    assert same
    assert b"Traceback" not in written
    assert b"it went on" not in written


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_while_the_terminal_takes_nothing_gives_it_back(number: signal.Signals) -> None:
    """The program waits in the middle of a text when it hears the signal."""
    terminal = Terminal(MANY)
    terminal.read_until(lambda: b"n" * 400 in terminal.written)
    terminal.child.send_signal(number)
    code, written, same = terminal.ended()
    assert code == 128 + number
    assert written.endswith(LEAVE)
    assert same
    assert b"Traceback" not in written


def test_a_signal_that_the_caller_ignored_stays_ignored() -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    terminal = Terminal(ignoring + AT_ONCE, str(int(signal.SIGINT)))
    code, written, same = terminal.ended()
    assert code == 0
    assert b"it went on" in written
    assert same


def ran(how: str) -> tuple[str, list[object], list[object]]:
    """Run it on a terminal of its own; what was written, and the terminal before and after."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    written = bytearray()

    def read() -> None:
        asked = False
        # The last end of a terminal that is closed: EIO.
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 65536):
                written.extend(chunk)
                if b"cedar02" in written and not asked:
                    asked = True
                    os.write(ours, b"q\n")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert child.wait(DEADLINE_S) == 0
    after = termios.tcgetattr(theirs)
    os.close(theirs)
    reader.join(DEADLINE_S)
    return written.decode(), before, after


def test_hosts_are_shown_and_a_mistake_gives_the_terminal_back() -> None:
    written, before, after = ran("fail")
    assert "cedar01  cedar02" in written
    assert "connecting to 2 hosts" in written
    assert written.index("\x1b[?1049h") < written.index("cedar01") < written.index("\x1b[?1049l")
    assert after == before


def test_the_console_gets_the_screen_and_keys_typed_meanwhile_are_not_shown() -> None:
    written, before, after = ran("hand")
    assert "\x1b[?1049l" not in written
    # Typed once, shown once: by the program, not by the terminal.
    assert written.count("q") == 1
    assert after == before


def test_names_stand_in_columns() -> None:
    names = [f"host{number:02}" for number in range(5)]
    assert in_columns(names, 20) == [" host00  host01", " host02  host03", " host04"]
    assert in_columns(["a" * 60], 20) == [f" {'a' * 19}"]
    assert in_columns([], 20) == []
