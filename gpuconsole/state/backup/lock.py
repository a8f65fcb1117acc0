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
from gpuconsole.state.filesystem import lock, open_lock

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
            file = open_lock(self._path)
            if not lock(file, fcntl.LOCK_SH):
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
    file = open_lock(folder / LOCK_NAME)
    try:
        if not lock(file):
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
