"""A job's results folder, copied here from a tar that a host wrote: nothing in it is trusted."""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO

from gpuconsole.core.containers import CHECKPOINT_FOLDER, Hosts, ResultFile
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.recovery import may_have_run

SPARE_BYTES = 64 * MIB
"""What is left free on the disk."""


async def fetch_results(hosts: Hosts, job: Job, folder: Path) -> Path:
    """Copy a job's results into `folder`; those of a gang's further hosts into `rank-N` in it.

    RefusedError when it has not run, UnreachableError when a host is out of sight: then nothing
    has been copied.
    """
    engines = [await hosts.engine(part.host) for part in _parts(job)]
    for rank, engine in enumerate(engines):
        target = folder / f"rank-{rank}" if rank else folder
        streams = {"": engine.results(job.id)}
        if job.task.checkpoint_dir:
            streams[CHECKPOINT_FOLDER] = engine.checkpoint(job.id)
        await save_results(streams, target)
    return folder


async def list_results(hosts: Hosts, job: Job) -> tuple[ResultFile, ...]:
    """Return what a job has left, the largest first; named as `fetch_results` would.

    RefusedError when it has not run, UnreachableError when a host is out of sight.
    """
    found: list[ResultFile] = []
    for rank, part in enumerate(_parts(job)):
        engine = await hosts.engine(part.host)
        prefix = f"rank-{rank}/" if rank else ""
        listed = await engine.list_results(job.id)
        found += [replace(file, name=prefix + file.name) for file in listed]
    return tuple(sorted(found, key=lambda file: -file.size_bytes))


def _parts(job: Job) -> Sequence[Attempt]:
    ran = next(filter(may_have_run, reversed(job.attempts)), None)
    if ran is None:
        raise RefusedError("No results yet", f"Job {job.id} has not run.", "Wait for it to start.")
    return ran.parts


async def save_results(streams: Mapping[str, AsyncIterator[bytes]], folder: Path) -> Path:
    """Unpack tar streams into `folder`, which must not exist or be empty, each into the folder in
    it that its key names; all or nothing. A stream without a byte has nothing to unpack.

    Only regular files and folders below `folder` are made: links, devices and names that lead out
    of it are refused. UsageError says what could not be done.
    """
    try:
        _require_new(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
            fresh = Path(scratch) / "results"
            for name, chunks in streams.items():
                with tempfile.TemporaryFile(dir=folder.parent) as archive:
                    if await _receive(chunks, archive, folder):
                        await asyncio.to_thread(extract, archive, fresh / name)
            fresh.mkdir(exist_ok=True)
            _place(fresh, folder)
    except OSError as error:
        raise UsageError(
            "Results cannot be stored", f"{folder}: {error.strerror}.", "Choose another folder."
        ) from error
    return folder


def extract(archive: IO[bytes], folder: Path) -> None:
    """Unpack the regular files and folders of a tar below `folder`; UsageError for a bad one."""
    folder.mkdir(exist_ok=True)
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            for member in tar:
                _unpack(tar, member, folder)
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise UsageError(
            "Results are damaged", f"What the host sent is no archive: {error}.", "Fetch again."
        ) from error


def _place(fresh: Path, folder: Path) -> None:
    if folder.exists():
        folder.rmdir()
    os.replace(fresh, folder)


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\0" in member.name:
        raise UsageError(
            "Results are refused",
            f"A file in them leads out of their folder: {clean(member.name, 200)}.",
            "Look at the job's results folder on its host.",
        )
    target = folder / name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    # A link may point anywhere, here or later; a sparse file may claim any size.
    if not member.isreg() or member.issparse():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    if source is None:
        return
    with source, target.open("wb") as file:
        shutil.copyfileobj(source, file)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)


async def _receive(chunks: AsyncIterator[bytes], archive: IO[bytes], folder: Path) -> int:
    # The archive and what is unpacked from it lie side by side for a moment.
    limit = (shutil.disk_usage(folder.parent).free - SPARE_BYTES) // 2
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise UsageError(
                "Results are too large",
                f"They have more than {format_mib(max(0, limit) / MIB)}, all that {folder.parent} "
                "can take.",
                "Free some space, or choose another folder.",
            )
        archive.write(chunk)
    archive.seek(0)
    return size


def _require_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "Results are already there",
            f"{folder} exists and is not empty.",
            "Move it away, or choose another folder.",
        )
