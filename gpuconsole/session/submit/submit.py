"""Submitting: one job, or the jobs of a sweep, all of them or none."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from gpuconsole import preflight
from gpuconsole.core.estimate import Report
from gpuconsole.core.images import floating_note
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.sweeps import Axis, Combination, combinations, task_of
from gpuconsole.core.submission.time_limits import require_time_limit
from gpuconsole.core.submission.tuning import Goal, corners, read_space, with_values
from gpuconsole.core.text import clean
from gpuconsole.core.units import parse_time
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import require_gang_network
from gpuconsole.session.dispatch.slurm_jobs import cluster_of, reach, resolved
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.session.estimate.service import Preflight
from gpuconsole.session.estimate.tier_ladder import UNWATCHED, Watching
from gpuconsole.session.images.service import with_pin
from gpuconsole.session.queue import commands as queue
from gpuconsole.session.submit.secrets import require_values, without_values
from gpuconsole.session.submit.validate import (
    completed,
    new_job,
    pack_task,
    refuse_hopeless,
    refuse_unknown,
    require_service,
)
from gpuconsole.state import Journal, new_job_id
from gpuconsole.state.files.images import ImageNotes
from gpuconsole.state.filesystem import make_folder

_Reporter = Callable[[Task], Awaitable[Report]]
_UNKNOWN = "its memory is unknown, so it waits for an empty device"
MOST_TOLD = 20
"""Files that were left out and are named."""
_TRIED = 3
"""Values of a number that are tried to see whether it matters for memory: ends and second."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """New jobs, ready to be queued together."""

    jobs: tuple[Job, ...]
    bundle: Path
    """Their packed project; it moves into the queue's folder."""
    secrets: Mapping[str, str] = field(repr=False)
    notes: tuple[str, ...]
    """What a person should hear of them, as sentences."""


class Submitting:
    """Packs projects, asks preflight, and hands new jobs to the queue."""

    def __init__(
        self,
        context: Context,
        preflight: Preflight,
        store: Callable[[Prepared, Progress], Awaitable[tuple[Job, ...]]],
    ) -> None:
        """`store` queues what is ready: here, or at the lab's service, and tells how much of it is
        sent."""
        self._context = context
        self._journal = context.journal
        self._preflight = preflight
        self._store = store
        self._notes = ImageNotes(context.journal.folder)

    async def submit(self, task: Task, *, force: bool, hold: bool, user: Watching) -> Job:
        """Queue one task; see `JobQueue.submit`."""
        task = self._resolved(task)
        reports = await self._reports((task,), (), {}, self._reporter(user, force=force))
        (job,) = await self._queue(task, reports, user.sending, hold=hold)
        return job

    async def serve(
        self, task: Task, *, force: bool, hold: bool, user: Watching
    ) -> tuple[Job, ...]:
        """Queue the replicas of a service; see `JobQueue.serve`."""
        task = self._resolved(task)
        service = require_service(task)
        name = free_name(task.name, self._journal.jobs())
        report = await self._reporter(user, force=force)(task)
        named = (f"{name}[{number}]" for number in range(1, service.replicas + 1))
        tasks = [(replace(task, name=replica_name, sweep=name), report) for replica_name in named]
        return await self._queue(task, tasks, user.sending, hold=hold)

    async def sweep(
        self, task: Task, axes: Sequence[Axis], *, force: bool, hold: bool, user: Watching
    ) -> tuple[Job, ...]:
        """Queue a task once for each combination of values; see `JobQueue.sweep`."""
        task = self._resolved(task)
        name = free_name(task.name, self._journal.jobs())
        options = await self._preflight.options(Path(task.script))
        tasks = {
            combination: task_of(task, combination, name, options.flags)
            for combination in combinations(axes)
        }
        report = self._reporter(user, force=force)
        reports = await self._reports(list(tasks.values()), axes, tasks, report)
        jobs = await self._queue(task, reports, user.sending, hold=hold)
        for doubt in options.doubts(axis.name for axis in axes):
            self._warn(jobs[0], doubt)
        return jobs

    async def open_session(self, task: Task, memory_mib: float | None) -> Job:
        """Queue a session: a task without a script, that takes `memory_mib` of each device, or all
        of it where None. See `interactive.shells`."""
        task = with_pin(task, self._notes)
        require_values(task)
        require_time_limit(task, self._context.settings.limits.time_limit)
        now = self._context.clock.now()
        (job_id,) = new_ids(now, 1)
        bundle = self._context.bundle(job_id)
        make_folder(bundle.parent)
        packed, skipped = await asyncio.to_thread(
            pack_task, task, bundle, self._context.settings.code_size_limit, self._context.pack
        )
        job = Job(
            id=job_id,
            task=without_values(packed),
            user=self._context.user,
            state=JobState.QUEUED,
            submitted_at=now,
            queued_at=now,
            estimate_mib=memory_mib,
        )
        prepared = Prepared((job,), bundle, task.secrets, tuple(skipped)[:MOST_TOLD])
        (queued,) = await self._store(prepared, UNWATCHED.sending)
        return queued

    async def search(
        self,
        task: Task,
        axes: Sequence[str],
        goal: str,
        trials: int,
        *,
        force: bool,
        user: Watching,
    ) -> tuple[Job, ...]:
        """Queue the trials of a search; see `JobQueue.search`."""
        Goal.of(goal)
        task = self._resolved(task)
        name = free_name(task.name, self._journal.jobs())
        options = await self._preflight.options(Path(task.script))
        space = read_space(axes, options.flags)
        report = self._reporter(user, force=force)
        reports = [
            await _named(with_values(task, name, values), report) for values in corners(space)
        ]
        # What a trial will need is not known yet: at most what one at the ends does.
        largest = max(reports, key=_needs)
        trial = replace(
            task,
            sweep=name,
            goal=" ".join(goal.split()),
            space=tuple(range_.text for range_ in space),
        )
        tasks = [
            (replace(trial, name=f"{name}[trial {number}]"), largest)
            for number in range(1, trials + 1)
        ]
        jobs = await self._queue(task, tasks, user.sending, hold=True)
        for doubt in options.doubts(range_.flag.lstrip("-") for range_ in space):
            self._warn(jobs[0], doubt)
        return jobs

    def _resolved(self, task: Task) -> Task:
        task = with_pin(completed(task), self._notes)
        require_values(task)
        task = resolved(task, self._context.hosts.snapshot())
        if not cluster_of(task):
            require_gang_network(task, self._context.settings)
        if task.deadline and parse_time(task.deadline) <= self._context.clock.now():
            raise UsageError(
                "Deadline is over",
                msg("{deadline} is past.", deadline=task.deadline),
                "Name a later time.",
            )
        jobs = self._journal.jobs()
        require_time_limit(task, self._context.settings.limits.time_limit)
        after = tuple(queue.find_condition(jobs, text) for text in task.after)
        return replace(task, after=after)

    async def _queue(
        self, base: Task, reports: Sequence[tuple[Task, Report]], sending: Progress, *, hold: bool
    ) -> tuple[Job, ...]:
        remembered = self._preflight.assumptions(base.script)
        if base.assumptions:
            self._preflight.assume(base.script, base.assumptions)
        now, settings = self._context.clock.now(), self._context.settings
        ids = new_ids(now, len(reports))
        bundle = self._context.bundle(ids[0])
        make_folder(bundle.parent)
        packed, skipped = await asyncio.to_thread(
            pack_task, base, bundle, settings.code_size_limit, self._context.pack
        )
        jobs: list[Job] = []
        for job_id, (task, report) in zip(ids, reports, strict=True):
            own = preflight.with_remembered(task, remembered)
            own = replace(own, project=packed.project, folder=packed.folder)
            job = new_job(job_id, without_values(own), self._context.user, now, report)
            jobs.append(replace(job, state=JobState.HELD) if hold else job)
        prepared = Prepared(tuple(jobs), bundle, base.secrets, _notes(jobs, skipped))
        return await self._store(prepared, sending)

    async def _reports(
        self,
        tasks: Sequence[Task],
        axes: Sequence[Axis],
        by_combination: Mapping[Combination, Task],
        report: _Reporter,
    ) -> list[tuple[Task, Report]]:
        """Return each task with preflight's answer; what memory does not depend on is not asked
        again."""
        if not by_combination:
            return [(task, await report(task)) for task in tasks]
        matters = [axis.name for axis in axes if await _matters(axis, by_combination, report)]
        shared: dict[Combination, Report] = {}
        reports = []
        for combination, task in by_combination.items():
            relevant = tuple(pair for pair in combination if pair[0] in matters)
            if relevant not in shared:
                shared[relevant] = await _named(task, report)
            reports.append((task, shared[relevant]))
        return reports

    def _reporter(self, user: Watching, *, force: bool) -> _Reporter:
        """Return what reports on tasks, each set of arguments once; all of them together may be
        measured for the lab's limit."""
        reports: dict[tuple[str, ...], Report] = {}
        settings = self._context.settings
        spent_s = 0.0

        async def report(task: Task) -> Report:
            nonlocal spent_s
            if task.args in reports:
                return reports[task.args]
            # What others hold now they will give back: only what never fits is refused.
            fleet = reach(task, self._context.hosts.snapshot())
            ask = partial(self._preflight.report, task, empty=True, fleet=fleet)
            left_s = settings.measure_limit - spent_s
            own_report = await self._preflight.climb(task, user, ask=ask, limit_s=left_s)
            spent_s += sum(trial.seconds for trial in own_report.trials[1:])
            if not force:
                refuse_hopeless(task, own_report)
                if settings.unknown_memory == "refuse":
                    refuse_unknown(own_report)
            reports[task.args] = own_report
            return own_report

        return report

    def _warn(self, job: Job, sentence: str) -> None:
        _warn(self._journal, job, sentence)


def _needs(report: Report) -> float:
    """Return how much memory (MiB) a report says a run needs; without end where it is unknown."""
    memory = report.estimate.memory
    return math.inf if memory is None else memory.high_mib


def store(context: Context, prepared: Prepared) -> tuple[Job, ...]:
    """Write prepared jobs into the journal, all or none, with what they ship and their secrets;
    return them as they are there."""
    jobs = prepared.jobs
    ids = [job.id for job in jobs]
    bundles = [context.bundle(job_id) for job_id in ids]
    try:
        if prepared.bundle != bundles[0]:
            make_folder(bundles[0].parent)
            os.replace(prepared.bundle, bundles[0])
        for bundle in bundles[1:]:
            _copied(bundles[0], bundle)
        context.secrets.put(ids, prepared.secrets)
        context.journal.add_all(jobs)
    except BaseException:
        for job_id in ids:
            context.secrets.discard(job_id)
        for bundle in (prepared.bundle, *bundles):
            bundle.unlink(missing_ok=True)
        raise
    for sentence in prepared.notes:
        _warn(context.journal, jobs[0], sentence)
    return tuple(stored for job in jobs if (stored := context.journal.job(job.id)) is not None)


def _notes(jobs: Sequence[Job], skipped: Iterable[str]) -> tuple[str, ...]:
    """Return what is said of jobs that were just made: what is unknown, what does not travel."""
    unknown = (_UNKNOWN,) if jobs[0].estimate_mib is None else ()
    floating = filter(None, (floating_note(jobs[0].task.image),))
    left_out = list(skipped)
    if len(left_out) > MOST_TOLD:
        left_out[MOST_TOLD:] = [f"and {len(left_out) - MOST_TOLD} more were left out"]
    return (*unknown, *floating, *left_out)


def _warn(journal: Journal, job: Job, sentence: str) -> None:
    name = job.task.sweep or job.task.name
    journal.tell("job", job.id, clean(f"{name}: {sentence}", 500), "warning")


async def _matters(axis: Axis, tasks: Mapping[Combination, Task], report: _Reporter) -> bool:
    """Tell whether memory depends on an argument: of a number ends and second are tried, of
    anything else each value, with the others at their first."""
    values = axis.values
    if axis.numeric and len(values) > _TRIED:
        values = (values[0], values[1], values[-1])
    firsts = dict(next(iter(tasks)))
    seen = set()
    for value in values:
        changed = tuple((firsts | {axis.name: value}).items())
        answer = await _named(tasks[changed], report)
        seen.add((answer.estimate.memory, answer.estimate.batch_size, answer.estimate.errors))
    return len(seen) > 1


async def _named(task: Task, report: _Reporter) -> Report:
    """Return the report of one job of a sweep; a refusal names the job."""
    try:
        return await report(task)
    except RefusedError as error:
        raise RefusedError(
            error.title, msg("{name}: {message}", name=task.name, message=error.message), error.hint
        ) from None


def new_ids(now: float, count: int) -> list[str]:
    """Return so many new ids; those of one second differ only by chance."""
    ids: dict[str, None] = {}
    while len(ids) < count:
        ids[new_job_id(now)] = None
    # The queue takes equal jobs in the order of their ids.
    return sorted(ids)


def free_name(wanted: str, jobs: Iterable[Job]) -> str:
    """Return a name that no job and no sweep has."""
    taken = {name for job in jobs for name in (job.task.name, job.task.sweep)}
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _copied(source: Path, target: Path) -> Path:
    """Make a packed project another job's too, without its bytes where the disk can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    return target
