"""Logs of jobs as they are copied here, and what they and records on hosts say of the training."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from gpuconsole.config import LabSettings
from gpuconsole.core.jobs import Job
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.visualdl import with_records
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.session.logs.noted import warning_line
from gpuconsole.session.logs.records import TrainingRecords, records_of
from gpuconsole.session.logs.tail import tail
from gpuconsole.session.logs.training import TrainingLogs

LOOK_EVERY_S = 0.5


class JobLogs:
    """Reads logs and curves of attempts; curves of a log that no longer grows are read once."""

    def __init__(self, context: Context, settings: Callable[[], LabSettings]) -> None:
        """`settings` returns those of now: own forms of lines, and when a time limit is warned
        of."""
        self._hosts, self._journal, self._clock = context.hosts, context.journal, context.clock
        self._settings = settings
        writable = not context.read_only
        self._logs = TrainingLogs(lambda: settings().metrics.patterns, writable=writable)
        self._records = TrainingRecords(context.clock.now, writable=writable)

    def path(self, job: Job, attempt: int | None = None, rank: int = 0) -> Path:
        """Return the file into which an attempt's log is copied, of the latest where None."""
        number = attempt or (job.attempt.number if job.attempt else 1)
        return log_file(self._journal.folder, job.id, number, rank)

    def lines(
        self, now: Callable[[], Job], path: Callable[[], Path], is_whole: Callable[[], bool]
    ) -> AsyncIterator[str]:
        """Give the lines of a job's log until `is_whole`, with the warning of a time limit among
        them; `now` returns the job as it is, and `path` the file of its latest attempt."""

        def warning() -> str:
            job = now()
            number = job.attempt.number if job.attempt is not None else 0
            return warning_line(job, number, self._settings().limits.time_limit)

        return tail(path, is_whole, lambda: self._clock.sleep(LOOK_EVERY_S), warning)

    def warnings(self, job_id: str) -> tuple[str, ...]:
        """Return what was said when a job was submitted."""
        events = (event for _, event in self._journal.events_after(0) if event.subject == job_id)
        return tuple(event.message for event in events if event.severity == "warning")

    async def curves(self, job: Job, number: int, path: Path, rank: int) -> Curves:
        """Return the curves of an attempt with its log at `path`; of the latest also the scalars
        that its script left in its results. UsageError when the log cannot be read."""
        latest = job.attempt is not None and number == job.attempt.number
        whole = (not latest or job.state.ended) and not is_being_copied(path)
        try:
            curves = await self._logs.curves(job.id, number, path, whole=whole, rank=rank)
            if not latest:
                return curves
            records = await records_of(self._hosts, job, rank)
            return with_records(curves, await self._records.curves(job, path, records))
        except OSError as error:
            words = msg("{path} cannot be read ({why}).", path=path, why=error.strerror)
            raise UsageError("Log cannot be read", words, "") from None
