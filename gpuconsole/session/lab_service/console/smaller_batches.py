"""Smaller batches for a job that may run out of memory, worked out by its user's console: the lab's
service reads no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuconsole.core.jobs import Job, SmallerBatch, Task
from gpuconsole.errors import ConsoleError, RefusedError
from gpuconsole.session.dispatch.oom_retry import with_batch
from gpuconsole.session.estimate.service import Preflight

MOST = 4
"""Batches of one job: the last is a sixteenth of its own."""
MOST_JOBS = 20
"""Jobs of one submission for which they are worked out; of a larger sweep none."""


async def with_smaller(preflight: Preflight, jobs: Sequence[Job]) -> tuple[list[Job], list[str]]:
    """Return jobs that ask for `auto_batch` with the batches for it, and what is said of those that
    get none."""
    if not any(job.task.auto_batch for job in jobs):
        return list(jobs), []
    if len(jobs) > MOST_JOBS:
        return list(jobs), [_none(f"a sweep of more than {MOST_JOBS} jobs is not looked through")]
    jobs_sized, notes = [], []
    for job in jobs:
        if job.task.auto_batch:
            try:
                batches = await smaller_batches(preflight, job.task)
            except ConsoleError as error:
                notes.append(_none(error.message.rstrip(".")))
            else:
                job = replace(job, task=replace(job.task, smaller=batches))
        jobs_sized.append(job)
    return jobs_sized, list(dict.fromkeys(notes))


async def smaller_batches(preflight: Preflight, task: Task) -> tuple[SmallerBatch, ...]:
    """Return the batches with which a task may be tried again, each half of the one before, and as
    many as its `retries`. RefusedError says why there is none."""
    size = (await preflight.report(task, empty=True)).estimate.batch_size
    if size is None:
        raise RefusedError("No batch size", "its batch size is unknown.")
    if size == 1:
        raise RefusedError("Nothing smaller", "its batch size is 1 already.")
    sizes: list[SmallerBatch] = []
    while size > 1 and len(sizes) < min(task.retries, MOST):
        was, size = size, size // 2
        change = await preflight.rebatched(task, size)
        if change.args is None:
            raise RefusedError(
                "Batch is out of reach",
                "its batch size is no argument, and the service changes no files.",
            )
        fresh = await preflight.report(with_batch(task, change, size), empty=True)
        if fresh.estimate.batch_size != size:
            raise RefusedError("Batch is out of reach", "its batch size comes from elsewhere.")
        memory = fresh.estimate.memory
        need = None if memory is None else memory.high_mib
        sizes.append(SmallerBatch(size, was, change.args, need))
    return tuple(sizes)


def _none(why: str) -> str:
    return f"It is not tried again by itself with a smaller batch: {why}."
