"""A job's entry in the journal, as the console that dispatches reads and writes it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.submission.secrets import masked
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, JournalError, UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.submit.secrets import forget, hidden_values, plain_values


class Entry:
    """Reads one job, and writes it with the epoch that proves the dispatcher's role.

    What writes raises RoleLostError when another console has taken over.
    """

    def __init__(self, context: Context, epoch: int, job_id: str) -> None:
        self.job_id = job_id
        self._context = context
        self._hidden: tuple[str, ...] | None = None
        self._journal = context.journal
        self._epoch = epoch

    @property
    def job(self) -> Job:
        """The job as the journal has it now."""
        job = self._journal.job(self.job_id)
        if job is None:
            raise JournalError(
                "No such job", msg("Job {job_id} has left the journal.", job_id=self.job_id)
            )
        return job

    def present(self) -> tuple[Job, Attempt]:
        """Return the job and its latest attempt."""
        job = self.job
        if job.attempt is None:
            raise JournalError(
                "Journal is damaged",
                msg("Job {id} is {state} untried.", id=job.id, state=job.state),
            )
        return job, job.attempt

    def require_role(self) -> None:
        """Asked before anything on a host is taken away: an heir may have begun to use it."""
        self._journal.require_role(self._epoch)

    def say(self, detail: str, limit: int = 200) -> None:
        """Tell what the job is doing now."""
        job = self.job
        shown = clean(self.masked(detail), limit)
        if job.detail != shown:
            self._journal.save(job, replace(job, detail=shown), epoch=self._epoch)

    def keep(self, job: Job, attempt: Attempt, **changes: Any) -> None:
        """Write the latest attempt, and what else has changed of the job."""
        attempts = (*job.attempts[:-1], self._masked_attempt(attempt))
        self._journal.save(job, replace(job, attempts=attempts, **changes), epoch=self._epoch)

    def move(
        self,
        job: Job,
        state: JobState,
        attempt: Attempt | None = None,
        *,
        cause: str = "",
        detail: str = "",
        **changes: Any,
    ) -> None:
        """Write the job in another state."""
        attempts = job.attempts
        if attempt is not None:
            attempts = (*job.attempts[:-1], self._masked_attempt(attempt))
        cause, detail = self.masked(cause), self.masked(detail)
        moved = replace(job, state=state, attempts=attempts, cause=cause, detail=detail, **changes)
        saved = self._journal.save(job, moved, epoch=self._epoch)
        if saved.state.ended:
            forget(self._context, saved)

    def masked(self, text: str) -> str:
        """Return text about the job, which may quote what its engine said, without the values of
        its secret variables."""
        if self._hidden is None:
            try:
                self._hidden = hidden_values(self._context, self.job)
            except UsageError:
                # It keeps the job from starting, not from an end. The next text looks again.
                return masked(text, plain_values(self.job))
        return masked(text, self._hidden)

    @contextlib.contextmanager
    def masking(self) -> Iterator[None]:
        """Take the values of the job's secret variables out of an error that is raised within."""
        try:
            yield
        except ConsoleError as error:
            error.message, error.hint = self.masked(error.message), self.masked(error.hint)
            error.args = (f"{error.title}: {error.message}",)
            raise

    def _masked_attempt(self, attempt: Attempt) -> Attempt:
        return replace(attempt, cause=self.masked(attempt.cause)) if attempt.cause else attempt
