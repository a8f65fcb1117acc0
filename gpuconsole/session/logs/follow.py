"""An attempt's log as a file: the container's output from its beginning, byte for byte."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from gpuconsole.core.containers import LogTail
from gpuconsole.core.file_trust import make_private, private

OVERLAP_BYTES = 4096
"""The end of a copied log, by which its place in the tail is found."""


def log_file(state: Path, job_id: str, attempt: int, rank: int = 0) -> Path:
    """Return where an attempt's log lies; each host of a gang has its own."""
    return state / "logs" / job_id / (f"{attempt}.{rank}.log" if rank else f"{attempt}.log")


async def follow_log(path: Path, chunks: AsyncIterator[bytes]) -> None:
    """Write the chunks into `path`, which at no moment holds less than it did before.

    Every stream begins at the container's first byte, so what an earlier console had written is
    written again beside it, and takes its place once it has grown as long. A stream that ends
    before that (the link broke) changes nothing. OSError when the file cannot be written, or when
    another console has begun the same: of two the later goes on.
    """
    before = _size_in_made_folder(path)
    fresh = path.with_suffix(".log.new")
    placed = False
    with _begun(fresh) as file:
        try:
            placed = _place(file, fresh, path, before)
            async for chunk in chunks:
                _write_all(file, chunk)
                placed = placed or _place(file, fresh, path, before)
        finally:
            if not placed and _is_at(file, fresh):
                fresh.unlink(missing_ok=True)


def cannot_store(error: OSError) -> str:
    """Return what is said of a log that cannot be written here."""
    return f"its log cannot be stored: {error.strerror}"


def complete_log(path: Path, tail: LogTail) -> bool:
    """Add to a copied log what only the tail has of it; whether the log is whole now.

    False when the copy does not reach into the second half of the tail, or could end at several
    places of it. OSError when the file cannot be written.
    """
    size = _size_in_made_folder(path)
    if tail.whole:
        # An engine that dropped the oldest lines has less than the copy.
        if size < len(tail.data):
            fresh = path.with_suffix(".log.new")
            with _begun(fresh) as file:
                _write_all(file, tail.data)
            os.replace(fresh, path)
        return True
    missing = _missing(path, tail.data)
    if missing is None:
        return False
    with _opened(path, "ab") as file:
        _write_all(file, missing)
    return True


def _begun(fresh: Path) -> IO[bytes]:
    # Never into a file that another console may still be writing.
    fresh.unlink(missing_ok=True)
    return _opened(fresh, "xb")


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether a path still names this open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _opened(path: Path, mode: str) -> IO[bytes]:
    return open(path, mode, buffering=0, opener=private)


class CopyMark:
    """Shows every process that a log is being copied, for as long as this process lives."""

    def __init__(self, log: Path) -> None:
        self._path = _mark_of(log)
        self._file = -1
        # A full disk keeps no log from being copied as far as it goes.
        with contextlib.suppress(OSError):
            make_private(self._path.parent)
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def remove(self) -> None:
        """The copy has ended."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_being_copied(log: Path) -> bool:
    """Whether some process is copying this log now."""
    try:
        file = os.open(_mark_of(log), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _mark_of(log: Path) -> Path:
    return log.with_suffix(".copying")


def _missing(path: Path, tail: bytes) -> bytes | None:
    """Return what of the tail the file lacks; None if that is unknown."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - len(tail)))
            last = file.read(len(tail))
    except OSError:
        return None
    key = last[-OVERLAP_BYTES:]
    if len(key) < OVERLAP_BYTES or tail.find(key) != tail.rfind(key):
        return None
    place = tail.find(key) + OVERLAP_BYTES
    if place < max(OVERLAP_BYTES, len(tail) // 2) or not last.endswith(tail[:place]):
        return None
    return tail[place:]


def _size_in_made_folder(path: Path) -> int:
    make_private(path.parent)
    return path.stat().st_size if path.exists() else 0


def _place(file: IO[bytes], fresh: Path, path: Path, before: int) -> bool:
    if file.tell() < before:
        return False
    if not _is_at(file, fresh):
        raise FileExistsError(errno.EEXIST, "another console copies it", str(fresh))
    os.replace(fresh, path)
    return True


def _write_all(file: IO[bytes], chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]
