"""A lock beside the journal that says whether a process dispatches, even where no journal is left.

The role in the journal decides who dispatches; this only lets a restore know that somebody does.
The kernel frees it when its holder ends, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError

LOCK_NAME = "dispatcher.lock"
_SHOWN = 200


class DispatcherLock:
    """Held, together with any other that does, while a process dispatches."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        self._file = -1

    def take(self, owner: str) -> bool:
        """Hold the lock for `owner`; False while the journal is being restored."""
        if self._file < 0:
            file = _opened(self._path)
            if not _locked(file, fcntl.LOCK_SH):
                os.close(file)
                return False
            # On a full disk it is held all the same, only by an unknown owner.
            with contextlib.suppress(OSError):
                os.ftruncate(file, 0)
                os.pwrite(file, owner.encode("utf-8", "replace"), 0)
            self._file = file
        return True

    def free(self) -> None:
        """Hold it no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextlib.contextmanager
def nobody_dispatches(folder: Path) -> Iterator[None]:
    """Keep every process from dispatching; JournalError that names one that does."""
    file = _opened(folder / LOCK_NAME)
    try:
        if not _locked(file, fcntl.LOCK_EX):
            owner = clean(os.pread(file, _SHOWN, 0).decode("utf-8", "replace"), _SHOWN)
            raise JournalError(
                "A console dispatches",
                msg(
                    "{value} works with the journal in {folder}.",
                    value=owner or "A console",
                    folder=folder,
                ),
                "End it first: `q` in a console, SIGTERM for `gpuconsole dispatch`. Jobs run on.",
            )
        yield
    finally:
        os.close(file)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(
            "State folder cannot be used",
            msg("{path}: {strerror}.", path=path, strerror=error.strerror),
            "Check space and rights of the state folder.",
        ) from error


def _locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
