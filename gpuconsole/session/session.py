"""`Session`: everything gpuconsole can do, without a face.

CLI, console, web page and tests drive this object. It joins the fleet (`Hosts`), the journal and
the dispatcher; read-only mode is refused here, not in a screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuconsole.core.acts import Act
from gpuconsole.core.containers import PruneResult, ResultFile
from gpuconsole.core.estimate import Report
from gpuconsole.core.events import Event
from gpuconsole.core.firststeps import first_steps
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.observation import HostCalibration
from gpuconsole.errors import JournalError, RefusedError, UsageError
from gpuconsole.placement import Candidate, Decision
from gpuconsole.preflight.cost import work_of
from gpuconsole.session.aio import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.dispatcher import Dispatcher
from gpuconsole.session.dispatch.oom_retry import Retrying, is_due
from gpuconsole.session.dispatch.prune import prune_hosts
from gpuconsole.session.dispatch.slurm_jobs import decision_there, hand_over, without_clusters
from gpuconsole.session.estimate.device_calibration import calibrate
from gpuconsole.session.estimate.idle_devices import SpareDevices
from gpuconsole.session.estimate.service import Preflight
from gpuconsole.session.events import News
from gpuconsole.session.export.render import rendered, unqueued
from gpuconsole.session.export.slurm_script import batch_file
from gpuconsole.session.fleet.autoscaler import Waking
from gpuconsole.session.fleet.drain import Drains
from gpuconsole.session.fleet.first_answers import first_frames
from gpuconsole.session.fleet.host_faults import HostFaults
from gpuconsole.session.fleet.leases import LeaseBoard, marked
from gpuconsole.session.fleet.power_state import power_overlay, with_power
from gpuconsole.session.fleet.silent_engines import Silences
from gpuconsole.session.fleet.view import FleetView
from gpuconsole.session.images.availability import ImageBoard
from gpuconsole.session.images.service import Imaging
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.session.logs.tail import tail
from gpuconsole.session.metrics.collector import Metrics
from gpuconsole.session.processes import Processes
from gpuconsole.session.queue import commands
from gpuconsole.session.queue.forecast import Foresight
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.plan import Outlook
from gpuconsole.session.queue.planner import Why, placed_by
from gpuconsole.session.queue.policies import Policies
from gpuconsole.session.queue.service import JobQueue
from gpuconsole.session.queue.why import why_of
from gpuconsole.session.recording.recent_samples import LiveSamples, Samples
from gpuconsole.session.recording.recorder import FOLDER, ring
from gpuconsole.session.restore.adoption import Settled, settle
from gpuconsole.session.restore.journal_backups import Backing
from gpuconsole.session.results import Fetched, fetch_results, list_results
from gpuconsole.session.submit.secrets import Forgetting
from gpuconsole.session.submit.submit import Prepared, Submitting, store
from gpuconsole.session.triage.service import Triage
from gpuconsole.state import JournalLostError
from gpuconsole.state.elastic import ElasticNotes
from gpuconsole.waiting import within

__all__ = ["Context", "Event", "Session", "Why"]

LOOK_EVERY_S = 0.5


class Session:
    """Drive the fleet, the queue and preflight. Use as `async with Session(...) as session`."""

    elsewhere = False
    """Whether the queue is not here: then it says nothing before the session is entered."""

    def __init__(self, context: Context) -> None:
        self.read_only = context.read_only
        self.simulated = context.simulated
        self.user = context.user
        self.hosts = context.hosts
        self.settings = context.settings
        self._clock = context.clock
        self._journal = context.journal
        notes = ElasticNotes(context.journal.folder)
        silences = Silences(context.clock)
        self.drains = Drains(context.hosts, context.journal, context.clock.now, silences.current)
        limits = context.power.hosts
        overlays = (power_overlay(limits, notes), self.drains.marks)
        self.fleet = FleetView(context.hosts, overlays)
        self._context = replace(context, hosts=self.fleet)
        self.images = Imaging(self._context)
        self._images = ImageBoard(
            context.hosts, context.clock, context.default_image, self.images.learned
        )
        self._placer = Placer(
            context.settings,
            user=context.user,
            images=self._images,
            policies=Policies(context.settings, context.journal.folder),
        )
        self._samples = LiveSamples(self.fleet, context.clock, context.journal.folder / FOLDER)
        self.history: Samples = self._samples
        self._leases = LeaseBoard(self.fleet, context.clock, silences)
        owner = f"{context.user}@{platform.node()} ({os.getpid()})"
        self._news = News(self.fleet, context.journal, context.clock)
        self.triage = Triage(self._context, self._leases, self._news.tell)
        self.metrics = Metrics(self._context, self, self.triage.incidents)
        self.recorder = ring(self, self._context, self._news)
        steps = (placed_by(self._placer), hand_over, with_power(limits, notes))
        self._outlook = Outlook(self._context, steps, self._leases)
        self.foresight = Foresight(self._context, self._placer, self._leases)
        spare = SpareDevices(self._context, self._placer, self._leases, self._outlook)
        self.preflight = Preflight(self._context, spare)
        self.retrying = Retrying(self._context, self.preflight)
        self._submitting = Submitting(self._context, self.preflight, self._stored)
        self.queue = self.queue_of(context.user)
        self.processes = Processes(self._context, self.queue.cancel)
        self._forgetting = Forgetting(self._context)
        self._backing = Backing(self._context)
        self.waking = Waking(self._context, self._placer, self._leases, self.hosts, notes)
        self._dispatcher = Dispatcher(
            self._context,
            self._outlook,
            self._leases,
            HostFaults(self._context, self._fitting),
            owner,
            self._news.tell,
            self._each_second,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._dispatching = False

    async def __aenter__(self) -> Session:
        """Start polling and, unless read-only, try to become the dispatcher."""
        try:
            self._placer.remember(self._journal.observations())
            await self.hosts.start()
            self._tasks = [asyncio.ensure_future(run) for run in self._runs()]
            if self._context.dispatch:
                self._dispatch()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop polling and hand back the dispatcher's role; jobs run on."""
        await self._close()

    def queue_of(self, user: str) -> JobQueue:
        """Return the queue as a user acts on it; what they do is said to be theirs."""
        context = replace(self._context, user=user)
        return JobQueue(context, self._submitting, self.retrying, self._dispatch)

    def store(self, prepared: Prepared) -> tuple[Job, ...]:
        """Queue jobs that are ready, all or none."""
        return store(self._context, prepared)

    async def _stored(self, prepared: Prepared) -> tuple[Job, ...]:
        return self.store(prepared)

    def now(self) -> float:
        """Return the session's clock, seconds since the epoch."""
        return self._clock.now()

    @property
    def dispatching(self) -> bool:
        """Whether this session is the one that launches jobs."""
        return self._dispatcher.active

    @property
    def dispatcher(self) -> str:
        """Who launches jobs, for a person; "" when nobody does."""
        role = self._journal.role()
        return role.owner if role.alive(self.now()) else ""

    @property
    def away(self) -> str:
        """Why the lab's queue is not heard now, as a sentence without its full stop; "" while it
        is, and for a queue that is here."""
        return ""

    @property
    def lost(self) -> JournalLostError | None:
        """Why the journal can be used no more: nothing is launched or written. None while it
        can."""
        return self._journal.lost

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture of the fleet."""
        return self.fleet.snapshot()

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs of the journal, oldest first. The same tuple while nothing changed."""
        return self._journal.jobs()

    def job(self, reference: str) -> Job:
        """Return a job by id, unique id prefix, or unique name; UsageError when there is none."""
        return self.queue.job(reference)

    def group(self, reference: str) -> tuple[Job, ...]:
        """Return the jobs of a sweep by its name, or the one job that is meant."""
        return commands.find_all(self.jobs(), reference)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` on the event loop for each event; the result unsubscribes."""
        return self._news.subscribe(listener)

    async def placements(self, task: Task, report: Report) -> Decision:
        """Return the placement engine's decision for a task as if it were queued now."""
        there = decision_there(task, self.snapshot())
        if there is not None:
            return there
        await self._leases.refresh()
        return self._placer.decide(
            task,
            report.estimate.memory,
            self.jobs(),
            marked(self.snapshot(), self._leases.silent()),
            self._leases.others(self._journal.id),
            self.now(),
            work_of(report.estimate),
        )

    async def first_frames(self, wait_s: float = 5.0, host: str = "") -> FleetSnapshot:
        """Wait until every host, or the named one, has answered or failed, at most so long."""
        return await first_frames(self.fleet, self._clock, wait_s, host)

    async def look_around(self, wait_s: float = 5.0) -> FleetSnapshot:
        """Wait for the first frames, then as long for leases, and plan why jobs wait."""
        await self.first_frames(wait_s)
        with contextlib.suppress(asyncio.TimeoutError):
            await within(wait_s, self._leases.refresh())
        await self._outlook.renew()
        await self.foresight.renew()
        return self.snapshot()

    def why(self, reference: str) -> Why:
        """Say why a job stands where it does: reason, blockers, estimated start, options."""
        job = self.job(reference)
        return self.whys((job,))[job.id]

    def whys(self, jobs: Iterable[Job]) -> dict[str, Why]:
        """Say why each of these jobs stands where it does, by id, after one look at the journal
        and the fleet: made for all rows of a list at once."""
        asked = tuple(jobs)
        queued = any(job.state is JobState.QUEUED for job in asked)
        waiting = self._outlook.plan.waiting if queued else {}
        nobody, now, known = not self.dispatcher, self.now(), self.foresight.known
        snapshot = self.snapshot()
        foreseen = self._placer.prospects(asked, self.jobs(), snapshot, now)
        return {
            job.id: why_of(
                job,
                waiting,
                nobody=nobody,
                expected=known.get(job.id),
                prospect=prospect,
                steps=first_steps(job, snapshot),
                now=now,
            )
            for job, prospect in zip(asked, foreseen, strict=True)
        }

    def warnings(self, reference: str) -> tuple[str, ...]:
        """Return what was said when a job was submitted: what is unknown, what was not shipped."""
        job = self.job(reference)
        told = (event for _, event in self._journal.events_after(0) if event.subject == job.id)
        return tuple(event.message for event in told if event.severity == "warning")

    def log_path(self, reference: str, attempt: int | None = None, rank: int = 0) -> Path:
        """Return the file into which an attempt's log is followed (it may not exist yet)."""
        job = self.job(reference)
        number = attempt or (job.attempt.number if job.attempt else 1)
        return log_file(self._journal.folder, job.id, number, rank)

    async def logs(self, reference: str, *, follow: bool, rank: int = 0) -> AsyncIterator[str]:
        """Give cleaned log lines of the latest attempt; with `follow`, until the job has ended and
        its log is here."""
        job_id = commands.require_rank(self.job(reference), rank).id
        if follow:
            self._dispatch()
        lines = tail(
            lambda: self.log_path(job_id, rank=rank),
            lambda: not follow or self._log_is_whole(job_id, rank),
            lambda: self._clock.sleep(LOOK_EVERY_S),
        )
        async for line in lines:
            yield line

    def _log_is_whole(self, job_id: str, rank: int) -> bool:
        path = self.log_path(job_id, rank=rank)
        return self._as_it_is(job_id).state.ended and not is_being_copied(path)

    async def wait(self, reference: str) -> Job:
        """Return the job once it has ended, dispatching meanwhile if nobody else does.

        RefusedError when it is held, now or later: nothing would come until it is released.
        """
        job = self.job(reference)
        self._dispatch()
        while not job.state.ended or is_due(job):
            commands.require_not_held(job)
            await self._clock.sleep(LOOK_EVERY_S)
            job = self._as_it_is(job.id)
        return job

    def _as_it_is(self, job_id: str) -> Job:
        """Return a job that is waited for; JournalLostError where nothing would ever change."""
        self._journal.require_intact()
        return self.job(job_id)

    async def results(self, reference: str) -> tuple[ResultFile, ...]:
        """List what a job has left on its hosts, the largest first."""
        return await list_results(self.hosts, self.job(reference))

    async def fetch(self, reference: str, destination: Path) -> Fetched:
        """Copy a job's results folder into `destination/<job id>`; returns that folder, and what
        could not be copied."""
        job = self.job(reference)
        settings = self._context.settings.transfer
        return await fetch_results(self.hosts, job, destination / job.id, settings)

    def render(self, reference: str, target: str = "docker") -> str:
        """Return the equal of a job for another engine: a command, or a cluster's objects."""
        if target == "slurm":
            return batch_file(self._context, self.group(reference))
        return rendered(self._context, self.job(reference), target)

    def render_task(
        self,
        task: Task,
        target: str = "docker",
        *,
        on: Candidate | None = None,
        report: Report | None = None,
    ) -> str:
        """Return the equal for a task that is not queued: `on` chosen devices or any, with what
        preflight says of it where an engine can use that."""
        job = unqueued(task, self.user, self.now(), report)
        return rendered(self._context, job, target, on.places if on is not None else ())

    async def audit(self, limit: int) -> tuple[Act, ...]:
        """Return the latest acts on the lab's queue, the latest first; none of a queue of one's
        own, where nobody else acts."""
        return self._journal.acts(limit)

    async def calibrate(
        self, host: str, device: int | None, image: str, progress: Callable[[str], None]
    ) -> HostCalibration:
        """Measure what a process costs on a host's device, and keep it where that worked."""
        self._context.require_writable("Calibrating")
        found = await calibrate(self._context, host, device, image, progress)
        if found.context_mib is not None:
            self._journal.calibrate(found)
        return found

    async def adopt(self, without: Collection[str], wait_s: float) -> Settled:
        """Take into a restored journal what hosts know, dispatching meanwhile if nobody else does.

        Hosts named in `without` are taken as asked: nothing of this queue ran there.
        """
        self._context.require_writable("Adopting")
        unknown = set(without) - {host.name for host in self.snapshot().hosts}
        if unknown:
            raise UsageError(
                "No such host", f"{', '.join(sorted(unknown))} is not in the inventory.", ""
            )
        self._journal.adopt((), without)
        self._dispatch()
        return await settle(self._context, wait_s)

    async def prune(self) -> dict[str, PruneResult]:
        """Clear on every reachable host what finished jobs left; results stay."""
        self._context.require_writable("Pruning")
        if self._journal.restoration() is not None:
            raise RefusedError(
                "Hosts were not all asked",
                "The journal was restored; what ended jobs left tells what it does not know.",
                "Run `gpuconsole journal adopt` first.",
            )
        return await prune_hosts(self._context)

    def _fitting(self, job: Job) -> frozenset[str]:
        """Return the hosts that could run a job, were they free and well."""
        return self._placer.fitting(job, self.jobs(), without_clusters(self.snapshot()), self.now())

    def _runs(self) -> list[Coroutine[Any, Any, None]]:
        """Return what goes on while the session is open, besides dispatching."""
        looks = [self._news.run(), self._samples.run(), self._images.run(), self.triage.run()]
        return [*looks, self._watch_queue(), self.recorder.run()]

    def _dispatch(self) -> None:
        """Take part in dispatching: this session does it whenever nobody else does."""
        if not self._dispatching and not self.read_only:
            self._dispatching = True
            self._tasks.append(asyncio.ensure_future(self._dispatcher.run()))

    async def _watch_queue(self) -> None:
        """Keep others' leases, and why jobs wait, fresh while one does."""
        while True:
            with contextlib.suppress(JournalError):
                if any(job.state is JobState.QUEUED for job in self.jobs()):
                    await self._leases.refresh()
                    if not self.dispatching:
                        await self._outlook.renew()
            await self._clock.sleep(LOOK_EVERY_S)

    def _each_second(self, epoch: int) -> None:
        """Do what a console does beside launching jobs, while it dispatches."""
        self._backing.look()
        self.retrying.look(epoch)
        self._forgetting.look()
        self.waking.look()

    async def _close(self) -> None:
        tasks, self._tasks = self._tasks, []
        try:
            await cancel_all(tasks)
            await self._backing.close()
            await self.waking.close()
            await self.retrying.close()
            await self.recorder.close()
            await self._leases.close()
            await self.hosts.close()
        finally:
            await self.preflight.close()
            self._journal.close()
            self._context.on_close()
        for task in tasks:
            if not task.cancelled():
                # It should have run until now: what ended it must not stay hidden.
                task.result()
