"""The secret values of jobs: a file for each, apart from the journal, until the job has ended.

Neither backups of the journal nor its readers have them. The jobs of a sweep share one file by hard
links, where the disk can.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpuconsole.core.file_trust import read_private
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, UsageError
from gpuconsole.state.filesystem import make_folder

FOLDER = "secrets"
LARGEST = 4 * 2**20
"""Bytes of one file."""


class SecretStore:
    """The secret values of one state folder's jobs."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def put(self, jobs: Sequence[str], values: Mapping[str, str]) -> None:
        """Keep values for jobs, in place of what there is for them; nothing without values.

        JournalError when they cannot be written.
        """
        if not values:
            return
        try:
            make_folder(self._folder)
            first = self._write(self._path(jobs[0]), json.dumps(dict(values)).encode())
            for job in jobs[1:]:
                self._share(first, self._path(job))
        except OSError as error:
            for job in jobs:
                self.discard(job)
            raise JournalError(
                "Secret values cannot be kept",
                msg("{folder}: {value}.", folder=self._folder, value=os.strerror(error.errno or 0)),
                "Choose another folder with --state DIR.",
            ) from error

    def values(self, job: str) -> Mapping[str, str]:
        """Return the values of a job by name; none where there is no file. UsageError for a file
        that others may read or that is damaged."""
        path = self._path(job)
        if not path.exists():
            return {}
        text, _ = read_private(path, "File of secret values", LARGEST)
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, dict) or not all(
            isinstance(value, str) for value in values.values()
        ):
            raise UsageError("Secret values are damaged", msg("{path} cannot be read.", path=path))
        return values

    def written_at(self, job: str) -> float | None:
        """Return when the values of a job were written (seconds since the epoch), if there are."""
        with contextlib.suppress(OSError):
            return self._path(job).stat(follow_symlinks=False).st_mtime
        return None

    def discard(self, job: str) -> None:
        """Remove the values of a job, if there are any; what stays is found by the next look."""
        with contextlib.suppress(OSError):
            self._path(job).unlink(missing_ok=True)

    def discard_if(self, wanted: Callable[[str, float], bool]) -> frozenset[str]:
        """Remove the values of those jobs for which `wanted` says so, given the id and when they
        were written (seconds since the epoch); returns the jobs of which there still are some."""
        left = set()
        for job, written_at in self._found():
            if wanted(job, written_at):
                self.discard(job)
            else:
                left.add(job)
        return frozenset(left)

    def _found(self) -> Iterator[tuple[str, float]]:
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.name, entry.stat(follow_symlinks=False).st_mtime

    def _path(self, job: str) -> Path:
        return self._folder / job

    def _write(self, path: Path, content: bytes) -> Path:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        return path

    def _share(self, first: Path, path: Path) -> None:
        path.unlink(missing_ok=True)
        try:
            os.link(first, path)
        except OSError:
            self._write(path, first.read_bytes())
