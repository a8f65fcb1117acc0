"""A session on the lab's queue: the same screens and commands, with the service in between."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuconsole.config import LabSettings
from gpuconsole.core.acts import Act
from gpuconsole.core.containers import PruneResult
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.observation import HostCalibration
from gpuconsole.core.trust import private
from gpuconsole.errors import RefusedError, UnreachableError
from gpuconsole.session.aio import first
from gpuconsole.session.clock import WallClock
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.oom_retry import Offer
from gpuconsole.session.fleet.drain import Drains
from gpuconsole.session.lab_service.client import LabClient, Way
from gpuconsole.session.lab_service.log_copies import LogCopies
from gpuconsole.session.lab_service.mirror import LabHosts, LabJournal, Mirror
from gpuconsole.session.lab_service.protocol import Request, Submission, Wanted
from gpuconsole.session.queue import commands
from gpuconsole.session.queue.planner import Why
from gpuconsole.session.queue.service import NO_VALUES, JobQueue
from gpuconsole.session.session import Session
from gpuconsole.session.submit.pack import pack_project
from gpuconsole.session.submit.submit import Prepared
from gpuconsole.state import Drain
from gpuconsole.state.filesystem import make_folder
from gpuconsole.waiting import within

FIRST_S = 20.0
"""How long the first picture is waited for."""


class LabSession(Session):
    """A session whose fleet, queue and journal are the lab's."""

    elsewhere = True

    def __init__(
        self, way: Way, settings: LabSettings, user: str, state: Path, *, read_only: bool = False
    ) -> None:
        """`way` leads to the service; `state` is where this console keeps what is its own."""
        clock = WallClock()
        self.client = LabClient(way)
        self._mirror = Mirror(clock.now)
        recording = settings.recording.model_copy(update={"enabled": False})
        super().__init__(
            Context(
                hosts=LabHosts(self.client, self._mirror),
                journal=LabJournal(self._mirror, state),
                settings=settings.model_copy(update={"recording": recording}),
                user=user,
                pack=pack_project,
                default_image=self._image,
                clock=clock,
                read_only=read_only,
                dispatch=False,
            )
        )
        self.queue = LabQueue(self)
        self.drains = LabDrains(self)
        self._copies = LogCopies(self.client, state)

    async def __aenter__(self) -> LabSession:
        """Begin to watch, and wait for the first picture.

        UnreachableError where the service does not answer: a picture of nothing would mislead.
        """
        await super().__aenter__()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(FIRST_S, first(self._mirror.complete.wait(), self.client.failed.wait()))
        if not self._mirror.complete.is_set():
            await self._close()
            raise UnreachableError(
                "The lab's queue does not answer",
                f"{self.client.name}: {self.client.lost}.",
                "Jobs that run go on. Ask whether `gpuconsole dispatch --lab` runs there.",
            )
        hello = self._mirror.hello
        assert hello is not None
        self.user, self.simulated = hello.user, hello.simulated
        self._keep_settings(hello.settings)
        self._placer.remember(self._journal.observations())
        return self

    def whys(self, jobs: Iterable[Job]) -> dict[str, Why]:
        """Say why jobs stand where they do; while the service is away, that this is not known."""
        if not self.client.lost:
            return super().whys(jobs)
        seen = f"This is how it stood when {self.client.name} was heard last."
        reason = f"The lab's queue does not answer: {self.client.lost}. {seen}"
        return {job.id: Why(job.state.value, reason) for job in jobs}

    @property
    def dispatcher(self) -> str:
        """Who launches jobs, for a person; "" while the service is not heard."""
        return "" if self.client.lost else super().dispatcher

    @property
    def away(self) -> str:
        """Why the service is not heard now; "" while it is."""
        return self.client.lost

    def store(self, prepared: Prepared) -> tuple[Job, ...]:
        """Refuse: the service queues jobs."""
        raise RefusedError("Not here", "The lab's service queues jobs.")

    def log_path(self, reference: str, attempt: int | None = None, rank: int = 0) -> Path:
        """Return the file into which this console copies an attempt's log, and go on copying."""
        path = super().log_path(reference, attempt, rank)
        job = self.job(reference)
        number = attempt or (job.attempt.number if job.attempt else 0)
        if number:
            self._copies.want(job.id, number, rank)
        return path

    async def logs(self, reference: str, *, follow: bool, rank: int = 0) -> AsyncIterator[str]:
        """Give cleaned log lines of the latest attempt; with `follow`, until the job has ended."""
        job = commands.require_rank(self.job(reference), rank)
        if not follow and job.attempt is not None:
            await self._copies.now(job.id, job.attempt.number, rank)
        async for line in super().logs(job.id, follow=follow, rank=rank):
            yield line

    async def audit(self, limit: int) -> tuple[Act, ...]:
        """Return the latest acts: an operator sees all, others their own."""
        return await self.client.audit(limit)

    async def calibrate(self, *_: Any, **__: Any) -> HostCalibration:
        """Refuse: it takes a link to the host."""
        raise _not_here("Calibrating")

    async def prune(self) -> dict[str, PruneResult]:
        """Refuse: it takes a link to the hosts."""
        raise _not_here("Pruning")

    async def adopt(self, *_: Any, **__: Any) -> Any:
        """Refuse: the journal is the service's."""
        raise _not_here("Adopting")

    def _runs(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on beside: the service watches hosts, and notes what is wrong."""
        return [self._news.run(), self._samples.run(), self._watch_queue()]

    def _dispatch(self) -> None:
        """The service does."""

    def _log_is_whole(self, job_id: str, rank: int) -> bool:
        job = self.job(job_id)
        if job.attempt is None or not job.state.ended:
            return job.state.ended
        return self._copies.is_whole(job_id, job.attempt.number, rank)

    async def _stored(self, prepared: Prepared) -> tuple[Job, ...]:
        wanted = tuple(
            Wanted(replace(job.task, secrets={}), job.estimate_mib, job.estimate)
            for job in prepared.jobs
        )
        hold = prepared.jobs[0].state is JobState.HELD
        submission = Submission(wanted, hold, dict(prepared.secrets), prepared.notes)
        try:
            jobs = await self.client.submit(submission, prepared.bundle)
        finally:
            prepared.bundle.unlink(missing_ok=True)
        self._mirror.put(jobs)
        return jobs

    async def act(self, request: Request) -> list[Job]:
        """Ask the service for an act, and show what became of it."""
        self._context.require_writable(request.verb.capitalize())
        jobs = await self.client.act(request)
        self._mirror.put(tuple(jobs))
        return list(jobs)

    def _image(self, host: str) -> str:
        hello = self._mirror.hello
        return hello.images.get(host, DEFAULT_IMAGE) if hello is not None else DEFAULT_IMAGE

    def _keep_settings(self, heard: LabSettings) -> None:
        """Keep the lab's settings for the next console, which must know them before it connects."""
        path = settings_file(self._journal.folder)
        make_folder(path.parent)
        fresh = path.with_suffix(".new")
        with open(fresh, "w", encoding="utf-8", opener=private) as file:
            file.write(heard.model_dump_json(exclude_unset=True))
        os.replace(fresh, path)

    async def _close(self) -> None:
        await self._copies.close()
        await super()._close()


def settings_file(folder: Path) -> Path:
    """Return where the lab's settings, as heard last, lie in a console's folder."""
    return folder / "settings.json"


def known_settings(folder: Path, user: LabSettings) -> LabSettings | None:
    """Return the lab's settings as heard last, with the looks of the user's own; None where none
    were heard yet. They only advise: the service decides by its own."""
    try:
        lab = LabSettings.model_validate_json(settings_file(folder).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return with_looks(lab, user)


def with_looks(lab: LabSettings, user: LabSettings) -> LabSettings:
    """Return the lab's settings with what of a console is its user's own."""
    looks = ("theme", "language", "symbols", "keys")
    return lab.model_copy(update={name: getattr(user, name) for name in looks})


def _not_here(doing: str) -> RefusedError:
    return RefusedError(
        "Not through the lab's queue", f"{doing} takes a link to the hosts.",
        "Do it on the service's host, under its account.",
    )  # fmt: skip


class LabQueue(JobQueue):
    """The lab's queue as its user acts on it: the service judges and does."""

    def __init__(self, session: LabSession) -> None:
        super().__init__(session._context, session._submitting, session.retrying, session._dispatch)
        self._session = session

    async def cancel_all(self, references: Iterable[str]) -> list[Job]:
        """End several jobs; returns once they have ended, or are known to end later."""
        return await self._asked("cancel", references)

    async def hold_all(self, references: Iterable[str]) -> list[Job]:
        """Keep several jobs from starting, all or none."""
        return await self._asked("hold", references)

    async def release_all(self, references: Iterable[str]) -> list[Job]:
        """Let several held jobs join the queue again, all or none."""
        return await self._asked("release", references)

    async def preempt(self, reference: str) -> Job:
        """Stop a running job and queue it again; it goes on from its checkpoint."""
        return (await self._asked("preempt", (reference,)))[0]

    async def set_priority_all(self, references: Iterable[str], priority: int) -> list[Job]:
        """Change the priority of several jobs, all or none."""
        return await self._asked("priority", references, number=priority)

    async def retry(
        self, reference: str, offer: Offer | None = None, secrets: Mapping[str, str] = NO_VALUES
    ) -> Job:
        """Queue an ended job again; a smaller batch is submitted as a job of its own."""
        if offer is not None:
            return await self._again(offer)
        job = self.job(reference)
        jobs = await self._session.act(Request("retry", (job.id,), secrets=dict(secrets)))
        return jobs[0]

    async def _again(self, offer: Offer) -> Job:
        """Queue an offer as a new job: what a job ships is the service's, and stays as it was."""
        return await self.submit(offer.task, force=True)

    async def _asked(self, verb: str, references: Iterable[str], number: int = 0) -> list[Job]:
        ids = tuple(self.job(reference).id for reference in references)
        return await self._session.act(Request(verb, ids, number=number))


class LabDrains(Drains):
    """Hosts that take no new jobs: the service notes them, for operators."""

    def __init__(self, session: LabSession) -> None:
        before = session.drains
        super().__init__(session.hosts, session._journal, session.now, before._silent)
        self._session = session

    async def drain(self, host: str, reason: str, by: str) -> Drain | None:
        """Let no new job start on a host."""
        known = self._journal.drains().get(host)
        await self._session.act(Request("drain", host=host, text=reason))
        return known

    async def undrain(self, host: str) -> None:
        """Let jobs start on a host again."""
        await self._session.act(Request("undrain", host=host))
