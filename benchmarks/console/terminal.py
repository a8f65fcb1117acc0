"""A program in a pseudo-terminal, drained as a terminal would, with what it costs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.installed import environment

_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
_KEPT = 1 << 16


class Terminal:
    """Use as a context manager; the program is ended on leaving."""

    def __init__(self, command: Sequence[str], size: tuple[int, int]) -> None:
        self._command = list(command)
        self._size = size
        self._news = threading.Condition()
        self._seen = bytearray()
        self.written = 0
        """Bytes that the program has drawn so far."""

    def __enter__(self) -> Terminal:
        ours, theirs = pty.openpty()
        width, height = self._size
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        env = environment(TERM="xterm-256color", COLORTERM="truecolor")
        env.pop("NO_COLOR", None)
        self._program = subprocess.Popen(
            self._command, stdin=theirs, stdout=theirs, stderr=theirs, env=env,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._end = ours
        threading.Thread(target=self._drain, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._program.send_signal(signal.SIGTERM)
        try:
            self._program.wait(10)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        os.close(self._end)

    def press(self, key: str) -> None:
        """Write a key's bytes; what was drawn before is forgotten."""
        with self._news:
            self._seen.clear()
        os.write(self._end, key.encode())

    def until(self, words: bytes, within_s: float) -> None:
        """Wait until the words were drawn, without control sequences between them."""
        deadline = time.monotonic() + within_s
        with self._news:
            while words not in _CONTROL.sub(b"", self._seen):
                left = deadline - time.monotonic()
                if left <= 0 or self._program.poll() is not None:
                    tail = bytes(self._seen[-2000:]).decode(errors="replace")
                    raise SystemExit(f"the console did not show {words!r}:\n{tail}")
                self._news.wait(left)

    def cpu_s(self) -> float:
        """Return the processor time that the program has used, by all its threads."""
        total = 0
        for task in Path(f"/proc/{self._program.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def peak_mib(self) -> float:
        """Return the most memory that the program has held so far."""
        for line in Path(f"/proc/{self._program.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise SystemExit("the console has ended")

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(self._end, 1 << 16):
                with self._news:
                    self.written += len(chunk)
                    self._seen += chunk
                    if len(self._seen) > _KEPT:
                        del self._seen[: -_KEPT // 2]
                    self._news.notify_all()
