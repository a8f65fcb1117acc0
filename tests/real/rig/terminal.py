"""The console in a real terminal: keys in, the screen out, through tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from tests.real.rig.patience import PATIENCE_S


def why_not() -> str:
    """Return why there is no terminal to be had, or ""."""
    return "" if shutil.which("tmux") else "tmux is not installed"


class Terminal:
    """A program in a terminal of its own. Use as a context manager.

    tmux reads every byte that the program writes, as a person's terminal would: an escape
    sequence that slips through changes what is asked for here.
    """

    def __init__(self, folder: Path, command: Sequence[str], size: tuple[int, int]) -> None:
        self._socket = folder / "tmux.sock"
        self._command = list(command)
        self._size = size
        self._code = folder / "exit-code"

    def __enter__(self) -> Terminal:
        width, height = self._size
        # The clipboard is open to the program, so that a test can see what got into it.
        wanted = {"remain-on-exit": "on", "escape-time": "0", "set-clipboard": "on"}
        options: list[str] = []
        for name, value in wanted.items():
            options += ["set-option", "-g", name, value, ";"]
        # tmux now and then misses that a program has ended, so that a shell notes it.
        noted = ["sh", "-c", '"$@"; echo $? >"$0"', str(self._code), *self._command]
        start = ["new-session", "-d", "-x", str(width), "-y", str(height), "--", *noted]
        self._tmux(*options, *start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")

    @property
    def text(self) -> str:
        """All that is on the screen, line by line."""
        return self._tmux("capture-pane", "-p")

    def ask(self, what: str) -> str:
        """Return one of tmux's facts about the terminal, such as `#{pane_title}`."""
        return self._tmux("display-message", "-p", what).rstrip("\n")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def type(self, words: str) -> None:
        """Type words."""
        self._tmux("send-keys", "-l", words)

    def until(self, condition: Callable[[str], object], within_s: float = PATIENCE_S) -> str:
        """Wait until the screen fulfils a condition; returns the screen."""
        deadline = time.monotonic() + within_s
        while not condition(text := self.text):
            assert time.monotonic() < deadline, f"not in time; the screen is\n{text}"
            time.sleep(0.05)
        return text

    def shows(self, *words: str, within_s: float = PATIENCE_S) -> str:
        """Wait until all the words are on the screen; returns it."""
        return self.until(lambda text: all(word in text for word in words), within_s)

    def ended(self, within_s: float = PATIENCE_S) -> int:
        """Wait for the program's end; returns its exit code."""
        deadline = time.monotonic() + within_s
        while not (self._code.exists() and self._code.read_text()):
            assert time.monotonic() < deadline, f"it runs on; the screen is\n{self.text}"
            time.sleep(0.05)
        return int(self._code.read_text())

    def peak_mib(self) -> float:
        """Return the most memory that the program has held so far."""
        shell = self.ask("#{pane_pid}")
        program = Path(f"/proc/{shell}/task/{shell}/children").read_text().strip()
        for line in Path(f"/proc/{program}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the program has ended")

    def _tmux(self, *words: str) -> str:
        base = ["tmux", "-f", "/dev/null", "-S", str(self._socket)]
        env = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        done = subprocess.run(
            [*base, *words],
            capture_output=True,
            text=True,
            env=env,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
