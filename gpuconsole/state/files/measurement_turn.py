"""One measurement at a time for a state folder, across processes.

The process that holds the lock notes the host on which it is about to create a container. The note
outlives a process that is killed, and the lock does not: a note without a holder of the lock names
a host on which a container may remain.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import JournalError
from gpuconsole.state.filesystem import lock, make_folder, open_lock

LOOK_EVERY_S = 0.2
_NAME = "measuring.lock"
_LONGEST = 512
"""Bytes of a note."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of this process."""

    _file: int

    @property
    def left_on(self) -> str:
        """The host on which a process that was killed may have left a container; "" for none."""
        return os.pread(self._file, _LONGEST, 0).decode("utf-8", "replace")

    def note(self, host: str) -> None:
        """Note the host on which a container is made; "" once it is gone."""
        # A disk that is full must not keep a script from being measured.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, host.encode()[:_LONGEST], 0)


@contextlib.asynccontextmanager
async def measuring_turn(
    state: Path, sleep: Callable[[float], Awaitable[None]], waits: Callable[[], None]
) -> AsyncIterator[Turn]:
    """Wait for the turn, calling `waits` once where another measurement is under way.

    The kernel ends the turn with its process. JournalError where the folder cannot be used.
    """
    file = _opened(state)
    try:
        first = True
        while not lock(file):
            if first:
                waits()
            first = False
            await sleep(LOOK_EVERY_S)
        yield Turn(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def free_turn(state: Path) -> Iterator[Turn | None]:
    """Take the turn if no process has it, else give None. JournalError as above."""
    file = _opened(state)
    try:
        yield Turn(file) if lock(file) else None
    finally:
        os.close(file)


def left_on(state: Path) -> str:
    """Return the host on which a process that was killed may have left a container; "" for none,
    and while another measures."""
    try:
        if not (state / _NAME).stat().st_size:
            return ""
        with free_turn(state) as turn:
            return "" if turn is None else turn.left_on
    except (OSError, JournalError):
        return ""


def _opened(state: Path) -> int:
    make_folder(state)
    return open_lock(state / _NAME)
