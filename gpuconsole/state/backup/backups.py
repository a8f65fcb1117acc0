"""Dated copies of the journal, and putting one in its place.

A copy is made by SQLite itself (`VACUUM INTO`): whole, of one moment, while others write. It lies
in `backups/` of the state folder, readable by this user alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from gpuconsole.core.file_trust import make_private, private
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import JOURNAL_NAME
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, UsageError
from gpuconsole.state.backup.lock import nobody_dispatches
from gpuconsole.state.backup.restoration import begin
from gpuconsole.state.migrations import VERSION, migrate

FOLDER = "backups"
DAYS_KEPT = 7
"""Of so many days the latest copy is kept."""
MIGRATIONS_KEPT = 3
"""Copies from before a migration."""
LOST_KEPT = 3
"""Journals that a restore put aside."""
_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"journal-(\d{8}T\d{6}Z)(?:-(\d+))?(-before-v\d+)?\.sqlite")
_LOST = "lost-"


@dataclass(frozen=True, slots=True)
class Backup:
    """One copy of the journal."""

    path: Path
    made_at: float
    before_migration: bool
    size_bytes: int

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.path.stem


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    backup: Backup | None
    """None for an empty journal."""
    aside: tuple[Path, ...]
    """Where the files of the former journal are."""


def backups(folder: Path) -> tuple[Backup, ...]:
    """Return the copies of a state folder's journal, the latest first."""
    backup_list = []
    with contextlib.suppress(FileNotFoundError):
        for path in (folder / FOLDER).iterdir():
            named = _NAME.fullmatch(path.name)
            if named and path.is_file():
                made_at = _seconds(named[1])
                backup_list.append(Backup(path, made_at, bool(named[3]), path.stat().st_size))
    return tuple(
        sorted(backup_list, key=lambda backup: (backup.made_at, backup.path.name), reverse=True)
    )


def make_backup(folder: Path, now: float, *, before: int | None = None) -> Backup:
    """Copy the journal of a state folder; `before` is the version to which it will be migrated.

    Older copies go as their number exceeds what is kept. JournalError when the copy cannot be made;
    then nothing is left of it and no other copy went.
    """
    place = folder / FOLDER
    mark = f"-before-v{before}" if before is not None else ""
    draft = place / f".draft-{os.getpid()}"
    try:
        make_private(place)
        target = _unused(place, f"journal-{_stamp(now)}", f"{mark}.sqlite")
        # An empty file of our own, so that SQLite does not choose its rights.
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(folder / JOURNAL_NAME)) as journal:
            journal.execute("VACUUM INTO ?", (str(draft),))
        _sync(draft)
        os.replace(draft, target)
        _sync(place)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise JournalError(
            "Journal was not backed up",
            msg("{place}: {value}.", place=place, value=getattr(error, "strerror", None) or error),
            "Free some space there; it is tried again.",
        ) from error
    made_at = _seconds(_stamp(now))
    backup = Backup(target, made_at, before is not None, target.stat().st_size)
    _drop_old(backups(folder))
    return backup


def restore(folder: Path, name: str | None, now: float, *, journal: str = "") -> Restored:
    """Put a backup in the journal's place, the latest that can be read where no name is given.

    The journal that is there is put aside under a dated name. With `journal`, an id, an empty
    journal of that id is what takes its place. Refused while a console dispatches. UsageError for a
    name that is none, JournalError when there is nothing that could be restored.
    """
    with nobody_dispatches(folder):
        draft = folder / f".restoring-{os.getpid()}"
        try:
            chosen = None if journal else _copied(_candidates(folder, name), draft)
            if journal:
                _make_empty(draft, journal)
            _prepare(draft, chosen.made_at if chosen is not None else 0.0, now)
            _sync(draft)
            aside = _put_aside(folder, now)
            os.replace(draft, folder / JOURNAL_NAME)
            _sync(folder)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                "Journal was not restored",
                msg(
                    "{folder}: {value}.",
                    folder=folder,
                    value=getattr(error, "strerror", None) or error,
                ),
                "Check space and rights of the state folder; the backups are as they were.",
            ) from error
        finally:
            for part in ("", "-journal", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    os.unlink(f"{draft}{part}")
    return Restored(chosen, aside)


def install(folder: Path, copy: Path, now: float, *, made_at: float, hold: bool) -> None:
    """Put a copy that a standby holds in the journal's place; `copy` is used up.

    With `hold`, jobs that wait are held until all hosts were asked, as after a restore: the copy
    may be older than what runs. `made_at` is when it was made. Refused while a console dispatches.
    JournalError for a copy that is damaged, and where it cannot be put there.
    """
    with nobody_dispatches(folder):
        fault = fault_of(copy)
        if fault:
            raise JournalError(
                "The copy of the journal cannot be used",
                msg("{copy}: {fault}.", copy=copy, fault=fault),
                "Restore a backup with `gpuconsole journal restore`.",
            )  # fmt: skip
        try:
            _prepare(copy, made_at, now, hold=hold)
            _sync(copy)
            _put_aside(folder, now)
            os.replace(copy, folder / JOURNAL_NAME)
            _sync(folder)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                "The copy of the journal was not put in its place",
                msg(
                    "{folder}: {value}.",
                    folder=folder,
                    value=getattr(error, "strerror", None) or error,
                ),
                "Check space and rights of the state folder.",
            ) from error


def _candidates(folder: Path, name: str | None) -> Sequence[Backup]:
    candidates = backups(folder)
    if not candidates:
        raise JournalError(
            "No backup",
            msg("{value} has no backup of the journal.", value=folder / FOLDER),
            "`gpuconsole journal restore --empty` begins with an empty queue and adopts what runs.",
        )
    if name is None:
        return candidates
    named = [backup for backup in candidates if name in (backup.name, backup.path.name)]
    if not named:
        raise UsageError(
            "No such backup",
            msg("{value} is not in {value2}.", value=clean(name, 200), value2=folder / FOLDER),
            "`gpuconsole journal backups` lists them.",
        )
    return named


def _copied(candidates: Iterable[Backup], draft: Path) -> Backup:
    """Copy the first of these that is whole to `draft`."""
    faults = []
    for candidate in candidates:
        with candidate.path.open("rb") as source, open(draft, "wb", opener=private) as target:
            shutil.copyfileobj(source, target)
        fault = fault_of(draft)
        if not fault:
            return candidate
        faults.append(f"{candidate.name}: {fault}")
    raise JournalError(
        "No backup can be used",
        msg("{names}.", names="; ".join(faults)),
        "Name another one, or use --empty.",
    )


def fault_of(path: Path) -> str:
    """Return what is wrong with a journal's file, looked through whole; "" when nothing is."""
    try:
        place = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True)) as connection:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if result != "ok":
                return clean(str(result), 200)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (rows,) = connection.execute(
                "SELECT count(*) FROM meta WHERE key = 'journal'"
            ).fetchone()
    except sqlite3.Error as error:
        return clean(str(error), 200)
    if version > VERSION:
        return f"it was written by a newer gpuconsole (version {version}, this one knows {VERSION})"
    return "" if rows else "it has no id"


def _make_empty(path: Path, journal: str) -> None:
    with contextlib.closing(_connected(path)) as connection:
        connection.execute("BEGIN")
        migrate(connection, journal)
        connection.execute("COMMIT")


def _prepare(path: Path, backup_at: float, now: float, *, hold: bool = True) -> None:
    """Mark a copy as having no dispatcher and, with `hold`, as restored."""
    with contextlib.closing(_connected(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN")
        connection.execute("UPDATE dispatcher SET owner = '', heartbeat = 0, epoch = epoch + 1")
        if hold:
            begin(connection, backup_at, now)
        connection.execute("COMMIT")


def _connected(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def _put_aside(folder: Path, now: float) -> tuple[Path, ...]:
    """Move what there is of a journal to the backups; the journal itself first, so that no process
    opens it without its log."""
    place = folder / FOLDER
    make_private(place)
    target = _unused(place, f"{_LOST}{_stamp(now)}", ".sqlite")
    moved = []
    for part in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder / f"{JOURNAL_NAME}{part}", f"{target}{part}")
            moved.append(Path(f"{target}{part}"))
    for old in sorted(place.glob(f"{_LOST}*.sqlite"), reverse=True)[LOST_KEPT:]:
        for part in ("", "-wal", "-shm"):
            Path(f"{old}{part}").unlink(missing_ok=True)
    return tuple(moved)


def _drop_old(existing: Sequence[Backup]) -> None:
    """Remove what is more than is kept; `existing` has the latest first."""
    days: set[str] = set()
    migrations = 0
    for backup in existing:
        if backup.before_migration:
            migrations += 1
            old = migrations > MIGRATIONS_KEPT
        else:
            day = _stamp(backup.made_at)[:8]
            old = day in days or len(days) == DAYS_KEPT
            days.add(day)
        if old:
            backup.path.unlink(missing_ok=True)


def _unused(place: Path, stem: str, end: str) -> Path:
    """Return a path that is not taken: several things may happen in a second."""
    numbers = itertools.count(2)
    path = place / f"{stem}{end}"
    while path.exists():
        path = place / f"{stem}-{next(numbers)}{end}"
    return path


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, tz=timezone.utc).strftime(_STAMP)


def _seconds(stamp: str) -> float:
    return datetime.strptime(stamp, _STAMP).replace(tzinfo=timezone.utc).timestamp()


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
