"""Sweeps with a goal: trials are handed out one after another, and bad ones are given up.

The trials of a search are jobs that are held until they are handed out. What was tried and what
came of it is in the journal and in what jobs report: a console that takes over goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.tuning import (
    PRUNED,
    USUAL_AT_ONCE,
    Goal,
    Space,
    Trial,
    best_of,
    read_space,
    trial_of,
    with_values,
)
from gpuconsole.core.text import clean
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.visualdl import with_records
from gpuconsole.core.util.line_plot import number
from gpuconsole.errors import ConsoleError, JournalError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch import optuna_study
from gpuconsole.session.dispatch.preemption import interrupt
from gpuconsole.session.estimate.service import Preflight
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.session.logs.records import TrainingRecords, records_of
from gpuconsole.session.logs.training import TrainingLogs

LOOK_EVERY_S = 2.0
"""How often running trials are held against others."""
MISSING = (
    "The search waits: Optuna is not installed where the queue is dispatched. Install"
    " gpuconsole[tune] there."
)


class Tuning:
    """Goes on with every search of the queue, while this console dispatches."""

    def __init__(self, context: Context, preflight: Preflight | None = None) -> None:
        """`preflight` estimates a trial once its values are known; without it, and where scripts
        may not be read, each keeps the estimate of the largest."""
        self._context = context
        self._preflight = preflight if context.reads_scripts else None
        self._logs = TrainingLogs(lambda: context.settings.metrics.patterns, writable=True)
        self._records = TrainingRecords(context.clock.now, writable=True)
        self._going: asyncio.Task[None] | None = None
        self._next_look = 0.0
        self._open: set[str] = set()
        """Searches that were seen before they had ended."""

    def look(self, epoch: int) -> None:
        """Begin to go on; `epoch` proves the dispatcher's role."""
        now = self._context.clock.now()
        if now < self._next_look or (self._going is not None and not self._going.done()):
            return
        self._next_look = now + LOOK_EVERY_S
        searches: dict[str, list[Job]] = {}
        for job in self._context.journal.jobs():
            if job.task.goal:
                searches.setdefault(job.task.sweep, []).append(job)
        going = {
            name: jobs
            for name, jobs in searches.items()
            if name in self._open or not all(job.state.ended for job in jobs)
        }
        if going:
            self._going = asyncio.ensure_future(self._go_on(going, epoch))

    async def close(self) -> None:
        """Leave the rest to the next dispatcher."""
        if self._going is not None:
            await cancel_all([self._going])

    async def _go_on(self, searches: Mapping[str, Sequence[Job]], epoch: int) -> None:
        for name, jobs in searches.items():
            # Another console has taken over, or a job has moved on: theirs to decide.
            with contextlib.suppress(JournalError, OSError):
                await self._one(name, jobs, epoch)

    async def _one(self, name: str, jobs: Sequence[Job], epoch: int) -> None:
        goal, space = Goal.of(jobs[0].task.goal), read_space(jobs[0].task.space)
        tried = [job for job in jobs if job.task.trial]
        curves = {job.id: await self._curves(job, goal) for job in tried}
        trials = {job.id: trial_of(job, goal, curves[job.id]) for job in tried}
        if all(job.state.ended for job in jobs):
            self._open.discard(name)
            self._tell_best(name, jobs, best_of(tried, curves, goal), goal)
            return
        self._open.add(name)
        if not optuna_study.has_optuna():
            self._say(jobs, MISSING, epoch)
            return
        for job in tried:
            if _runs(job) and await asyncio.to_thread(
                optuna_study.is_hopeless, goal, space, list(trials.values()), trials[job.id]
            ):
                self._prune(job, goal, trials[job.id], epoch)
        await self._hand_out(name, jobs, (goal, space, list(trials.values())), epoch)

    async def _hand_out(
        self, name: str, jobs: Sequence[Job], parts: tuple[Goal, Space, list[Trial]], epoch: int
    ) -> None:
        """Queue as many further trials as may run at once."""
        goal, space, trials = parts
        waiting = [job for job in jobs if job.state is JobState.HELD and not job.task.trial]
        live = sum(bool(job.task.trial) and not job.state.ended for job in jobs)
        room = max(0, (jobs[0].task.at_most or USUAL_AT_ONCE) - live)
        for job in waiting[:room]:
            seed = zlib.crc32(f"{jobs[0].id}:{len(trials)}".encode())
            values = await asyncio.to_thread(optuna_study.next_values, goal, space, trials, seed)
            trials.append(Trial(values, "running", None))
            own = await self._estimated(job, with_values(job.task, name, values))
            now = self._context.clock.now()
            self._context.journal.save(
                job, replace(own, state=JobState.QUEUED, queued_at=now, detail=""), epoch=epoch
            )

    async def _estimated(self, job: Job, task: Task) -> Job:
        """Return a trial with its values and their own estimate: that of the largest where its
        script has changed since, or says nothing of them."""
        given = replace(job, task=task)
        if self._preflight is None or job.user != self._context.user:
            return given
        try:
            report = await self._preflight.report(task, empty=True)
        except (ConsoleError, OSError):
            return given
        memory, packed = report.estimate.memory, str((job.estimate or {}).get("digest") or "")
        if memory is None or report.estimate.digest != packed:
            return given
        return replace(given, estimate_mib=memory.high_mib, estimate=report.as_json())

    def _prune(self, job: Job, goal: Goal, trial: Trial, epoch: int) -> None:
        journal = self._context.journal
        journal.require_role(epoch)
        present = journal.job(job.id)
        if present is None or not _runs(present) or not trial.reported:
            return
        at, value = trial.reported[-1]
        cause = (
            f"{PRUNED}: {goal.metric} was {value:.6g} at {at}, worse than the median of other"
            " trials there."
        )
        interrupt(journal, present, "rule", clean(cause, 500), at=self._context.clock.now())

    def _say(self, jobs: Sequence[Job], words: str, epoch: int) -> None:
        for job in jobs:
            if job.state is JobState.HELD and job.detail != words:
                self._context.journal.save(job, replace(job, detail=words), epoch=epoch)

    def _tell_best(
        self, name: str, jobs: Sequence[Job], best: tuple[Job, object] | None, goal: Goal
    ) -> None:
        if best is None:
            words = f"{name}: no trial reported {goal.metric}."
            self._context.journal.tell("job", jobs[0].id, clean(words, 500), "warning")
            return
        job, point = best
        value = number(getattr(point, "value", None))
        words = f"{name}: the best trial is {job.id}, {goal.metric} {value}: {job.task.name}"
        self._context.journal.tell("job", job.id, clean(words, 500), "information")

    async def _curves(self, job: Job, goal: Goal) -> Curves:
        """Return a trial's curves: its log's, and where that does not report the metric of the goal
        VisualDL's scalars too."""
        if job.attempt is None:
            return Curves()
        path = log_file(self._context.state, job.id, job.attempt.number)
        whole = job.state.ended and not is_being_copied(path)
        try:
            log = await self._logs.curves(job.id, job.attempt.number, path, whole=whole)
        except (ConsoleError, OSError):
            log = Curves()
        if goal.metric in log.curves or job.attempt.started_at is None:
            return log
        source = await records_of(self._context.hosts, job, 0)
        return with_records(log, await self._records.curves(job, path, source))


def _runs(job: Job) -> bool:
    attempt = job.attempt
    return (
        job.state is JobState.RUNNING
        and attempt is not None
        and not attempt.ended_by
        and not job.cancel_requested
    )
