"""Jobs that are cancelled because what they come after can no longer end as it must."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.session.context import Context
from gpuconsole.session.queue.dependencies import Order
from gpuconsole.session.submit.secrets import forget
from gpuconsole.state import JobMovedError


class Dependants:
    """Cancels queued jobs of tasks with `cancel_if_failed` after a failure."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked: Sequence[Job] = ()

    def look(self, epoch: int) -> None:
        """Cancel what can never start; called by the dispatcher; `epoch` proves its role."""
        journal = self._context.journal
        jobs = journal.jobs()
        if jobs is self._looked:
            return
        self._looked = jobs
        asking = [
            job
            for job in jobs
            if job.state is JobState.QUEUED and job.task.cancel_if_failed and job.task.after
        ]
        order = Order(jobs) if asking else None
        for job in asking:
            assert order is not None
            reason = order.never(job)
            if reason:
                cause = clean(f"Cancelled before it started: {reason}", 1000)
                cancelled = replace(job, state=JobState.CANCELLED, cause=cause, detail="")
                with contextlib.suppress(JobMovedError):
                    forget(self._context, journal.save(job, cancelled, epoch=epoch))
