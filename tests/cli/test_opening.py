"""What the terminal shows before the console draws, and how it is given back."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import termios
import threading
from pathlib import Path

from gpuconsole.cli.opening import in_columns
from tests.waiting import DEADLINE_S

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
