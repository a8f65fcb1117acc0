"""Reads now and then how many steps a running job has made, so that one that hangs is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuconsole.core.jobs import JobState
from gpuconsole.errors import JournalError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.first_steps import read_files
from gpuconsole.session.dispatch.attempt.gang import Part
from gpuconsole.session.dispatch.attempt.observation import read_reports
from gpuconsole.session.dispatch.job_record import Entry

READ_EVERY_S = 300.0
"""Longest time between two readings; each is a small archive from each host of the job."""
SHORTEST_S = 15.0
READINGS = 4
"""Readings in the time after which a job without steps is reported."""


class Steps:
    """Watches one job, and writes into its attempt what its reporter says."""

    def __init__(self, context: Context, entry: Entry) -> None:
        self._context = context
        self._entry = entry

    async def run(self, parts: Sequence[Part]) -> None:
        """Read until cancelled. The journal's troubles are the runner's to tell."""
        limits = self._context.settings.triage.limits
        pause = min(READ_EVERY_S, max(SHORTEST_S, limits.job_idle_for / READINGS))
        try:
            while True:
                await self._context.clock.sleep(pause)
                await self._read(parts)
        except JournalError:
            return

    async def _read(self, parts: Sequence[Part]) -> None:
        files, whole = await read_files(parts)
        job, attempt = self._entry.present()
        if job.state is not JobState.RUNNING or not whole:
            return
        steps, now = read_reports(files).steps, self._context.clock.now()
        if steps > attempt.steps:
            seen = replace(attempt, steps=steps, stepped_at=now, steps_read_at=now)
        elif attempt.steps:
            seen = replace(attempt, steps_read_at=now)
        else:
            # It tells of no steps: nothing is known of them, and nothing is written.
            return
        self._entry.keep(job, seen)
