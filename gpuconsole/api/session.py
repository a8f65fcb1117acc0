"""A session on a lab for asynchronous code."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.api.tasks import Runnable, task_of
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.tasks import absolute
from gpuconsole.session import factory
from gpuconsole.session.aio import cancel_all
from gpuconsole.session.dispatch.oom_retry import is_due
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.queue import commands as queue
from gpuconsole.session.queue.planner import Why
from gpuconsole.session.session import Session
from gpuconsole.waiting import within

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gpuconsole.api.tasks import TaskOptions

_FLEET_WAIT_S = 3.0
"""How long hosts are waited for before a script is judged by those that have answered."""
_PICTURE_S = 5.0
_REACH_S = 15.0
"""How long the hosts of one job are waited for."""
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Update:
    """What is new of a job that is followed."""

    job: Job
    lines: tuple[str, ...]
    """What its log has gained, cleaned of control characters."""


@contextlib.asynccontextmanager
async def open_session(
    inventory: str | os.PathLike[str] | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    demo: bool | DemoOptions = False,
    dispatch: bool = False,
) -> AsyncIterator[LabSession]:
    """Open a session: hosts are polled until the block ends.

    Without `inventory` the user's own is read, else this machine alone is watched; `state` is the
    folder of the queue, else the user's own. `demo` opens the simulated lab, whose queue goes with
    it unless `state` names a folder. With `dispatch` queued jobs are started while the session is
    open, unless another console does; waiting for a job does the same. Jobs run on when it closes.
    UsageError for a wrong inventory or none, JournalError for a state folder that cannot be used.
    """
    lab = DemoOptions() if demo is True else demo or None
    session = factory.open_session(
        None if inventory is None else Path(inventory),
        None if state is None else Path(state),
        read_only=read_only,
        demo=lab,
        dispatch=dispatch,
    )
    async with session:
        yield LabSession(session)


class LabSession:
    """A lab's fleet and queue, as `async with open_session() as lab` gives it.

    A job is named by its id, a unique beginning of it, or its unique name. Every method raises a
    ConsoleError with a title, a message and a hint for what a person can put right.
    """

    def __init__(self, session: Session) -> None:
        """Wrap an entered session; use `open_session`."""
        self._session = session

    @property
    def simulated(self) -> bool:
        """Whether this is the simulated lab."""
        return self._session.simulated

    @property
    def read_only(self) -> bool:
        """Whether every change is refused."""
        return self._session.read_only

    def now(self) -> float:
        """Return the session's clock, seconds since the epoch."""
        return self._session.now()

    def snapshot(self) -> FleetSnapshot:
        """Return the fleet as it is known now; hosts may still be connecting."""
        return self._session.snapshot()

    async def status(self, wait_s: float = _PICTURE_S) -> FleetSnapshot:
        """Return the fleet once every host has answered or failed, at most `wait_s` later."""
        return await self._session.first_frames(wait_s)

    async def preflight(
        self, what: Runnable, *, tier: str = "", **options: Unpack[TaskOptions]
    ) -> Report:
        """Predict a script's memory and hold it against every device; runs nothing.

        `tier` is `static`, `formula`, or a measured one that is known; else the best there is.
        """
        task = task_of(what, options)
        await self._session.first_frames(_FLEET_WAIT_S)
        return await self._session.preflight.report(task, tier=tier)

    async def submit(
        self,
        what: Runnable,
        *,
        force: bool = False,
        hold: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Job:
        """Pack a script's project and queue it; with `hold` it does not start until released.

        RefusedError when it will fit nowhere or will fail, unless `force` is set.
        """
        task = task_of(what, options)
        await self._session.first_frames(_FLEET_WAIT_S)
        return await self._session.queue.submit(task, force=force, hold=hold)

    def jobs(self) -> tuple[Job, ...]:
        """Return every job of the queue, oldest first."""
        return self._session.jobs()

    def job(self, reference: str) -> Job:
        """Return one job as it stands now."""
        return self._session.job(reference)

    async def why(self, reference: str) -> Why:
        """Say why a job stands where it does, and what would help."""
        if self._session.job(reference).state is JobState.QUEUED:
            await self._session.look_around(_PICTURE_S)
        return self._session.why(reference)

    async def logs(
        self, reference: str, *, follow: bool = False, rank: int = 0
    ) -> AsyncIterator[str]:
        """Give the log lines of a job's latest attempt; with `follow`, until the job ends.

        `rank` chooses the host of a gang. Lines are cleaned of control characters.
        """
        async for line in self._session.logs(reference, follow=follow, rank=rank):
            yield line

    async def follow(self, reference: str) -> AsyncIterator[Update]:
        """Give what is new of a job, state and log lines, until it has ended.

        Leaving the loop leaves the job alone. RefusedError once the job is held.
        """
        job = self._session.job(reference)
        while True:
            async for update in self._attempts(job.id):
                yield update
            job = self._session.job(job.id)
            while is_due(job):
                await asyncio.sleep(_LOOK_EVERY_S)
                job = self._session.job(job.id)
            if job.state.ended:
                return

    async def _attempts(self, job_id: str) -> AsyncIterator[Update]:
        """Give what is new until the job is in an end state, and its log is read."""
        lines: list[str] = []
        revision = -1
        reading = asyncio.ensure_future(self._read(job_id, lines))
        try:
            over = False
            while not over:
                await asyncio.wait([reading], timeout=_LOOK_EVERY_S)
                over = reading.done()
                job = _unheld(self._session, job_id)
                if lines or job.revision != revision:
                    revision = job.revision
                    fresh, lines[:] = tuple(lines), []
                    yield Update(job, fresh)
            reading.result()
        finally:
            await cancel_all([reading])

    async def _read(self, job_id: str, lines: list[str]) -> None:
        # Each line as it comes: whoever follows takes what is there.
        async for line in self._session.logs(job_id, follow=True):
            lines.append(line)  # noqa: PERF401

    async def wait(self, reference: str, *, timeout_s: float | None = None) -> Job:
        """Return a job once it has ended, however it did; `job.state` and `job.cause` tell.

        TimeoutError when it has not by then; RefusedError when it is held.
        """
        try:
            return await within(timeout_s, self._session.wait(reference))
        except asyncio.TimeoutError:
            # Until Python 3.10 asyncio has a class of its own.
            raise TimeoutError(f"job {reference} has not ended in {timeout_s:g} s") from None

    async def cancel(self, reference: str) -> Job:
        """End a job: it leaves the queue, or gets SIGTERM, a grace time, SIGKILL."""
        for part in self._parts(reference):
            await self._session.first_frames(_REACH_S, part)
        return await self._session.queue.cancel(reference)

    async def fetch(self, reference: str, folder: str | os.PathLike[str] = ".") -> Path:
        """Copy a job's results into `folder/<job id>`; returns that folder."""
        for part in self._parts(reference):
            await self._session.first_frames(_REACH_S, part)
        return (await self._session.fetch(reference, Path(absolute(Path(folder))))).folder

    def _parts(self, reference: str) -> list[str]:
        """Return the hosts of a job's latest attempt."""
        attempt = self._session.job(reference).attempt
        return [] if attempt is None else [part.host for part in attempt.parts]


def _unheld(session: Session, job_id: str) -> Job:
    """Return a job that is followed; RefusedError when it is held and nothing would come."""
    job = session.job(job_id)
    queue.require_not_held(job)
    return job
