"""Writing recordings: one file, or a ring of files in a folder that stays within its bounds."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime, timezone
from pathlib import Path

from gpuconsole.core.events import Event
from gpuconsole.core.file_trust import make_private
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.state.recording import event_log
from gpuconsole.state.recording.file_format import SUFFIX, Header, block_bytes, header_bytes
from gpuconsole.state.recording.frames import Seen, Standings, encode

SEGMENT_S = 3600.0
"""A file of the ring covers so long; the oldest are removed whole."""
SEGMENT_BYTES = 2**25
KEPT_ENDED = 1000
"""Ended jobs that are written at the beginning of a file, the latest ones."""
_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-z]+-\d{4,}" + re.escape(SUFFIX))


@dataclass(slots=True)
class Batch:
    """What happened from `first` to `last`: the next block of a recording."""

    first: float
    last: float
    seen: list[Seen] = field(default_factory=list)
    """Every host at `first`, then each new record of one."""
    standing: tuple[Job, ...] = ()
    """All jobs as they were at `first`; written where a file begins."""
    jobs: list[tuple[float, Job]] = field(default_factory=list)
    """Jobs that changed, and when that was noticed."""
    events: list[Event] = field(default_factory=list)
    incidents_before: tuple[Incident, ...] = ()
    """All incidents as they were at `first`; written where a file begins."""
    incidents: list[tuple[float, Incident]] = field(default_factory=list)
    """Incidents that changed, and when that was noticed."""


def new_session_name() -> str:
    """Return a name for what one session records."""
    return f"{os.getpid():x}{secrets.token_hex(3)}"


class FileWriter:
    """Adds blocks to one new file, which is locked as long as it is open. For one thread."""

    def __init__(self, path: Path, header: Header) -> None:
        """Make the file, which must not exist. OSError when that cannot be."""
        self.path = path
        self.started_at = header.started_at
        self._standings = Standings()
        self._told_all = False
        self._untold: list[Job] = []
        """Jobs of a very long queue that the next block tells."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self.size = 0
        try:
            # Who clears old files away sees that this one is being written.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._append(header_bytes(header))
        except OSError:
            self.close()
            raise

    def write(self, batch: Batch) -> None:
        """Add a block. OSError when it cannot be; the file then stays as it was."""
        frames = encode(batch.seen, batch.first, self._standings)
        jobs = [*((batch.first, job) for job in self._untold), *batch.jobs]
        incidents = batch.incidents
        if not self._told_all:
            jobs = [*((batch.first, job) for job in _worth_keeping(batch.standing)), *batch.jobs]
            incidents = [
                *((batch.first, incident) for incident in batch.incidents_before),
                *incidents,
            ]
        # What changed is lost with a block that cannot be written: then all is written again.
        self._told_all = False
        text, written = event_log.write(self._standings.new, jobs, batch.events, incidents)
        self._append(block_bytes(text, frames, batch.first, batch.last))
        self._told_all, self._untold = True, [job for _, job in jobs[written:]]
        self._standings.new.clear()

    def close(self) -> None:
        """Close the file; closing it again does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
            os.fsync(self._file)
        except OSError:
            # Half a block would hide what comes after it.
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
                os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += written


def _worth_keeping(jobs: Sequence[Job]) -> Iterator[Job]:
    ended = sum(job.state.ended for job in jobs)
    for job in jobs:
        if job.state.ended:
            ended -= 1
            if ended >= KEPT_ENDED:
                continue
        yield job


class RingWriter:
    """Writes files of an hour into a folder and removes what is older or more than it may hold."""

    def __init__(
        self, folder: Path, header: Callable[[Batch], Header], *, keep_hours: float, max_mib: float
    ) -> None:
        self.folder = folder
        self._header = header
        self._keep_s = keep_hours * 3600.0
        self._most = int(max_mib * 2**20)
        self._count = 0
        self._writer: FileWriter | None = None

    def write(self, batch: Batch) -> None:
        """Add a block, in a new file where it is time for one. OSError when that cannot be."""
        writer = self._writer
        if writer is None or self._is_full(writer, batch):
            self.close()
            writer = self._writer = self._next(batch)
            clear(self.folder, self._keep_s, self._most, batch.last)
        writer.write(batch)

    def close(self) -> None:
        """Close the file that is open."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _is_full(self, writer: FileWriter, batch: Batch) -> bool:
        # A clock that was set back begins a new file, so that times rise in each.
        age = batch.first - writer.started_at
        most = min(SEGMENT_BYTES, max(1, self._most // 4))
        return not 0.0 <= age < SEGMENT_S or writer.size >= most

    def _next(self, batch: Batch) -> FileWriter:
        make_private(self.folder)
        header = replace(self._header(batch), started_at=batch.first)
        stamp = datetime.fromtimestamp(batch.first, tz=timezone.utc).strftime(_STAMP)
        self._count += 1
        name = f"{stamp}-{header.session}-{self._count:04d}{SUFFIX}"
        return FileWriter(self.folder / name, header)


def files_in(folder: Path) -> list[tuple[float, Path]]:
    """Return the files of a ring with the time when each began, oldest first."""
    files: list[tuple[float, Path]] = []
    try:
        for path in folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is not None:
                began = datetime.strptime(match.group(1), _STAMP).replace(tzinfo=timezone.utc)
                files.append((began.timestamp(), path))
    except (FileNotFoundError, ValueError):
        pass
    except OSError as error:
        raise UsageError(
            "Recordings cannot be listed",
            msg("{folder}: {value}.", folder=folder, value=os.strerror(error.errno or 0)),
        ) from error
    return sorted(files)


def clear(folder: Path, keep_s: float, most: int, now: float) -> None:
    """Remove the oldest files until the rest is young and small enough; one that a session is
    writing stays."""
    files = [(began, path, _size(path)) for began, path in files_in(folder)]
    total = sum(size for _, _, size in files)
    for began, path, size in files:
        old = began + SEGMENT_S < now - keep_s
        if (old or total > most) and _remove(path):
            total -= size


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _remove(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
        return True
    except OSError:
        # Another session writes it, or it is not ours to remove.
        return False
    finally:
        os.close(file)
