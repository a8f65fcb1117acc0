"""Copies of the journal for a standby: made by SQLite's backup, sent as the blocks that changed.

A backup (`sqlite3.Connection.backup`) is whole and of one moment while others write, and keeps each
page at its place, so that of two backups most blocks are alike. The standby keeps the blocks in a
SQLite file of its own: a copy is taken over in one transaction, or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpuconsole.core.file_trust import private
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.util.user_dirs import JOURNAL_NAME
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError
from gpuconsole.state.filesystem import make_folder

BLOCK = 32 * 1024
"""Bytes that are compared and sent together: eight pages of SQLite."""
LARGEST = 2 * 1024**3
"""Bytes of a journal that can be followed."""
DIGEST_BYTES = 16
STORE_NAME = "copy.sqlite"
_SENT_NAME = ".copy-sent"
_TAKEN_NAME = ".copy-taken"


def digest_of(data: bytes) -> bytes:
    """Return what tells blocks apart."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def digest_of_all(digests: Sequence[bytes]) -> str:
    """Return what tells whole copies apart."""
    return hashlib.blake2b(b"".join(digests), digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class Copy:
    """A backup of the journal as a file, by its blocks."""

    path: Path
    size: int
    digests: tuple[bytes, ...]

    def read(self, numbers: Sequence[int]) -> bytes:
        """Return blocks one after the other."""
        with self.path.open("rb") as file:
            content = bytearray()
            for number in numbers:
                file.seek(number * BLOCK)
                content += file.read(BLOCK)
        return bytes(content)


def make_copy(folder: Path) -> Copy:
    """Back up the journal of a state folder; the backup before is replaced. JournalError where it
    cannot be made, or is larger than can be followed."""
    path = folder / _SENT_NAME
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        with (
            contextlib.closing(sqlite3.connect(folder / JOURNAL_NAME)) as journal,
            contextlib.closing(sqlite3.connect(path)) as target,
        ):
            # It is read back at once, and made again after a crash.
            target.execute("PRAGMA synchronous = OFF")
            journal.backup(target)
        with path.open("rb") as file:
            digests = tuple(digest_of(block) for block in _blocks(file.read))
        size = path.stat().st_size
    except (OSError, sqlite3.Error) as error:
        raise JournalError(
            "Journal was not copied",
            msg("{path}: {value}.", path=path, value=getattr(error, "strerror", None) or error),
            "Free some space there; it is tried again.",
        ) from error
    if size > LARGEST:
        raise JournalError(
            "Journal was not copied",
            msg("{value} has {given_size} bytes.", value=folder / JOURNAL_NAME, given_size=size),
            msg("A standby follows at most {largest}.", largest=LARGEST),
        )  # fmt: skip
    return Copy(path, size, digests)


def _blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while block := read(BLOCK):
        yield block


@dataclass(frozen=True, slots=True)
class Held:
    """What a standby knows of the copy that it holds."""

    journal: str = ""
    """The journal's id; "" where there is no copy yet."""
    epoch: int = 0
    """The epoch of the head that sent it."""
    in_step: bool = False
    """Whether that head promised to wait for this standby before it starts or clears anything."""
    made_at: float = 0.0
    """When it was made, by that head's clock."""
    size: int = 0


class CopyStore:
    """The copy of the journal that a standby holds. JournalError where its file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = folder / STORE_NAME
        try:
            make_folder(folder)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(
                "CREATE TABLE IF NOT EXISTS block"
                " (number INTEGER PRIMARY KEY, digest BLOB NOT NULL, data BLOB NOT NULL);"
                "CREATE TABLE IF NOT EXISTS held (id INTEGER PRIMARY KEY CHECK (id = 1),"
                " journal TEXT, epoch INTEGER, in_step INTEGER, made_at REAL, size INTEGER);"
            )
            self.held = self._read()
            rows = self._connection.execute("SELECT number, digest FROM block")
            self._digests: dict[int, bytes] = dict(rows.fetchall())
        except (OSError, sqlite3.Error) as error:
            raise self._trouble(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def take(self, held: Held, blocks: Mapping[int, bytes], digest: str) -> None:
        """Take a copy over: the blocks that changed, with what is known of it, all or nothing.

        JournalError where the blocks do not make the copy that `digest` names.
        """
        count = -(-held.size // BLOCK)
        fresh = {number: digest_of(data) for number, data in blocks.items()}
        digests = {number: own for number, own in self._digests.items() if number < count} | fresh
        whole = [digests.get(number, b"") for number in range(count)]
        if len(digests) != count or digest_of_all(whole) != digest:
            raise JournalError(
                "Copy of the journal is damaged", "What was sent does not fit what is here.",
                "It is sent again whole.",
            )  # fmt: skip
        try:
            self._write(held, blocks, fresh, count)
        except sqlite3.Error as error:
            raise self._trouble(error) from error
        self.held, self._digests = held, digests

    def clear(self) -> None:
        """Forget the copy: this head leads, and what it held is older than its journal."""
        try:
            self._connection.executescript("BEGIN; DELETE FROM held; DELETE FROM block; COMMIT;")
        except sqlite3.Error as error:
            raise self._trouble(error) from error
        self.held, self._digests = Held(), {}

    def note(self, *, in_step: bool, epoch: int) -> None:
        """Keep what the leading head has promised of the copy that is here."""
        if (in_step, epoch) == (self.held.in_step, self.held.epoch):
            return
        try:
            self._connection.execute("UPDATE held SET in_step = ?, epoch = ?", (in_step, epoch))
        except sqlite3.Error as error:
            raise self._trouble(error) from error
        self.held = self._read()

    def written(self) -> Path:
        """Write the copy as a journal's file, and return that."""
        path = self._folder / _TAKEN_NAME
        try:
            with open(path, "wb", opener=private) as file:
                rows = self._connection.execute("SELECT data FROM block ORDER BY number")
                for (data,) in rows:
                    file.write(data)
                file.truncate(self.held.size)
        except (OSError, sqlite3.Error) as error:
            raise self._trouble(error) from error
        return path

    def _write(
        self, held: Held, blocks: Mapping[int, bytes], fresh: Mapping[int, bytes], count: int
    ) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.execute("DELETE FROM block WHERE number >= ?", (count,))
            self._connection.executemany(
                "INSERT OR REPLACE INTO block VALUES (?, ?, ?)",
                ((number, fresh[number], data) for number, data in blocks.items()),
            )
            values = (held.journal, held.epoch, held.in_step, held.made_at, held.size)
            self._connection.execute(
                "INSERT OR REPLACE INTO held VALUES (1, ?, ?, ?, ?, ?)", values
            )
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _read(self) -> Held:
        row = self._connection.execute(
            "SELECT journal, epoch, in_step, made_at, size FROM held"
        ).fetchone()
        return Held() if row is None else Held(row[0], row[1], bool(row[2]), row[3], row[4])

    def _trouble(self, error: Exception) -> JournalError:
        return JournalError(
            "The standby's copy cannot be used",
            msg(
                "{value}: {value2}.",
                value=self._folder / STORE_NAME,
                value2=getattr(error, "strerror", None) or error,
            ),
            "Check space and rights of the state folder.",
        )
