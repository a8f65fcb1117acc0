"""New jobs from callers: what they send is checked, and queued under their own names."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from gpuconsole.core.engines.terminals import SESSIONS, WORKSPACE
from gpuconsole.core.images import parse_reference
from gpuconsole.core.jobs import ADOPTED, Job, JobState, Task
from gpuconsole.core.lab_service.rights import Caller, Policy, Rights, require_allowed
from gpuconsole.core.services import SERVICE
from gpuconsole.core.submission.env_file import VARIABLE
from gpuconsole.core.submission.sweeps import MOST_JOBS as MOST_SUBMITTED
from gpuconsole.core.submission.time_limits import require_time_limit
from gpuconsole.core.submission.tuning import Goal, read_space
from gpuconsole.core.tasks import require_rules
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.session.dispatch.attempt.container_spec import (
    require_gang_network,
    require_safe_source,
    require_targets,
    start_path,
)
from gpuconsole.session.dispatch.slurm_jobs import cluster_of
from gpuconsole.session.lab_service.http.rates import new_jobs
from gpuconsole.session.lab_service.job_checks import require_sound
from gpuconsole.session.lab_service.protocol import MOST_JOBS, Submission, Wanted
from gpuconsole.session.queue import commands
from gpuconsole.session.submit.secrets import require_values, without_values
from gpuconsole.session.submit.submit import Prepared, new_ids

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_MOST_DEVICES, _MOST_HOSTS, _MOST_RETRIES = 64, 64, 20
"""As in task files."""
_MOST_WORDS = 10_000
_MOST_NOTES = 40
_MOST_GROUPS = 100
"""Different jobs and sweeps that the jobs of one submission may come after."""
_LONGEST_WORD = 128 * 1024
"""What Linux takes as one argument of a program."""
_MOST_LETTERS = 1024 * 1024
"""Of arguments and variables together; Linux starts no program with more than twice as much."""
_MOST_MOUNTS = 100
_LARGEST_BATCH = 10**9
_LARGEST_MIB = 2.0**40


class Intake:
    """Takes submissions of callers into the lab's queue."""

    def __init__(self, session: Session, rights: Rights, policy: Policy) -> None:
        self._session = session
        self._rights = rights
        self._policy = policy
        self._new = new_jobs(time.monotonic)

    def hold_forbidden(self) -> None:
        """Hold the waiting jobs that the lab's policy does not allow any more."""
        journal = self._session._journal
        for job in journal.jobs():
            if job.state is not JobState.QUEUED:
                continue
            try:
                self.require_still(job)
            except ConsoleError as error:
                detail = clean(f"{error.title}: {error.message}", 500)
                journal.save(job, replace(job, state=JobState.HELD, detail=detail))

    def require_still(self, job: Job) -> None:
        """Raise the ConsoleError for a job that was queued before what forbids it now."""
        require_allowed(job.task, self._policy)
        self._require_engine(job.task)
        if self._policy.ids is not None and not job.run_as:
            raise RefusedError(
                "Jobs run as their users",
                msg("Job {id} was queued before jobs ran as their users.", id=job.id),
                "Its user can retry it once it has ended, or submit it again.",
            )

    def renewed(self, caller: Caller, job: Job) -> Job:
        """Return an ended job as its caller may have it tried again: under the numbers that hold
        now. ConsoleError where it may not be."""
        self._rights.require_priority(caller, job.task.priority)
        self._rights.require_gang(caller, job.task)
        self._rights.require_account(caller, job.task.account)
        self._rights.require_windows(caller, job.task, self._session.settings.windows)
        self._require_room(job.user, 1)
        if caller.name == job.user:
            job = replace(job, run_as=self._policy.run_as(caller))
        elif self._policy.ids is None:
            job = replace(job, run_as="")
        self.require_still(job)
        return job

    def require(self, caller: Caller, submission: Submission) -> None:
        """Raise the ConsoleError for a submission that may not be queued."""
        if not 0 < len(submission.jobs) <= MOST_SUBMITTED:
            raise UsageError(
                "No jobs",
                msg(
                    "One submission has 1 to {most_submitted} jobs.", most_submitted=MOST_SUBMITTED
                ),
            )
        self._require_room(caller.name, len(submission.jobs))
        self._require_sweeps(caller, {job.task.sweep for job in submission.jobs} - {""})
        for wanted in submission.jobs:
            self._require(caller, wanted, submission)
        self._groups(caller, submission)

    def take(self, caller: Caller, submission: Submission, bundle: Path) -> tuple[Job, ...]:
        """Queue what `require` let pass; `bundle` is the packed project, which moves into the
        queue's own folder."""
        now, groups = self._session.now(), self._groups(caller, submission)
        self._new.take(caller.uid, len(submission.jobs))
        jobs = tuple(
            Job(
                id=job_id,
                task=self._queued(wanted.task, submission, groups),
                user=caller.name,
                state=JobState.HELD if submission.hold else JobState.QUEUED,
                submitted_at=now,
                queued_at=now,
                estimate_mib=wanted.estimate_mib,
                estimate=wanted.estimate,
                run_as=self._policy.run_as(caller),
            )
            for job_id, wanted in zip(
                new_ids(now, len(submission.jobs)), submission.jobs, strict=True
            )
        )
        notes = tuple(clean(note, 500) for note in submission.notes[:_MOST_NOTES])
        return self._session.store(Prepared(jobs, bundle, submission.secrets, notes))

    async def stored(self, caller: Caller) -> int:
        """Return how many bytes the packed projects of an account's jobs take; jobs of one
        submission share a file."""
        jobs = self._session._journal.jobs()
        bundles = [self._session._context.bundle(job.id) for job in jobs if job.user == caller.name]
        return await asyncio.to_thread(_size, bundles)

    def _require_sweeps(self, caller: Caller, names: Collection[str]) -> None:
        """Raise UsageError for a sweep that others could not tell from what is theirs."""
        for job in self._session._journal.jobs() if names else ():
            taken = job.task.sweep if job.user != caller.name else ""
            if name := next(
                (name_asked for name_asked in (taken, job.id) if name_asked in names), ""
            ):
                raise UsageError(
                    "The name is taken",
                    msg("The name {value} of a sweep is taken.", value=clean(name, 80)),
                    "Submit it again, or under another name.",
                )

    def _require_room(self, user: str, count: int) -> None:
        """Raise RefusedError for more jobs of one account than the queue can plan with."""
        jobs = self._session._journal.jobs()
        waiting = sum(job.user == user and not job.state.ended for job in jobs)
        if waiting + count > MOST_JOBS:
            raise RefusedError(
                "Too many jobs",
                msg(
                    "An account has at most {most_jobs} jobs that have not "
                    "ended; {value} has {waiting}.",
                    most_jobs=MOST_JOBS,
                    value=clean(user, 80),
                    waiting=waiting,
                ),
                "Submit more once some have ended.",
            )

    def _groups(self, caller: Caller, submission: Submission) -> Mapping[str, str]:
        """Return what the conditions of a submission's jobs refer to. UsageError for one that names
        neither a job nor a sweep, and for too many of them."""
        names = {text for wanted in submission.jobs for text in wanted.task.after}
        if len(names) > _MOST_GROUPS:
            raise UsageError(
                "Comes after too much",
                msg("At most {most_groups} names can be given.", most_groups=_MOST_GROUPS),
            )
        jobs = self._session._journal.jobs()
        return {text: commands.find_condition(jobs, text, caller.name) for text in names}

    def _queued(self, task: Task, submission: Submission, groups: Mapping[str, str]) -> Task:
        after = tuple(groups[text] for text in task.after)
        # A file of the caller is never looked at here, whatever its path says.
        ship: tuple[str, ...] = ()
        return without_values(
            replace(
                task, after=after, ship=ship, secrets=dict.fromkeys(submission.secrets, ""),
                # Without batches that its console has worked out the script would be read for them.
                auto_batch=task.auto_batch and bool(task.smaller),
            )
        )  # fmt: skip

    def _require(self, caller: Caller, wanted: Wanted, submission: Submission) -> None:
        task = replace(wanted.task, secrets=dict(submission.secrets))
        _require_form(task)
        require_sound(wanted)
        _require_figure("estimate", wanted.estimate_mib)
        self._rights.require_priority(caller, task.priority)
        self._policy.run_as(caller)
        self._require_engine(task)
        self._rights.require_gang(caller, task)
        self._rights.require_account(caller, task.account)
        self._rights.require_windows(caller, task, self._session.settings.windows)
        require_allowed(task, self._policy)
        require_time_limit(task, self._session.settings.limits.time_limit)
        if task.hosts > 1:
            require_gang_network(task, self._session.settings)
        start_path(task)
        require_targets(task)
        require_values(task)

    def _require_engine(self, task: Task) -> None:
        """Raise RefusedError for a task that the lab's engines would run otherwise than it says."""
        for mount in task.mounts:
            require_safe_source(mount)
        if self._policy.ids is not None and cluster_of(task):
            raise RefusedError(
                "Slurm runs no jobs for others",
                msg(
                    "The lab runs each job as its user; {value} would run this one as "
                    "the account of the lab's service.",
                    value=clean(cluster_of(task), 80),
                ),
                "Submit it to the cluster from your own account, with a queue of your own.",
            )


def _require_form(task: Task) -> None:
    """Raise UsageError for a task that no console of ours would send."""
    if not _NAME.fullmatch(task.name):
        raise UsageError("Wrong name", "A job's name has 1 to 128 letters on one line.")
    if task.kind in SESSIONS:
        _require_session(task)
    elif (task.kind == SERVICE) != (task.service is not None):
        raise UsageError("Wrong service", "A service says what is kept running.")
    elif not task.script or task.kind == ADOPTED:
        raise UsageError(
            "No script", msg("Job {value} names no script.", value=clean(task.name, 80))
        )
    if PurePosixPath(task.script).suffix == ".ipynb":
        raise UsageError("A notebook cannot be submitted", "Export it to a script first.")
    _require_number("devices", 1 if task.devices is None else task.devices, 1, _MOST_DEVICES)
    _require_number("hosts", task.hosts, 1, _MOST_HOSTS)
    _require_number("retries", task.retries, 0, _MOST_RETRIES)
    _require_number("priority", task.priority, -commands.MOST_PRIORITY, commands.MOST_PRIORITY)
    for name, size in (("shm_size", task.shm_size_mib), ("memory_limit", task.memory_limit_mib)):
        _require_figure(name, size)
    if task.service is not None and not (task.sweep and task.hosts == 1 and not task.goal):
        raise UsageError("Wrong service", "A replica has the name of its service, and one host.")
    _require_smaller(task)
    require_rules(task.stop_if)
    _require_search(task)
    if task.image:
        parse_reference(task.image)
    _require_words(task)
    require_mounts(task)


def _require_words(task: Task) -> None:
    """Raise UsageError for a task with too much text, or with variables of a wrong name."""
    words = (
        *task.args,
        *(word for smaller in task.smaller for word in smaller.args),
        *task.env,
        *task.env.values(),
        *task.labels.values(),
        task.image,
        *task.secrets.values(),
    )
    if sum(map(len, words)) > _MOST_LETTERS:
        raise UsageError(
            "Task is too long",
            msg(
                "{value} has more than {most_letters} letters.",
                value=clean(task.name, 80),
                most_letters=_MOST_LETTERS,
            ),
            "Put what is long into a file of the project.",
        )
    if len(words) > _MOST_WORDS or any(len(word) > _LONGEST_WORD or "\0" in word for word in words):
        raise UsageError(
            "Task is too long", msg("{value} has words without end.", value=clean(task.name, 80))
        )
    for name in (*task.env, *task.secrets):
        if not VARIABLE.fullmatch(name):
            raise UsageError(
                "Wrong variable",
                msg("{value} is no name of a variable.", value=f"{clean(name, 80)!r}"),
            )


def _require_session(task: Task) -> None:
    """Raise UsageError for a session that no console of ours would send."""
    if task.script or task.args or task.retries or task.checkpoint_dir or task.hosts != 1:
        raise UsageError("Wrong session", "A session runs a shell and nothing else.")
    if task.workspace and not WORKSPACE.fullmatch(task.workspace):
        raise UsageError(
            "Wrong name of a workspace",
            msg("{value} is none.", value=f"{clean(task.workspace, 80)!r}"),
        )


def _require_search(task: Task) -> None:
    """Raise UsageError for a trial of a search that no console of ours would send."""
    if task.trial or bool(task.goal) != bool(task.space) or (task.goal and not task.sweep):
        raise UsageError("Wrong search", "A trial has a goal, a sweep and no arguments yet.")
    if task.goal:
        Goal.of(task.goal)
        read_space(task.space)


def _require_smaller(task: Task) -> None:
    """Raise UsageError for batches to try again with that no console of ours would send."""
    _require_number("smaller batches", len(task.smaller), 0, _MOST_RETRIES)
    above = _LARGEST_BATCH + 1
    for smaller in task.smaller:
        _require_number("smaller batch", smaller.size, 1, min(above, smaller.was) - 1)
        _require_number("smaller batch", smaller.was, 2, _LARGEST_BATCH)
        _require_figure("estimate", smaller.estimate_mib)
        above = smaller.size


def require_mounts(task: Task) -> None:
    """Raise UsageError for mounts with malformed paths, and for too many."""
    _require_number("mounts", len(task.mounts), 0, _MOST_MOUNTS)
    for mount in task.mounts:
        for path in (mount.source, mount.target):
            parts = PurePosixPath(path).parts
            whole = path.startswith("/") and len(parts) > 1 and ".." not in parts
            if not (whole and path.isprintable()):
                raise UsageError(
                    "Wrong mount", msg("{value} is no path below /.", value=f"{clean(path, 200)!r}")
                )


def _require_number(name: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise UsageError(
            msg("Wrong {name}", name=name),
            msg(
                "{value} is not from {least} to {most}.",
                value=str(number)[:20],
                least=least,
                most=most,
            ),
        )


def _require_figure(name: str, figure: float | None) -> None:
    if figure is not None and not 0 <= figure <= _LARGEST_MIB:
        most = f"{_LARGEST_MIB:g}"
        raise UsageError(
            msg("Wrong {name}", name=name),
            msg("{value} is not from 0 to {most}.", value=str(figure)[:20], most=most),
        )


def _size(files: Iterable[Path]) -> int:
    """Return how many bytes those of the files take that are there."""
    sizes: dict[int, int] = {}
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values())
