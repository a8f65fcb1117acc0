"""Waiting for the end of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpuconsole.core.jobs import Job, is_due
from gpuconsole.core.wording import msg
from gpuconsole.session.clock import Clock
from gpuconsole.session.queue.commands import require_not_held
from gpuconsole.waiting import within

LOOK_EVERY_S = 0.5


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
