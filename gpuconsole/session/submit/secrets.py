"""The secret variables of jobs: values are apart from the journal from the submission on, are given
to the container when it is made, and are removed when the job has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuconsole.core.jobs import Job, Task, is_due
from gpuconsole.core.submission.secrets import withheld
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.session.context import Context

YOUNG_S = 60.0
"""Values that were written so lately are for a job that is about to be queued again."""
ORPHANED_S = 3600.0
"""Values of a job that is not in the journal are of a submission that was killed after so long."""


def require_values(task: Task) -> None:
    """Raise UsageError for a task of which a secret variable has no value."""
    if missing := [name for name, value in task.secrets.items() if not value]:
        raise UsageError(
            "A secret variable has no value",
            msg(
                "{name} needs {names}, and no value was found.",
                name=clean(task.name, 128),
                names=_listed(missing),
            ),
            "Export it where the task file says `from_env`, or give --env-file FILE.",
        )


def without_values(task: Task) -> Task:
    """Return the task as a job has it: with the names of its secrets alone."""
    return replace(task, secrets=dict.fromkeys(task.secrets, ""))


def values_of(context: Context, job: Job) -> Mapping[str, str]:
    """Return the values of a job's secrets for its container; UsageError when one is gone."""
    if not job.task.secrets:
        return {}
    values = context.secrets.values(job.id)
    if missing := [name for name in job.task.secrets if name not in values]:
        raise UsageError(
            "Secret values are gone",
            msg(
                "Job {id} needs {names}, but their values are not in the state folder.",
                id=job.id,
                names=_listed(missing),
            ),
            _again(job),
        )
    return {name: values[name] for name in job.task.secrets}


def hidden_values(context: Context, job: Job) -> tuple[str, ...]:
    """Return the values that no text about a job may quote. UsageError when they cannot be read."""
    secret = context.secrets.values(job.id).values() if job.task.secrets else ()
    return (*plain_values(job), *secret)


def plain_values(job: Job) -> tuple[str, ...]:
    """Return the values of a job's environment that no text may quote, though its task has them."""
    names = withheld(job.task.env)
    return tuple(value for name, value in job.task.env.items() if name in names)


@contextlib.contextmanager
def given_again(context: Context, job: Job, values: Mapping[str, str]) -> Iterator[None]:
    """Keep values for an ended job that is queued again within, beside those that there still are.

    UsageError when one is missing then, or the job has no such variable.
    """
    if not job.state.ended or not (job.task.secrets or values):
        yield
        return
    values = {name: value for name, value in values.items() if value and name not in job.task.env}
    if unknown := sorted(values.keys() - job.task.secrets.keys()):
        raise UsageError(
            "Job has no such secret", msg(
                "Job {id} was not submitted with {names}.", id=job.id, names=_listed(unknown)
            ),
            "Submit it again to add variables.",
        )  # fmt: skip
    values_known = {**context.secrets.values(job.id), **values}
    if missing := [name for name in job.task.secrets if name not in values_known]:
        raise UsageError(
            "Secret values are needed again",
            msg(
                "The values of {names} were removed when job {id} ended.",
                names=_listed(missing),
                id=job.id,
            ),
            _again(job),
        )
    context.secrets.put([job.id], values_known)
    try:
        yield
    except BaseException:
        context.secrets.discard(job.id)
        raise


def forget(context: Context, job: Job) -> None:
    """Remove the values of a job that has just ended."""
    written_at = context.secrets.written_at(job.id) if job.task.secrets else None
    if written_at is not None and is_left_over(job, written_at, context.clock.now()):
        context.secrets.discard(job.id)


class Forgetting:
    """Removes the values of jobs that have ended, where the console that ended them did not."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked: object = None

    def look(self) -> None:
        """Look for such jobs where something has changed since the last look."""
        jobs = self._context.journal.jobs()
        if jobs is not self._looked:
            over = {job.id: job for job in jobs if job.task.secrets and is_over(job)}
            now = self._context.clock.now()
            left = self._context.secrets.discard_if(
                lambda name, written_at: name in over and is_left_over(over[name], written_at, now)
            )
            # Those that are young are looked at again.
            self._looked = None if left & over.keys() else jobs


def prune_values(context: Context) -> None:
    """Remove the values of all jobs that have ended, and of those that were never queued."""
    jobs = {job.id: job for job in context.journal.jobs()}
    now = context.clock.now()

    def is_needless(name: str, written_at: float) -> bool:
        job = jobs.get(name)
        return written_at < now - ORPHANED_S if job is None else is_left_over(job, written_at, now)

    context.secrets.discard_if(is_needless)


def is_over(job: Job) -> bool:
    """Return whether a job has ended and is not about to be tried again by itself."""
    return job.state.ended and not is_due(job)


def is_left_over(job: Job, written_at: float, now: float) -> bool:
    """Return whether values that were written at a time are of no use: their job has ended, and
    they are not those of a retry that is being queued."""
    before = job.attempt is not None and written_at <= job.attempt.created_at
    return is_over(job) and (before or written_at < now - YOUNG_S)


def _again(job: Job) -> str:
    return f"Give them: gpuconsole retry {job.id} --env-file FILE"


def _listed(names: list[str]) -> str:
    return clean(", ".join(names), 300)
