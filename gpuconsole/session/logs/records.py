"""VisualDL's record files of a job: fetched from its results when its curves are shown.

A host is asked only while it is connected, of a running job every few seconds at most. The curves
of a job that has ended lie beside its log as a small file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from gpuconsole.core.containers import Hosts
from gpuconsole.core.file_trust import private
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.visualdl import curves_of
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.transfer.small_files import record_files
from gpuconsole.remote.transfer.stream_file import Feed
from gpuconsole.waiting import within

ASK_EVERY_S = 15.0
"""How often the host of a running job is asked."""
ANSWER_S = 60.0
"""How long a host may take to send them."""
MOST_LOGS = 64
"""Logs with curves in memory."""
_VERSION = 1


class Records(Protocol):
    """Streams the record files of a job as a tar."""

    def __call__(self, job_id: str) -> AsyncIterator[bytes]:
        """Stream them; RefusedError where the results are gone."""
        ...


async def records_of(hosts: Hosts, job: Job, rank: int) -> Records | None:
    """Return a source of the record files of a job's latest attempt; None where its host is not in
    sight."""
    attempt = job.attempt
    host = attempt.parts[rank].host if attempt is not None else ""
    seen = hosts.snapshot().host(host) if host else None
    if seen is None or seen.state is not HostState.UP:
        return None
    try:
        return (await hosts.engine(host)).records
    except ConsoleError:
        return None


async def fetched(records: Records, job_id: str) -> dict[str, bytes] | None:
    """Return a job's record files by path; None where its host does not send them."""
    try:
        return await within(ANSWER_S, Feed.through(records(job_id), record_files))
    except (asyncio.TimeoutError, ConsoleError, OSError, EOFError):
        return None


@dataclass(frozen=True, slots=True)
class _Known:
    curves: Curves
    asked_at: float
    after_end: bool
    """Whether the job had ended when they were asked for."""
    whole: bool = False
    """Whether they are those of a job that has ended."""


class TrainingRecords:
    """The curves of jobs' record files."""

    def __init__(self, now: Callable[[], float], *, writable: bool) -> None:
        """Where not `writable` nothing is written beside logs."""
        self._now = now
        self._writable = writable
        self._known: OrderedDict[Path, _Known] = OrderedDict()
        """By the log that they belong to."""
        self._turn = asyncio.Lock()
        """Only one job's are read at a time: it is work for the processor."""

    async def curves(self, job: Job, log: Path, records: Records | None) -> Curves:
        """Return the curves of a job's record files, as they are stored or as its host sends them
        now; `records` is None where the host cannot be asked. None of its failures is raised."""
        async with self._turn:
            latest = self._known.get(log)
            if (
                latest is None
                and (stored := await asyncio.to_thread(_stored, _beside(log))) is not None
            ):
                latest = self._note(log, _Known(stored, self._now(), after_end=True, whole=True))
            if records is None or not self._is_due(job, latest):
                return latest.curves if latest is not None else Curves()
            ended = job.state.ended
            files = await fetched(records, job.id)
            if files is None:
                # Out of sight, or its results are gone: what was read before stays.
                curves = latest.curves if latest is not None else Curves()
                self._note(log, _Known(curves, self._now(), ended))
                return curves
            curves = await asyncio.to_thread(curves_of, files)
            self._note(log, _Known(curves, self._now(), after_end=ended, whole=ended))
            if ended and self._writable:
                await asyncio.to_thread(_store, _beside(log), curves)
            return curves

    def _is_due(self, job: Job, latest: _Known | None) -> bool:
        if latest is None:
            return True
        if latest.whole:
            return False
        just_ended = job.state.ended and not latest.after_end
        return just_ended or self._now() - latest.asked_at >= ASK_EVERY_S

    def _note(self, log: Path, latest: _Known) -> _Known:
        self._known[log] = latest
        self._known.move_to_end(log)
        while len(self._known) > MOST_LOGS:
            self._known.popitem(last=False)
        return latest


def _beside(log: Path) -> Path:
    return log.with_suffix(".records.json")


def _stored(path: Path) -> Curves | None:
    try:
        document = json.loads(path.read_text("utf-8"))
        return Curves.from_json(document["curves"]) if document["version"] == _VERSION else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _store(path: Path, curves: Curves) -> None:
    fresh = path.with_suffix(f".{os.getpid()}.new")
    document = {"version": _VERSION, "curves": curves.as_json()}
    # Where the log was never copied there is no folder, and a disk may be full: asked again then.
    with contextlib.suppress(OSError):
        with open(fresh, "w", encoding="utf-8", opener=private) as file:
            json.dump(document, file, separators=(",", ":"), allow_nan=False)
        os.replace(fresh, path)
