"""A job's results folder, copied here from a tar that a host wrote: nothing in it is trusted."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from gpuconsole.config import TransferSection
from gpuconsole.core.containers import CHECKPOINT_FOLDER, Engine, Hosts, ResultFile
from gpuconsole.core.engines.transfers import LeftOut, TransferLimits
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.remote.transfer.archives import Entry, Intake
from gpuconsole.remote.transfer.stream_file import Feed
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import RESULTS_DIR, checkpoint_path
from gpuconsole.session.dispatch.attempt.recovery import may_have_run

SPARE_BYTES = 64 * MIB
"""What is left free on the disk."""
_UNNAMEABLE = frozenset({
    *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EEXIST, errno.ENOENT),
    *(errno.ENOTDIR, errno.EPERM, errno.ENOTSUP),
})  # fmt: skip
"""Errors of a disk that cannot hold one thing, by its name or kind, and others well."""


@dataclass(frozen=True, slots=True)
class FetchedResults:
    """Results that were copied, and what of them could not be."""

    folder: Path
    left_out: LeftOut


@dataclass(frozen=True, slots=True)
class Stream:
    """A tar, the folder among the results that it fills, and where the container had it."""

    chunks: AsyncIterator[bytes]
    below: str = ""
    root: str = RESULTS_DIR


async def fetch_results(context: Context, job: Job, folder: Path) -> FetchedResults:
    """Copy a job's results into `folder`; those of a gang's further hosts into `rank-N` in it.

    RefusedError when it has not run or they are gone, UnreachableError when a host is out of
    sight: then nothing has been copied. UsageError for more than the settings allow.
    """
    left_out = LeftOut()
    engines = [await context.hosts.engine(part.host) for part in _parts(job)]
    for rank, engine in enumerate(engines):
        name = f"rank-{rank}" if rank else ""
        left = await save_results(_streams(engine, job), folder / name, context.settings.transfer)
        left_out = left_out.joined(left, f"{name}/" if name else "")
    return FetchedResults(folder, left_out)


async def list_results(hosts: Hosts, job: Job) -> tuple[ResultFile, ...]:
    """Return what a job has left, the largest first; named as `fetch_results` would.

    RefusedError when it has not run or they are gone, UnreachableError when a host is out of sight.
    """
    files: list[ResultFile] = []
    for rank, part in enumerate(_parts(job)):
        engine = await hosts.engine(part.host)
        prefix = f"rank-{rank}/" if rank else ""
        listed = await engine.list_results(job.id)
        files += [replace(file, name=prefix + file.name) for file in listed]
    return tuple(sorted(files, key=lambda file: -file.size_bytes))


def _parts(job: Job) -> Sequence[Attempt]:
    ran = next(filter(may_have_run, reversed(job.attempts)), None)
    if ran is None:
        raise RefusedError(
            "No results yet", msg("Job {id} has not run.", id=job.id), "Wait for it to start."
        )
    if not ran.host:
        raise RefusedError(
            "Its host is not known",
            msg("Job {id} ran after the backup that the journal was restored from.", id=job.id),
            "Its results are on the host on which it ran, in the account's results folder.",
        )
    return ran.parts


def _streams(engine: Engine, job: Job) -> list[Stream]:
    results = Stream(engine.results(job.id))
    if not job.task.checkpoint_dir:
        return [results]
    # It comes first: what the script itself calls so in the results must not be in its way.
    checkpoint = engine.checkpoint(job.id)
    return [Stream(checkpoint, CHECKPOINT_FOLDER, checkpoint_path(job.task)), results]


async def save_results(
    streams: Sequence[Stream], folder: Path, settings: TransferSection
) -> LeftOut:
    """Unpack tar streams into `folder`, which must not exist or be empty; all or nothing.

    Nothing is made outside of `folder`, and no link in it leads there; what cannot be is left out
    and returned. UsageError says what could not be done.
    """
    try:
        _require_new(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        intake = Intake("Results", _limits(settings, folder.parent))
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            fresh = Path(scratch) / "results"
            fresh.mkdir()
            for stream in streams:
                await _take(stream, intake, fresh)
            _place(fresh, folder)
    except OSError as error:
        raise UsageError(
            "Results cannot be stored",
            msg("{folder}: {strerror}.", folder=folder, strerror=error.strerror),
            "Choose another folder.",
        ) from error
    return intake.left_out


async def _take(stream: Stream, intake: Intake, folder: Path) -> None:
    try:
        await Feed.through(stream.chunks, partial(_unpack, intake, stream, folder))
    except RefusedError as error:
        # Results need not wait for a checkpoint that cannot be read safely.
        if not stream.below:
            raise
        intake.leave_out(stream.below, f"stays where it is: {error.message}")


def _place(fresh: Path, folder: Path) -> None:
    if folder.exists():
        folder.rmdir()
    os.replace(fresh, folder)


def _limits(settings: TransferSection, folder: Path) -> TransferLimits:
    limits = settings.limits()
    free = shutil.disk_usage(folder).free - SPARE_BYTES
    if limits.size_bytes <= free:
        return limits
    hint = "Free some space, or choose another folder."
    return replace(limits, size_bytes=free, size_from=f"{folder} can take", hint=hint)


def _unpack(intake: Intake, stream: Stream, folder: Path, feed: Feed) -> None:
    for entry in intake.entries(feed, stream.below, stream.root):
        try:
            _make(entry, folder / entry.name, folder, intake)
        except OSError as error:
            if error.errno not in _UNNAMEABLE:
                raise
            intake.leave_out(entry.name, f"cannot be made here: {error.strerror}")


def _make(entry: Entry, path: Path, folder: Path, intake: Intake) -> None:
    if entry.kind == "folder":
        path.mkdir()
    elif entry.kind == "link":
        path.symlink_to(entry.target)
    elif entry.kind == "hardlink":
        first = folder / entry.target
        try:
            os.link(first, path)
        except PermissionError:
            # This disk knows no further names of a file.
            intake.count_bytes(first.stat().st_size)
            shutil.copyfile(first, path)
    else:
        with path.open("xb") as file:
            _write(entry, file)
        path.chmod(0o755 if entry.mode & 0o100 else 0o644)


def _write(entry: Entry, file: IO[bytes]) -> None:
    """Write a file's content; what a sparse one does not have takes no space here either."""
    assert entry.content is not None
    for offset, piece in entry.content.pieces():
        file.seek(offset)
        file.write(piece)
    file.truncate(entry.size)


def _require_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "Results are already there",
            msg("{path} exists and is not empty.", path=folder),
            "Move it away, or choose another folder.",
        )
