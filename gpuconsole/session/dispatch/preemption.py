"""Stopping a job so that it can go on later: what is wanted is written into its attempt, and the
runner does it, whichever console that is by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuconsole.core.jobs import EndedBy, Job
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.recovery import is_out_of_sight
from gpuconsole.state import JobMovedError, Journal

LOOK_EVERY_S = 0.5


def may_be_preempted(job: Job) -> bool:
    """Whether a job can be stopped and go on from its checkpoint, and is not being stopped yet."""
    attempt = job.attempt
    return (
        job.state.active
        and attempt is not None
        and not attempt.ended_by
        and not job.cancel_requested
        and job.task.resumable
    )


def is_over(before: Job, now: Job) -> bool:
    """Whether the attempt that a job was making has ended."""
    if before.attempt is None or now.attempt is None:
        return True
    same = now.attempt.container_name == before.attempt.container_name
    return not same or not now.state.active


async def until_over(
    context: Context, job: Job, over: Callable[[Job], bool], within_s: float
) -> Job:
    """Return a job once that holds of it, its host is out of sight, or so long has passed."""
    deadline = context.clock.now() + within_s
    while context.clock.now() < deadline:
        job = context.journal.job(job.id) or job
        if over(job) or is_out_of_sight(job, context.hosts.snapshot()):
            break
        await context.clock.sleep(LOOK_EVERY_S)
    return job


def preempt(journal: Journal, job: Job, cause: str) -> Job:
    """Ask for an active job to be stopped and queued again; RefusedError when it cannot be."""
    if job.task.service is not None and not job.task.resumable:
        raise RefusedError(
            "A service is not preempted",
            msg("Job {id} is a replica of the service {name}.", id=job.id, name=job.task.sweep),
            "Set `preemptible: true` in its task file, or drain its host to move it.",
        )
    if not job.task.resumable:
        raise RefusedError(
            "Job cannot go on later",
            msg(
                "Job {id} names no checkpoint folder: stopped, it would start from the beginning.",
                id=job.id,
            ),
            "Set `checkpoint_dir:` in its task file, or cancel it.",
        )
    if job.state.active and not may_be_preempted(job):
        raise RefusedError("Job is being stopped", msg("Job {id} is about to end.", id=job.id))
    if not job.state.active:
        raise RefusedError(
            "Job does not run", msg("Job {id} is {state_word}.", id=job.id, state_word=job.state)
        )
    return interrupt(journal, job, "preempted", cause)


def interrupt(
    journal: Journal, job: Job, ended_by: EndedBy, cause: str, at: float | None = None
) -> Job:
    """Have an active job stopped for this reason; its runner puts it back into the queue, or ends
    it for good where the reason is one of `STOPPED_FOR_GOOD`.

    `at` is when that was decided. Returns the job as it then is; one that moved on meanwhile is
    left alone.
    """
    assert job.attempt is not None
    marked = replace(job.attempt, ended_by=ended_by, cause=cause, stopping_at=at)
    try:
        return journal.save(job, replace(job, attempts=(*job.attempts[:-1], marked)))
    except JobMovedError:
        present = journal.job(job.id)
        if present is None or not present.state.active or present.attempt is None:
            raise
        same = present.attempt.container_name == job.attempt.container_name
        return interrupt(journal, present, ended_by, cause, at) if same else present
