"""Notices when the journal on disk is no longer the one that was opened.

SQLite continues with files that were removed or replaced under it, and what is written then is
lost. Three files belong together: the journal, its write-ahead log and their shared memory.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError

IDENTITY_NAME = "identity"
"""A file beside the journal with the journal's id: where it is, there was a journal."""
RESTORE_HINT = (
    "Restore a backup with `gpuconsole journal restore`; `gpuconsole journal backups` lists them."
    " Jobs that run are not touched."
)
EMPTY = "it is empty"
_ID = re.compile(r"[0-9a-f]{32}")
_PARTS = ("", "-wal", "-shm")


class JournalLostError(JournalError):
    """The journal is gone, was exchanged or is damaged. Nothing may be written or launched."""

    def __init__(self, title: str, message: str) -> None:
        super().__init__(title, message, RESTORE_HINT)


def gone(path: Path) -> JournalLostError:
    """Return the error for a journal, or a file that belongs to it, that was there before."""
    return JournalLostError(
        "Journal is gone", msg("{path} was there and is not any more.", path=path)
    )


def exchanged(path: Path) -> JournalLostError:
    """Return the error for a journal that another file has replaced while it was open."""
    return JournalLostError(
        "Journal was exchanged",
        msg(
            "{path} is another file than the one that was opened. If a backup "
            "was restored, open this console again.",
            path=path,
        ),
    )


def damaged(path: Path, words: str) -> JournalLostError:
    """Return the error for a journal of which SQLite says `words`."""
    return JournalLostError(
        "Journal is damaged", msg("{path} is damaged: {words}.", path=path, words=words)
    )


def require_present(path: Path) -> None:
    """Raise JournalLostError where there was a journal and there is none, or an empty file.

    SQLite would make a new one, in which no job is.
    """
    if not path.with_name(IDENTITY_NAME).exists():
        return
    if not path.exists():
        raise gone(path)
    if path.stat().st_size == 0:
        raise damaged(path, EMPTY)


def identity_of(folder: Path) -> str:
    """Return the id of the journal that a state folder has, or had; JournalError where it had
    none."""
    try:
        identity = (folder / IDENTITY_NAME).read_text("ascii").strip()
    except (OSError, UnicodeError):
        identity = ""
    if not _ID.fullmatch(identity):
        raise JournalError(
            "No journal",
            msg("{folder} never had a journal.", folder=folder),
            "There is nothing to restore.",
        )
    return identity


def note_identity(path: Path, journal: str) -> None:
    """Keep the id of a journal beside it, so that its loss is noticed. A full disk keeps no
    journal from being opened: the next opening tries again."""
    place = path.with_name(IDENTITY_NAME)
    if place.exists():
        return
    draft = place.with_name(f".{IDENTITY_NAME}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{journal}\n")
        os.replace(draft, place)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


class Guard:
    """Knows the files of an open journal by device and inode."""

    def __init__(self, path: Path, *, alone: bool) -> None:
        """Note the journal as it was just opened; `alone` without the files beside it."""
        parts = _PARTS[:1] if alone else _PARTS
        self._parts = [(part, f"{path}{part}") for part in parts]
        self._files: dict[str, tuple[int, int]] = {}
        self._stamp: tuple[int, int] | None = None
        self._changed = False
        self.require_same()

    def require_same(self) -> None:
        """Raise JournalLostError where a file is gone, or is another than before."""
        for part, path in self._parts:
            # A text: a path of `pathlib` takes longer to make than the system to answer.
            try:
                status = os.stat(path)
            except FileNotFoundError:
                if part in self._files:
                    raise gone(Path(path)) from None
                continue
            file = (status.st_dev, status.st_ino)
            # SQLite makes the files beside the journal when it needs them.
            if self._files.setdefault(part, file) != file:
                raise exchanged(Path(path))
            if not part:
                if status.st_size == 0:
                    raise damaged(Path(path), EMPTY)
                stamp = (status.st_mtime_ns, status.st_size)
                self._changed = self._changed or stamp != self._stamp
                self._stamp = stamp

    def take_change(self) -> bool:
        """Whether the journal's file was written to since this was last asked: SQLite does it now
        and then, at a checkpoint, and so does what damages it."""
        self.require_same()
        changed, self._changed = self._changed, False
        return changed
