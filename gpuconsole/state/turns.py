"""One measurement at a time for a state folder, whichever process makes it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from gpuconsole.errors import JournalError
from gpuconsole.state.filesystem import make_folder

LOOK_EVERY_S = 0.2
_NAME = "measuring.lock"


@contextlib.asynccontextmanager
async def measuring_turn(
    state: Path, sleep: Callable[[float], Awaitable[None]], waits: Callable[[], None]
) -> AsyncIterator[None]:
    """Wait for the turn, calling `waits` once where another measurement is under way.

    The kernel ends the turn with its process. JournalError where the folder cannot be used.
    """
    file = _opened(state)
    try:
        first = True
        while not _locked(file):
            if first:
                waits()
            first = False
            await sleep(LOOK_EVERY_S)
        yield
    finally:
        os.close(file)


def _opened(state: Path) -> int:
    path = state / _NAME
    try:
        make_folder(state)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(
            "State folder cannot be used",
            f"{path}: {error.strerror}.",
            "Check space and rights of the state folder.",
        ) from error


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
