"""What is new of a job, state and log lines together, until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from gpuconsole.core.jobs import Job, is_due
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.queue import commands

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Update:
    """What is new of a job that is followed."""

    job: Job
    lines: tuple[str, ...]
    """What its log has gained, cleaned of control characters."""


async def updates(session: Session, reference: str) -> AsyncIterator[Update]:
    """Give what is new of a job until it has ended. RefusedError once it is held."""
    job = session.job(reference)
    while True:
        async for update in _until_stopped(session, job.id):
            yield update
        job = session.job(job.id)
        while is_due(job):
            await asyncio.sleep(LOOK_EVERY_S)
            job = session.job(job.id)
        if job.state.ended:
            return


async def _until_stopped(session: Session, job_id: str) -> AsyncIterator[Update]:
    """Give what is new until the job is in an end state, and its log is read."""
    lines: list[str] = []

    async def read() -> None:
        # Each line as it comes.
        async for line in session.logs(job_id, follow=True):
            lines.append(line)  # noqa: PERF401

    revision = -1
    reading = asyncio.ensure_future(read())
    try:
        over = False
        while not over:
            await asyncio.wait([reading], timeout=LOOK_EVERY_S)
            over = reading.done()
            job = session.job(job_id)
            commands.require_not_held(job)
            if lines or job.revision != revision:
                revision = job.revision
                fresh, lines[:] = tuple(lines), []
                yield Update(job, fresh)
        reading.result()
    finally:
        await cancel_all([reading])
