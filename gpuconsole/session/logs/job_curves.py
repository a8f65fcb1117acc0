"""What jobs tell of their training: in the logs that are copied here, and in records on hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.visualdl import with_records
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.logs.follow import is_being_copied
from gpuconsole.session.logs.records import Records, TrainingRecords
from gpuconsole.session.logs.training import TrainingLogs


class JobCurves:
    """Reads curves of attempts; what is read once of a log that no longer grows is kept."""

    def __init__(self, context: Context, patterns: Callable[[], Sequence[str]]) -> None:
        """`patterns` are the own forms of lines in the settings."""
        self._hosts = context.hosts
        writable = not context.read_only
        self._logs = TrainingLogs(patterns, writable=writable)
        self._records = TrainingRecords(context.clock.now, writable=writable)

    async def read(self, job: Job, number: int, path: Path, rank: int) -> Curves:
        """Return the curves of an attempt with its log at `path`; of the latest also the scalars
        that its script left in its results. UsageError when the log cannot be read."""
        latest = job.attempt is not None and number == job.attempt.number
        whole = (not latest or job.state.ended) and not is_being_copied(path)
        try:
            curves = await self._logs.curves(job.id, number, path, whole=whole, rank=rank)
            if not latest:
                return curves
            records = await self._records_of(job, rank)
            return with_records(curves, await self._records.curves(job, path, records))
        except OSError as error:
            words = msg("{path} cannot be read ({why}).", path=path, why=error.strerror)
            raise UsageError("Log cannot be read", words, "") from None

    async def _records_of(self, job: Job, rank: int) -> Records | None:
        """Return a source of the record files of a job; None where its host is not in sight."""
        attempt = job.attempt
        host = attempt.parts[rank].host if attempt is not None else ""
        seen = self._hosts.snapshot().host(host) if host else None
        if seen is None or seen.state is not HostState.UP:
            return None
        try:
            return (await self._hosts.engine(host)).records
        except ConsoleError:
            return None
