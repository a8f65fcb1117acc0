"""The journal's SQLite file: opening, migrating, transactions, and its errors in plain words."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuconsole.core.file_trust import require_private
from gpuconsole.core.text import clean
from gpuconsole.core.util.user_dirs import JOURNAL_NAME
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError
from gpuconsole.state import filesystem, journal_guard
from gpuconsole.state.backup.backups import make_backup
from gpuconsole.state.journal_guard import Guard, JournalLostError
from gpuconsole.state.migrations import VERSION, migrate

BUSY_TIMEOUT_S = 2.0
SYNCHRONOUS = "FULL"
"""What is written is on the disk before the next step, so that a power cut loses no job."""
_TROUBLES = (
    ("locked", "Journal is locked", "Another program holds {path}.", "Try again in a moment."),
    ("busy", "Journal is locked", "Another program holds {path}.", "Try again in a moment."),
    ("full", "Disk is full", "Nothing could be added to {path}; what was there is safe.",
     "Free some space, then repeat the command."),
    ("readonly", "Journal is read-only", "{path} cannot be written.",
     "Choose another folder with --state DIR, or open the console with --read-only."),
    ("unable to open", "Journal cannot be opened", "{path} cannot be opened.",
     "Check the folder's permissions, or choose another with --state DIR."),
)  # fmt: skip
"""SQLite's own words for a trouble (stable since 3.7; error codes only reach Python 3.11)."""

_DAMAGE = ("not a database", "malformed")
_IO = "disk I/O error"
_NO_SHARED_MEMORY = ("unable to open", "readonly", _IO)
_SHARED_MEMORY_BYTES = 32768


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into JournalError, those that mean damage into JournalLostError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # Where the disk is full SQLite cannot make its shared memory, and names no reason.
        words = "disk is full" if _IO in str(error) and _is_full(path) else str(error)
        if any(sign in words for sign in _DAMAGE):
            raise journal_guard.damaged(path, words) from error
        for sign, title, message, hint in _TROUBLES:
            if sign in words:
                raise JournalError(title, message.format(path=path), hint) from error
        raise JournalError(
            "Journal cannot be used",
            msg("{path}: {words}.", path=path, words=words),
            "Choose another with --state DIR.",
        ) from error
    except UnicodeDecodeError as error:
        # The module decodes texts itself, and raises this bare.
        raise journal_guard.damaged(path, "a text in it is no UTF-8") from error


class Database:
    """One connection to the journal's file, for one thread.

    Write-ahead log, and every commit reaches the disk before it returns: a commit lost to a power
    cut could start a job twice.
    """

    def __init__(
        self, folder: Path, *, clock: Callable[[], float], read_only: bool = False
    ) -> None:
        """Open and, if needed, make or migrate the journal in `folder`. JournalError says why not.

        Read-only touches nothing: where there is no journal it reads as an empty one.
        """
        self.path = folder / JOURNAL_NAME
        self.read_only = read_only
        self._clock = clock
        self.lost: JournalLostError | None = None
        self._guard: Guard | None = None
        if not read_only:
            filesystem.make_folder(folder)
            filesystem.require_local(folder)
            filesystem.require_writable(folder)
        elif folder.is_dir():
            require_private(folder)
        journal_guard.require_present(self.path)
        with plain_errors(self.path):
            self._connection = self._connect()
            try:
                self._prepare()
                self._guard = self._guarded()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the connection; the last one folds the write-ahead log back."""
        self._connection.close()

    def query(self, statement: str, arguments: Sequence[object] = ()) -> list[sqlite3.Row]:
        """Return the rows of a SELECT."""
        with self._watched():
            return self._connection.execute(statement, arguments).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing, alone; within another transaction, as a part of it."""
        if self._connection.in_transaction:
            yield self._connection
            return
        with self._watched():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._require_same()
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself, as it does on a full disk.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give a connection of its own that only reads, for long work in a thread; None where
        there is no journal yet."""
        if self.lost is not None:
            raise self.lost
        if not self.path.exists():
            yield None
            return
        with plain_errors(self.path), contextlib.closing(self._reader()) as connection:
            yield connection

    def changes(self) -> int:
        """Return how many rows this connection has written since it was opened."""
        return self._connection.total_changes

    def outside_version(self) -> int:
        """Return a number that changes when another connection has written."""
        # Asked dozens of times a second: the context manager costs more than the question.
        if self.lost is None:
            try:
                return int(self._scalar("PRAGMA data_version"))
            except sqlite3.DatabaseError:
                pass
        with self._watched():
            return int(self._scalar("PRAGMA data_version"))

    def require_intact(self) -> None:
        """Raise JournalLostError if the journal on disk is gone, replaced or damaged.

        Cheap while nothing changed: a process that works on it calls this each second.
        """
        with self._watched():
            if self._guard is not None and self._guard.take_change():
                # What this connection holds in memory would hide the damage from it.
                with contextlib.closing(_open(f"{self.path.absolute().as_uri()}?mode=ro")) as fresh:
                    self._check(fresh)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn SQLite's errors into ours; once the journal is lost nothing is asked of it."""
        if self.lost is not None:
            raise self.lost
        try:
            with plain_errors(self.path):
                yield
        except JournalLostError as error:
            self.lost = error
            raise

    def _guarded(self) -> Guard | None:
        """Look through an existing journal, and return what notices its loss from now on."""
        if not self.path.exists():
            return None
        self._check(self._connection)
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'journal'").fetchone()
        if row is not None and not self.read_only:
            journal_guard.note_identity(self.path, row["value"])
        return Guard(self.path, alone=self.read_only)

    def _check(self, connection: sqlite3.Connection) -> None:
        (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise journal_guard.damaged(self.path, clean(str(result), 200))

    def _require_same(self) -> None:
        if self._guard is not None:
            self._guard.require_same()

    def _connect(self) -> sqlite3.Connection:
        if not self.read_only:
            _keep_private(self.path)
            return _open(str(self.path))
        return self._reader() if self.path.exists() else _open(":memory:")

    def _reader(self) -> sqlite3.Connection:
        place = self.path.absolute().as_uri()
        connection = _open(f"{place}?mode=ro")
        try:
            connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if not any(sign in str(error) for sign in _NO_SHARED_MEMORY):
                raise
            # Without the right to write, SQLite cannot create its shared memory. No process with
            # that right has created it either, so none writes, and reading needs no lock.
            return _open(f"{place}?immutable=1")
        return connection

    def _prepare(self) -> None:
        version = int(self._scalar("PRAGMA user_version"))
        if version > VERSION:
            raise JournalError(
                "Journal is too new",
                msg(
                    "{path} was written by a newer gpuconsole (version {version}, this one "
                    "knows {version2}). Nothing was changed.",
                    path=self.path,
                    version=version,
                    version2=VERSION,
                ),
                "Upgrade gpuconsole, or choose another folder with --state DIR.",
            )
        if version < VERSION and self.read_only and self.path.exists():
            raise JournalError(
                "Journal is too old to only read",
                msg(
                    "{path} has version {version}; this gpuconsole reads {version2}.",
                    path=self.path,
                    version=version,
                    version2=VERSION,
                ),
                "Any command that writes upgrades it, such as opening the console.",
            )
        if not self.read_only:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        self._connection.execute("PRAGMA foreign_keys = ON")
        if version < VERSION:
            self._migrate(version)

    def _migrate(self, version: int) -> None:
        if version:
            make_backup(self.path.parent, self._clock(), before=VERSION)
        with self.transaction() as connection:
            # Another console may have migrated while this one waited for the lock.
            migrate(connection, uuid.uuid4().hex)

    def _scalar(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()[0]


def _keep_private(path: Path) -> None:
    """Make the journal's file readable for this user alone, also if it was open to others.

    SQLite's auxiliary files get the permissions of the journal. An existing journal is never
    opened here: closing it would drop SQLite's locks of this process on it.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.chmod(f"{path}{end}", 0o600)
    except OSError:
        # SQLite says what is wrong with the place, as for every other fault of the file.
        return


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _SHARED_MEMORY_BYTES
    except OSError:
        return False


def _open(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        place,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        uri=place.startswith("file:"),
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    return connection
