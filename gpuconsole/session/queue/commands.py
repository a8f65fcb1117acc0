"""What a user does to jobs in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import ADOPTED, Job, JobState, is_due
from gpuconsole.core.services import MOST_REPLICAS
from gpuconsole.core.submission.after_conditions import Condition
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.clock import Clock
from gpuconsole.state import JobMovedError, Journal
from gpuconsole.waiting import within

MOST_PRIORITY = 1000
"""As in task files."""
LOOK_EVERY_S = 0.5
"""How often it is looked whether a job has ended."""


def find(jobs: Sequence[Job], reference: str, user: str = "") -> Job:
    """Return the job of an id, unique id prefix or unique name; UsageError when there is none. Of
    several of a name or prefix those of the `user` are meant."""
    by_id = [job for job in jobs if job.id == reference]
    by_name = [job for job in jobs if job.task.name == reference]
    by_prefix = [job for job in jobs if reference and job.id.startswith(reference)]
    for several in (by_id, by_name, by_prefix):
        matches = [job for job in several if job.user == user] or several
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(job.id for job in matches[-5:])
            raise UsageError(
                "Which job?",
                msg(
                    "{reference} may be any of {ids}.",
                    reference=repr(clean(reference, 80)),
                    ids=ids,
                ),
                "Give the job's id.",
            )
    replicas = [job for job in jobs if job.task.service and job.task.sweep == reference]
    if replicas and reference:
        raise UsageError(
            "Which replica?",
            msg("{reference} is a service.", reference=repr(clean(reference, 80))),
            msg("`gpuconsole jobs {reference}` lists them.", reference=clean(reference, 80)),
        )
    if swept := sum(job.task.sweep == reference for job in jobs if reference):
        raise UsageError(
            "Which job?",
            msg(
                "{reference} is a sweep of {swept} jobs.",
                reference=repr(clean(reference, 80)),
                swept=swept,
            ),
            msg("`gpuconsole jobs {reference}` lists them.", reference=clean(reference, 80)),
        )
    raise UsageError(
        "No such job",
        msg("The journal has no job {reference}.", reference=repr(clean(reference, 80))),
        "`gpuconsole jobs` lists them.",
    )


def find_group(jobs: Sequence[Job], reference: str, user: str = "") -> str:
    """Return what a task can come after: the id of a job, or the name of a sweep; UsageError when
    it is neither."""
    if any(job.task.sweep == reference for job in jobs) and reference:
        return reference
    return find(jobs, reference, user).id


def find_condition(jobs: Sequence[Job], text: str, user: str = "") -> str:
    """Return a condition of `--after` with the exact id or name of what it means; UsageError for
    one that means nothing."""
    try:
        condition = Condition.of(text)
    except ValueError as error:
        raise UsageError("Wrong condition", clean(f"{text[:80]}: {error}.", 300)) from None
    return str(replace(condition, needed=find_group(jobs, condition.needed, user)))


def find_all(jobs: Sequence[Job], reference: str, user: str = "") -> tuple[Job, ...]:
    """Return the job of an id, the jobs of a sweep by its name, or else the one job that is meant;
    UsageError when there is none. What the `user` has of a name goes before what others have."""
    own = [job for job in jobs if job.user == user]
    for some_jobs in (own, jobs):
        if any(job.id == reference for job in jobs):
            break
        if swept := tuple(job for job in some_jobs if reference and job.task.sweep == reference):
            return swept
        if any(job.task.name == reference for job in some_jobs):
            return (find(some_jobs, reference),)
    return (find(jobs, reference, user),)


def cancel(journal: Journal, job: Job, user: str) -> Job:
    """Take a waiting job out of the queue, or ask for an active one to be stopped."""
    if job.state.ended:
        raise RefusedError(
            "Job has ended", msg("Job {id} is over: {state_word}.", id=job.id, state_word=job.state)
        )
    if job.state.active:
        wanted = replace(job, cancel_requested=True)
    else:
        cause = msg("Cancelled by {user} before it started.", user=user)
        wanted = replace(job, state=JobState.CANCELLED, cause=cause, detail="")
    try:
        return journal.save(job, wanted)
    except JobMovedError:
        # It was launched, or ended, in this very moment: what is asked for stays the same.
        present = journal.job(job.id)
        if present is None or present.state.ended:
            raise
        return cancel(journal, present, user)


def retry(journal: Journal, job: Job, bundle: Path, now: float, hosts: Collection[str] = ()) -> Job:
    """Put an ended job back into the queue, or one with a host that has left the inventory for
    good. `hosts` are those of the inventory; empty if they were not read.
    """
    gone = _host_gone(job, hosts)
    if not job.state.ended and not gone:
        raise RefusedError(
            "Job has not ended",
            msg("Job {id} is {state_word}.", id=job.id, state_word=job.state),
            _before_retry(job),
        )
    if job.task.kind == ADOPTED:
        raise RefusedError(
            "Its task is not known",
            msg("Job {id} was found on a host after the journal was restored.", id=job.id),
            "Submit the script again.",
        )
    if job.task.script and not bundle.exists():
        raise UsageError(
            "Packed project is gone",
            msg("{bundle} was removed, so job {id} cannot be run again.", bundle=bundle, id=job.id),
            "Submit it again.",
        )
    queued = replace(
        job, state=JobState.QUEUED, queued_at=now, cause="", detail="", cancel_requested=False
    )
    if gone and job.attempt is not None:
        # The dispatcher ends it first on the hosts that are left, and queues it then.
        cause = f"{gone} was taken out of the inventory."
        lost = replace(job.attempt, ended_by="lost-host", cause=cause)
        attempts = (*job.attempts[:-1], lost)
        queued = replace(job, attempts=attempts, cancel_requested=False)
    return journal.save(job, queued)


def _host_gone(job: Job, hosts: Collection[str]) -> str:
    """Return the host that an unknown job is on and the inventory does not name any more."""
    if job.state is not JobState.UNKNOWN or job.attempt is None or not hosts:
        return ""
    return next((part.host for part in job.attempt.parts if part.host not in hosts), "")


def _before_retry(job: Job) -> str:
    if job.state is JobState.UNKNOWN:
        return "Wait for its host. If that will never come back, take it out of the inventory."
    return "Cancel it first, or wait."


def release(journal: Journal, job: Job, now: float) -> Job:
    """Let a held job join the queue again."""
    if job.state is not JobState.HELD:
        raise RefusedError(
            "Job is not held", msg("Job {id} is {state_word}.", id=job.id, state_word=job.state)
        )
    if is_trial_to_come(job):
        raise RefusedError(
            "Trial is handed out",
            msg("Job {id} is a trial of a search, which releases it itself.", id=job.id),
        )
    return journal.save(job, replace(job, state=JobState.QUEUED, queued_at=now))


def is_trial_to_come(job: Job) -> bool:
    """Tell whether a held job is a trial of a search that has not been handed out."""
    return job.state is JobState.HELD and bool(job.task.goal) and not job.task.trial


def hold(journal: Journal, job: Job, now: float) -> Job:
    """Hold a queued job, or release a held one."""
    if job.state is JobState.HELD:
        return release(journal, job, now)
    if job.state is not JobState.QUEUED:
        raise RefusedError(
            "Job is not waiting",
            msg("Job {id} is {state_word}, not queued.", id=job.id, state_word=job.state),
        )
    return journal.save(job, replace(job, state=JobState.HELD, detail=""))


def set_priority(journal: Journal, job: Job, priority: int) -> Job:
    """Change the priority of a waiting job; UsageError for one that no task may have."""
    if abs(priority) > MOST_PRIORITY:
        raise UsageError(
            "Priority out of range", msg("{priority} is no priority.", priority=str(priority)[:20]),
            msg("Choose one from -{most} to {most}.", most=MOST_PRIORITY),
        )  # fmt: skip
    if job.state not in (JobState.QUEUED, JobState.HELD):
        raise RefusedError(
            "Job is not waiting",
            msg("Job {id} is {state_word}, not queued.", id=job.id, state_word=job.state),
        )
    return journal.save(job, replace(job, task=replace(job.task, priority=priority)))


def require_service(jobs: Sequence[Job], reference: str, user: str = "") -> tuple[Job, ...]:
    """Return the replicas of a service that have not ended; RefusedError where it has none,
    UsageError where the name is not that of a service."""
    replicas = find_all(jobs, reference, user)
    if (
        len(replicas) == 1
        and replicas[0].task.service is not None
        and replicas[0].task.sweep != reference
    ):
        name = replicas[0].task.sweep
        raise UsageError(
            "That is one replica",
            msg("{id} is a replica of the service {name}.", id=replicas[0].id, name=name),
            "Name the service.",
        )
    if any(job.task.service is None for job in replicas):
        raise UsageError(
            "Not a service",
            msg("{reference} is a job of another kind.", reference=repr(clean(reference, 80))),
            "`gpuconsole services` lists the services.",
        )
    live = tuple(job for job in replicas if not job.state.ended and not job.cancel_requested)
    if not live:
        raise RefusedError(
            "The service has ended",
            msg("{name} has no replica that runs or waits.", name=clean(reference, 80)),
            "Submit it again.",
        )
    return live


def scale(journal: Journal, job: Job, replicas: int, now: float) -> Job:
    """Note in a replica how many its service is to have; UsageError for a number out of range."""
    if not 1 <= replicas <= MOST_REPLICAS:
        raise UsageError(
            "Wrong number of replicas",
            msg("{n} is not from 1 to {most}.", n=str(replicas)[:20], most=MOST_REPLICAS),
            "`gpuconsole cancel` ends a service.",
        )
    if job.task.service is None:
        raise UsageError("Not a service", msg("Job {id} is none of a service.", id=job.id))
    service = replace(job.task.service, replicas=replicas, scaled_at=now)
    return journal.save(job, replace(job, task=replace(job.task, service=service)))


def require_rank(job: Job, rank: int) -> Job:
    """Return the job; UsageError when its latest attempt has no such rank."""
    last = len(job.attempt.members) if job.attempt is not None else 0
    if not 0 <= rank <= last:
        raise UsageError(
            "No such rank",
            msg("Job {id} has no rank {rank}.", id=job.id, rank=rank),
            msg("Its ranks go from 0 to {last}.", last=last),
        )
    return job


def require_not_held(job: Job) -> None:
    """Raise RefusedError for a held job, when its end would be waited for."""
    if job.state is JobState.HELD and not is_trial_to_come(job):
        raise RefusedError(
            "Job is held",
            msg(
                "Job {id} is held, so it does not start and there is nothing to wait for.",
                id=job.id,
            ),
            msg("`gpuconsole release {id}` releases it.", id=job.id),
        )


async def until_ended(
    job: Job, now: Callable[[str], Job], clock: Clock, timeout_s: float | None, reference: str
) -> Job:
    """Return a job once it has ended and is not tried again; `now` returns it, by id, as it is.

    TimeoutError, with `reference` as its name, when it has not ended within `timeout_s` seconds
    (None: no limit); RefusedError when it is held.
    """
    try:
        return await within(timeout_s, _ended(job, now, clock))
    except asyncio.TimeoutError:
        # Until Python 3.10 asyncio has a class of its own.
        raise TimeoutError(
            msg(
                "job {reference} has not ended in {timeout_s} s",
                reference=reference,
                timeout_s=f"{timeout_s:g}",
            )
        ) from None


async def _ended(job: Job, now: Callable[[str], Job], clock: Clock) -> Job:
    while not job.state.ended or is_due(job):
        require_not_held(job)
        await clock.sleep(LOOK_EVERY_S)
        job = now(job.id)
    return job
