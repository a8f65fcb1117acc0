"""Processor time of a command and of all that it starts, also in sandboxes that are killed.

What a process has used goes to its parent when that waits for it; of a sandbox that is killed with
all that is in it, no process does. So the processes are looked at while they live.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

EVERY_S = 0.1
"""How often they are looked at: what each uses after the last look is not seen."""
_TICKS = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM, _BEGUN = 11, 12, 19
"""Places in /proc/PID/stat behind the name of the process."""


class Watch:
    """Looks at a process and those below it until it is left."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used: dict[tuple[int, str], float] = {}
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._looking.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._looking.join()

    @property
    def seconds(self) -> float:
        """What all of them have used, in seconds."""
        return sum(self._used.values())

    def _look(self) -> None:
        while True:
            for pid in _below(self._pid):
                # Of a process that has just ended nothing can be read.
                with contextlib.suppress(OSError, ValueError):
                    self._note(pid)
            if self._ended.wait(EVERY_S):
                return

    def _note(self, pid: int) -> None:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            found = file.read().rpartition(")")[2].split()
        # A number may be given again.
        self._used[pid, found[_BEGUN]] = (int(found[_USER]) + int(found[_SYSTEM])) / _TICKS


def _below(pid: int) -> Iterator[int]:
    """Give a process and all below it."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                for child in file.read().split():
                    yield from _below(int(child))
