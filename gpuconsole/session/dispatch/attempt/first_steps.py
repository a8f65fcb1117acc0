"""Reads, while a job runs, what its reporter says after the first steps, and writes it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuconsole.core.jobs import JobState
from gpuconsole.core.training.first_steps import STEPS
from gpuconsole.errors import ConsoleError, JournalError
from gpuconsole.remote.injected import REPORTS
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.end import run_image
from gpuconsole.session.dispatch.attempt.gang import Part
from gpuconsole.session.dispatch.attempt.observation import (
    Ended,
    Reported,
    Watch,
    bounds_of,
    devices_of,
    read_reports,
)
from gpuconsole.session.dispatch.attempt.outcome import Outcome
from gpuconsole.session.dispatch.job_record import Entry

FIRST_S = 5.0
"""Time after which a job is asked for the first time."""
LONGEST_S = 60.0
"""Longest pause between two questions."""
GIVE_UP_S = 7200.0
"""A job that reported nothing for so long (s) is asked only at its end."""


class FirstSteps:
    """Watches one job. What it took is in the journal from then on, however the job ends."""

    def __init__(self, context: Context, entry: Entry, watch: Watch) -> None:
        """`watch` are the driver's figures of the attempt so far."""
        self._context = context
        self._entry = entry
        self._watch = watch

    async def run(self, parts: Sequence[Part]) -> None:
        """Ask now and then until the first steps are over."""
        clock, pause = self._context.clock, FIRST_S
        ends = clock.now() + GIVE_UP_S
        try:
            while self._entry.present()[1].steps_mib is None and clock.now() < ends:
                await clock.sleep(pause)
                pause = min(LONGEST_S, pause * 1.5)
                reported = await self._read(parts)
                if reported.steps >= STEPS and reported.peak_mib:
                    self._note(reported)
                    return
        except JournalError:
            # Another console has taken over, or the journal is lost: the runner says so.
            return

    async def _read(self, parts: Sequence[Part]) -> Reported:
        # An engine that is away for now is asked again later.
        files, _ = await read_files(parts)
        _, attempt = self._entry.present()
        return read_reports(files, bounds_of(self._context.hosts.snapshot(), attempt, self._watch))

    def _note(self, reported: Reported) -> None:
        """Write down what was taken; the end of the job replaces it by what it then knows."""
        job, attempt = self._entry.present()
        if job.state is not JobState.RUNNING:
            return
        now = self._context.clock.now()
        devices = devices_of(self._context.hosts.snapshot(), attempt)
        image = run_image(self._context, job, attempt.host)
        so_far = replace(attempt, ended_at=now)
        running = Outcome(JobState.RUNNING)
        seen = Ended(job, so_far, running, self._watch, reported, image, devices).observation()
        self._entry.require_role()
        if seen is not None:
            self._context.journal.observe(seen)
        if reported.fallback:
            # What it takes of the host is nothing to hold against its device.
            return
        peak = max(reported.peak_mib or 0.0, attempt.peak_mib or 0.0)
        self._entry.keep(job, replace(attempt, steps_mib=reported.peak_mib, peak_mib=peak))


async def read_files(parts: Sequence[Part]) -> tuple[dict[str, bytes], bool]:
    """Return what the reporters of a running attempt have written, by rank and name, and whether
    all of its engines could be asked."""
    files: dict[str, bytes] = {}
    whole = True
    for part in parts:
        try:
            files_of_part = await part.engine.read_files(part.attempt.container_name, REPORTS)
        except ConsoleError:
            whole = False
            continue
        files |= {f"{part.rank}/{name}": text for name, text in files_of_part.items()}
    return files, whole
