"""A session on the lab's queue: the same screens and commands, with the service in between."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import PruneResult
from gpuconsole.core.devices.run_history import HostCalibration
from gpuconsole.core.file_trust import private
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UnreachableError
from gpuconsole.session.async_helpers import Work, first
from gpuconsole.session.clock import WallClock
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.oom_retry import Offer
from gpuconsole.session.estimate.measurement_on_host import Asked
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.session.fleet.drain import Drains
from gpuconsole.session.images.service import silent
from gpuconsole.session.lab_service.console.client import LabClient, Way
from gpuconsole.session.lab_service.console.lab_images import LabImaging
from gpuconsole.session.lab_service.console.log_copies import LogCopies
from gpuconsole.session.lab_service.console.mirror import LabHosts, LabJournal, Mirror
from gpuconsole.session.lab_service.console.smaller_batches import with_smaller
from gpuconsole.session.lab_service.protocol import (
    CALIBRATED,
    MOST_IN_ACT,
    PRUNED,
    Measurement,
    Operation,
    Request,
    Submission,
    Wanted,
)
from gpuconsole.session.metrics.collector import Metrics
from gpuconsole.session.processes import Processes
from gpuconsole.session.queue import commands
from gpuconsole.session.queue.planner import Why
from gpuconsole.session.queue.service import NO_VALUES, JobQueue
from gpuconsole.session.report.model import Query, UsageReport
from gpuconsole.session.session import REACH_S, Session
from gpuconsole.session.submit.pack import pack_project
from gpuconsole.session.submit.submit import Prepared
from gpuconsole.session.triage.service import Triage
from gpuconsole.state import Drain
from gpuconsole.state.filesystem import make_folder
from gpuconsole.waiting import within

FIRST_S = 20.0
"""How long the first picture is waited for."""


class LabQueueSession(Session):
    """A session with the lab's fleet, queue and journal."""

    elsewhere = True

    def __init__(
        self,
        way: Way,
        settings: LabSettings,
        user: str,
        state: Path,
        *,
        own_folder: Path | None = None,
        read_only: bool = False,
    ) -> None:
        """`way` leads to the service; `state` is where this console keeps what it heard of the
        lab, `own_folder` what is known of its user's scripts, whatever the queue."""
        clock = WallClock()
        self.client = LabClient(way, lambda: self.through)
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
                measure_on_host=self._measure,
                own_folder=own_folder,
            )
        )
        self.queue = LabQueue(self)
        self.images = LabImaging(self)
        self.drains = LabDrains(self)
        self.triage = LabTriage(self)
        self.metrics = Metrics(self._context, self, self.triage.incidents)
        self.processes = LabProcesses(self)
        self._copies = LogCopies(self.client, state)

    async def __aenter__(self) -> LabQueueSession:
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
                msg("{name}: {lost}.", name=self.client.name, lost=self.client.lost),
                "Jobs that run go on. Ask whether `gpuconsole dispatch --lab` runs there.",
            )
        hello = self._mirror.hello
        assert hello is not None
        self.user, self.simulated = hello.user, hello.simulated
        self._keep_settings(hello.settings)
        self._planning.placer.remember(self._journal.observations())
        return self

    def explain(self, jobs: Iterable[Job]) -> dict[str, Why]:
        """Say why jobs stand where they do; while the service is away, that this is not known."""
        if not self.client.lost:
            return super().explain(jobs)
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

    async def logs(
        self, reference: str, *, follow: bool = False, rank: int = 0
    ) -> AsyncIterator[str]:
        """Give cleaned log lines of the latest attempt; with `follow`, until the job has ended."""
        job = commands.require_rank(self.job(reference), rank)
        if not follow and job.attempt is not None:
            await self._copies.now(job.id, job.attempt.number, rank)
        async for line in super().logs(job.id, follow=follow, rank=rank):
            yield line

    async def _log_copied(self, job: Job, attempt: int, rank: int = 0) -> None:
        if not self._copies.is_followed(job.id, attempt, rank):
            await self._copies.now(job.id, attempt, rank)

    def record_act(self, verb: str, subject: str, detail: str = "", refused: str = "") -> None:
        """The service has recorded it already, with the program that it was done through."""

    async def audit(self, limit: int = 100) -> tuple[Act, ...]:
        """Return the latest acts: an operator sees all, others their own."""
        return await self.client.audit(limit)

    async def usage_report(self, query: Query) -> UsageReport:
        """Return device-hours, use, energy and cost: an operator sees all, others their own."""
        return await self.client.usage_report(query)

    async def calibrate(
        self,
        host: str,
        device: int | None = None,
        image: str = "",
        progress: Callable[[str], None] = silent,
    ) -> HostCalibration:
        """Have the service measure what a process costs on a host's device; for operators."""
        self._context.require_writable("Calibrating")
        await self.first_frames(REACH_S, host)
        wanted = Operation("calibrate", image, host, device=device)
        answer = await self.operate(wanted, lambda _, words: progress(words))
        calibration = CALIBRATED.validate_json(answer)
        if calibration.context_mib is not None:
            self._mirror.learn(calibration)
        return calibration

    async def prune(self) -> dict[str, PruneResult]:
        """Have the service clear what finished jobs left: the user's own, for operators all."""
        self._context.require_writable("Pruning")
        answer = await self.operate(Operation("prune"), lambda host, words: None)
        return {clean(host, 80): counts for host, counts in PRUNED.validate_json(answer).items()}

    async def adopt(self, *_: object, **__: object) -> NoReturn:
        """Refuse: the journal is the service's."""
        raise _not_here("Adopting")

    def _runs(self) -> list[Work[None]]:
        """Return what goes on beside: the service watches hosts, and notes what is wrong."""
        return [
            self._news.run(),
            self._samples.run(),
            self._planning.watch(lambda: self.dispatching),
        ]

    def _dispatch(self) -> None:
        """The service does."""

    def _log_is_whole(self, job_id: str, rank: int) -> bool:
        job = self.job(job_id)
        if job.attempt is None or not job.state.ended:
            return job.state.ended
        return self._copies.is_whole(job_id, job.attempt.number, rank)

    async def _stored(self, prepared: Prepared, sending: Progress) -> tuple[Job, ...]:
        hold = prepared.jobs[0].state is JobState.HELD
        try:
            jobs, missed = await with_smaller(self.estimates, prepared.jobs)
            wanted = tuple(
                Wanted(replace(job.task, secrets={}), job.estimate_mib, job.estimate)
                for job in jobs
            )
            notes = (*prepared.notes, *missed, *await self._left_settings())
            submission = Submission(wanted, hold, dict(prepared.secrets), notes)
            queued = await self.client.submit(submission, prepared.bundle, sending)
        finally:
            prepared.bundle.unlink(missing_ok=True)
        self._mirror.put(queued)
        return queued

    async def send_test_message(self) -> tuple[str, list[str]]:
        """Have the service send a test message to the user, by the user's own settings."""
        self._context.require_writable("Sending a message")
        notified = await self.client.notify(self._notify_json(), test=True)
        return notified.way, list(notified.refused)

    async def _left_settings(self) -> tuple[str, ...]:
        """Store at the service how the user wants to be notified; return what is of no use there.
        No job waits for that."""
        try:
            return (await self.client.notify(self._notify_json(), test=False)).refused
        except ConsoleError as error:
            return (error.message,)

    def _notify_json(self) -> str:
        return self.settings.notify.model_dump_json(exclude_unset=True)

    async def act(self, request: Request) -> list[Job]:
        """Ask the service for an act, and show what became of it."""
        self._context.require_writable(request.verb.capitalize())
        jobs = await self.client.act(request)
        self._mirror.put(tuple(jobs))
        return list(jobs)

    async def operate(self, wanted: Operation, report: Callable[[str, str], None]) -> bytes:
        """Have the service do what takes a link to hosts, and return the document of what it did.

        RefusedError where it may not be, or the service is of before that. Cancelling ends it."""
        self._mirror.require_offer("operation", wanted.verb.capitalize())
        return await self.client.operate(wanted, report)

    def is_own(self, job: Job) -> bool:
        """Tell whether this user may see what a job runs: it is their own, or all are shown."""
        return self._mirror.is_own(job)

    async def _measure(self, host: Host, device: Device | None, asked: Asked) -> bytes:
        if device is not None:
            self._mirror.require_offer("device", "Measuring on a device")
        wanted = Measurement(
            host.name,
            asked.image,
            asked.task.mounts,
            dict(asked.request),
            asked.patient,
            "" if device is None else device.uuid,
        )
        return await self.client.measure(wanted, asked.bundle, asked.progress)

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
    """Return the lab's settings with what is its user's own: looks, and notifications."""
    looks = ("theme", "language", "symbols", "keys", "notify")
    return lab.model_copy(update={name: getattr(user, name) for name in looks})


def _not_here(doing: str) -> RefusedError:
    return RefusedError(
        "Not through the lab's queue", msg("{doing} takes a link to the hosts.", doing=doing),
        "Do it on the service's host, under its account.",
    )  # fmt: skip


class LabQueue(JobQueue):
    """The lab's queue as its user acts on it: the service judges and does."""

    def __init__(self, session: LabQueueSession) -> None:
        super().__init__(session._context, session._submitting, session.retrying, session._dispatch)
        self._session = session

    async def cancel_all(self, references: Iterable[str]) -> list[Job]:
        """End several jobs; returns once they have ended, or are known to end later."""
        return await self._asked("cancel", references)

    async def hold_all(self, references: Iterable[str]) -> list[Job]:
        """Keep several jobs from starting, all or none of each thousand."""
        return await self._asked("hold", references)

    async def release_all(self, references: Iterable[str]) -> list[Job]:
        """Let several held jobs join the queue again, all or none of each thousand."""
        return await self._asked("release", references)

    async def preempt(self, reference: str) -> Job:
        """Stop a running job and queue it again; it goes on from its checkpoint."""
        return (await self._asked("preempt", (reference,)))[0]

    async def set_priority_all(self, references: Iterable[str], priority: int) -> list[Job]:
        """Change the priority of several jobs, all or none of each thousand."""
        return await self._asked("priority", references, number=priority)

    async def scale_all(self, references: Iterable[str], replicas: int) -> list[Job]:
        """Have a service, by its replicas, run so many, all or none of each thousand."""
        return await self._asked("scale", references, number=replicas)

    async def retry(
        self, reference: str, offer: Offer | None = None, secrets: Mapping[str, str] = NO_VALUES
    ) -> Job:
        """Queue an ended job again; a smaller batch is submitted as a job of its own."""
        if offer is not None:
            return await self._again(offer)
        job = self.job(reference)
        jobs = await self._session.act(Request("retry", (job.id,), secrets=dict(secrets)))
        return jobs[0]

    def job(self, reference: str) -> Job:
        """Return a job by id, unique id prefix, or unique name; one's own go before those of
        others. UsageError when there is none."""
        job = self._session._journal.job(reference)
        return job or commands.find(self._session.jobs(), reference, self._session.user)

    async def _again(self, offer: Offer) -> Job:
        """Queue an offer as a new job: what a job ships is the service's, and stays as it was."""
        return await self.submit(offer.task, force=True)

    async def _asked(self, verb: str, references: Iterable[str], number: int = 0) -> list[Job]:
        ids = tuple(self.job(reference).id for reference in references)
        done: list[Job] = []
        for begin in range(0, len(ids), MOST_IN_ACT):
            some = ids[begin : begin + MOST_IN_ACT]
            done += await self._session.act(Request(verb, some, number=number))
        return done


class LabDrains(Drains):
    """Hosts that take no new jobs: the service notes them, for operators."""

    def __init__(self, session: LabQueueSession) -> None:
        before = session.drains
        super().__init__(session.hosts, session._journal, session.now, before._silent)
        self._session = session

    async def drain(self, host: str, reason: str, by: str) -> Drain | None:
        """Let no new job start on a host."""
        mark = self._journal.drains().get(host)
        await self._session.act(Request("drain", host=host, text=reason))
        return mark

    async def undrain(self, host: str) -> None:
        """Let jobs start on a host again."""
        await self._session.act(Request("undrain", host=host))


class LabTriage(Triage):
    """What is wrong in the lab: the service watches, and notes what people say of it."""

    def __init__(self, session: LabQueueSession) -> None:
        super().__init__(session._context, session._leases, session._news.tell)
        self._session = session

    def _require_marks(self) -> None:
        self._context.require_writable("A mark on an incident")

    async def _keep_mark(self, verb: str, marked: Incident) -> None:
        seconds = 0 if marked.until is None else round(marked.until - self._clock.now())
        await self._session.act(Request(verb, text=marked.id, number=seconds))


class LabProcesses(Processes):
    """What runs on devices: the service ends it, for operators."""

    def __init__(self, session: LabQueueSession) -> None:
        super().__init__(session._context, session.queue.cancel)
        self._session = session

    async def signal(self, host: str, pid: int, signal: str) -> None:
        """Send TERM, INT or KILL to a process that holds memory on a device of the host."""
        await self._session.act(Request("signal", host=host, number=pid, text=signal))

    async def stop_container(self, host: str, container: str) -> Job | None:
        """Stop a container; one of a job of the queue is cancelled, and the job returned."""
        job = self.job_of(container)
        if job is not None:
            return await self._cancel(job.id)
        await self._session.act(Request("stop-container", host=host, text=container))
        return None
