"""`Session`: everything gpuconsole can do, without a face.

CLI, console, web page, tests and the users of the Python API drive this object. It joins the fleet
(`Hosts`), the journal and the dispatcher; read-only mode is refused here, not in a screen. Each
public method is a call of the Python API, but for those that `tools/blocking_api.py` names.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.containers import PruneResult, ResultFile
from gpuconsole.core.devices.run_history import HostCalibration
from gpuconsole.core.engines.host_containers import HostContainers, split_reference
from gpuconsole.core.engines.processes import Ran
from gpuconsole.core.engines.terminals import JUPYTER
from gpuconsole.core.estimate import MeasuredTier, Report
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.submission.sweeps import read_axes
from gpuconsole.core.tasks import absolute
from gpuconsole.core.training.curves import Compared, Curves, compared
from gpuconsole.placement import Candidate, Decision
from gpuconsole.placement.forecast.what_if import Comparison
from gpuconsole.session.async_helpers import Work, cancel_all, raise_faults
from gpuconsole.session.containers.service import Containers
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.cleanup import prune_ended
from gpuconsole.session.dispatch.dispatcher import Dispatcher
from gpuconsole.session.dispatch.oom_retry import Retrying
from gpuconsole.session.estimate.device_calibration import calibrate_and_store
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.session.estimate.service import Preflight
from gpuconsole.session.events import News
from gpuconsole.session.export.render import rendered, rendered_batch, unqueued
from gpuconsole.session.fleet.drain import Drains
from gpuconsole.session.fleet.first_answers import first_frames
from gpuconsole.session.fleet.host_faults import HostFaults
from gpuconsole.session.fleet.leases import LeaseBoard
from gpuconsole.session.fleet.silent_engines import Silences
from gpuconsole.session.fleet.view import FleetView
from gpuconsole.session.housekeeping import Housekeeping, elastic_hosts
from gpuconsole.session.images.availability import ImageBoard
from gpuconsole.session.images.service import Imaging, silent
from gpuconsole.session.interactive.attached import AttachedTerminal
from gpuconsole.session.interactive.shells import Shells
from gpuconsole.session.logs.follow import is_being_copied
from gpuconsole.session.logs.job_logs import JobLogs
from gpuconsole.session.logs.updates import Update, updates
from gpuconsole.session.metrics.collector import Metrics
from gpuconsole.session.planning import Planning
from gpuconsole.session.ports.forwards import ForwardInfo, Forwards
from gpuconsole.session.processes import Processes
from gpuconsole.session.queue import commands
from gpuconsole.session.queue.forecast import parse_change
from gpuconsole.session.queue.planner import Why
from gpuconsole.session.queue.service import NO_VALUES, JobQueue
from gpuconsole.session.recording.backfill import LiveSamples, Samples
from gpuconsole.session.recording.recorder import FOLDER, Recorded, record_into, ring
from gpuconsole.session.report.model import Key, Query, UsageReport
from gpuconsole.session.report.service import report as make_report
from gpuconsole.session.restore.adoption import Settled, begin_adopting, settle
from gpuconsole.session.results import FetchedResults, fetch_results, list_results
from gpuconsole.session.submit.runnable import Runnable, TaskOptions, session_task, task_of
from gpuconsole.session.submit.submit import Prepared, Submitting, store
from gpuconsole.session.triage.service import Triage
from gpuconsole.state import JournalLostError

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Context", "Event", "Session", "Why"]

FLEET_WAIT_S = 3.0
"""How long hosts are waited for before a script is judged by those that have answered."""
REACH_S = 15.0
"""How long the hosts that an act needs are waited for."""


class Session:
    """A lab's fleet and queue, as `async with open_session() as session` returns it.

    A job is named by its id, a unique beginning of it, or its unique name. Every method raises a
    ConsoleError with a title, a message and a hint for what a person can put right.
    """

    simulated: bool
    """Whether this is the simulated lab."""
    read_only: bool
    """Whether every change is refused."""
    user: str
    """The user of the session, as the lab knows them."""
    images: Imaging
    """The images of its hosts."""
    through = ""
    """The program through which its user acts, for the audit; "" for the user's own hands."""
    _dispatching = False
    """Whether it takes part in dispatching."""
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
        silences = Silences(context.clock)
        self.drains = Drains(context.hosts, context.journal, context.clock.now, silences.current)
        elastic = elastic_hosts(context)
        overlays = (elastic.overlay, self.drains.marks) if elastic else (self.drains.marks,)
        self.fleet = FleetView(context.hosts, overlays, context.fence)
        self._context = replace(context, hosts=self.fleet)
        self.images = Imaging(self._context)
        self._images = ImageBoard(
            context.hosts, context.clock, context.default_image, self.images.learned
        )
        self._samples = LiveSamples(self.fleet, context.clock, context.journal.folder / FOLDER)
        self.history: Samples = self._samples
        self._leases = LeaseBoard(self.fleet, context.clock, silences)
        self._news = News(self.fleet, context.journal, context.clock)
        self.triage = Triage(self._context, self._leases, self._news.tell)
        incidents = self.triage.incidents
        self.metrics = Metrics(self._context, self, incidents)
        self.recorder = ring(self, self._context, self._news)
        steps = (elastic.step,) if elastic else ()
        self._planning = Planning(self._context, self._images, self._leases, steps)
        self.foresight = self._planning.foresight
        self.estimates = Preflight(self._context, self._planning.spare)
        self.retrying = Retrying(self._context, self.estimates)
        self._submitting = Submitting(self._context, self.estimates, self._stored)
        self.queue = self.queue_of(context.user)
        self.processes = Processes(self._context, self.queue.cancel)
        self.forwards = Forwards(self._context)
        self.containers = Containers(self._context)
        self.shells = Shells(self._context, lambda: self.queue)
        placer, leases = self._planning.placer, self._leases
        waking = elastic.waking(self._context, placer, leases) if elastic else None
        self._housekeeping = Housekeeping(self._context, self.retrying, waking, incidents)
        self.messages = self._housekeeping.messages
        self._dispatcher = self._new_dispatcher()
        self._logs = JobLogs(context, lambda: self.settings)
        self._tasks: list[asyncio.Task[None]] = []

    def _new_dispatcher(self) -> Dispatcher:
        return Dispatcher(
            self._context,
            self._planning.outlook,
            self._leases,
            HostFaults(self._context, self._planning.fitting),
            f"{self.user}@{platform.node()} ({os.getpid()})",
            self._news.tell,
            self._housekeeping.look,
        )

    async def __aenter__(self) -> Session:
        """Start polling and, unless read-only, try to become the dispatcher."""
        try:
            self._planning.placer.remember(self._journal.observations())
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

    async def _stored(self, prepared: Prepared, sending: Progress) -> tuple[Job, ...]:
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
        """The process that launches jobs, as text for a person; "" if there is none."""
        role = self._journal.role()
        return role.owner if role.alive(self.now()) else ""

    @property
    def away(self) -> str:
        """Why the lab's queue is not heard now, as a sentence without its full stop; "" while it
        is, and for a queue that is here."""
        return ""

    @property
    def lost(self) -> JournalLostError | None:
        """Why the journal can be used no more, so that nothing is launched; None while it can."""
        return self._journal.lost

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture of the fleet."""
        return self.fleet.snapshot()

    async def status(self, wait_s: float = 5.0) -> FleetSnapshot:
        """Return the fleet once every host has answered or failed, at most `wait_s` later."""
        return await self.first_frames(wait_s)

    async def drain(self, host: str, reason: str) -> None:
        """Let no new job start on a host; what runs there runs on."""
        await self.drains.drain(host, reason, self.user)

    async def undrain(self, host: str) -> None:
        """Let jobs start on a host again."""
        await self.drains.undrain(host)

    async def signal_process(self, host: str, pid: int, signal: str = "TERM") -> None:
        """Send TERM, INT or KILL to a process that holds memory on a device of a host.

        RefusedError when it is not there any more, or may not be signalled.
        """
        await self.first_frames(REACH_S, host)
        await self.processes.signal(host, pid, signal)

    async def stop_container(self, host: str, container: str) -> Job | None:
        """Stop a container, by its id; one of a job of this queue is cancelled, and the job
        returned."""
        await self.first_frames(REACH_S, host)
        return await self.processes.stop_container(host, container)

    async def list_containers(
        self, hosts: Sequence[str] = (), *, stopped: bool = False
    ) -> tuple[HostContainers, ...]:
        """List the containers of some hosts, or of all: of all users, jobs or not.

        Of a host that cannot be asked `error` says why. Without `stopped` those that run.
        """
        await self.first_frames(FLEET_WAIT_S)
        return await self.containers.listing(hosts, stopped=stopped)

    async def container_log(
        self, container: str, *, follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[str]:
        """Give the log lines of any container, `HOST:CONTAINER`, or its last ones; with `follow`
        until it ends. Lines are cleaned of control characters."""
        target = await self.containers.find(*split_reference(container))
        async for line in self.containers.log_lines(target, follow=follow, tail=tail):
            yield line

    async def run_in_container(
        self, container: str, words: Sequence[str], *, user: str = ""
    ) -> Ran:
        """Run a command in a running container, `HOST:CONTAINER`, and return what it wrote.

        It is recorded in the audit first. Its words go to no shell; `user` is as whom it runs.
        """
        return await self.containers.run_to_end(container, words, user)

    async def preflight(
        self, what: Runnable, *, tier: str = "", **options: Unpack[TaskOptions]
    ) -> Report:
        """Predict a script's memory and hold it against every device; runs nothing.

        `tier` is `static`, `formula`, or a measured one that is known; else the best there is.
        """
        task = task_of(what, options)
        await self.first_frames(FLEET_WAIT_S)
        return await self.estimates.report(task, tier=tier)

    async def measure(
        self,
        what: Runnable,
        tier: MeasuredTier = "traced",
        *,
        host: str = "",
        local: bool = False,
        progress: Callable[[float, str], None] = silent,
        **options: Unpack[TaskOptions],
    ) -> Report:
        """Run a script for a few steps with real Paddle in a sandbox, and predict by that.

        On `host`, on any that can, or with `local` on this machine. `progress` hears the share
        that is done, 0-1, and its name. RefusedError when the script cannot be measured.
        """
        task = task_of(what, options)
        await self.first_frames(FLEET_WAIT_S)
        await self.estimates.measure(task, tier, progress, host=host, local=local)
        return await self.estimates.report(task, tier=tier)

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
        await self.first_frames(FLEET_WAIT_S)
        return await self.queue.submit(task, force=force, hold=hold)

    async def sweep(
        self,
        what: Runnable,
        axes: Sequence[str],
        *,
        force: bool = False,
        hold: bool = False,
        **options: Unpack[TaskOptions],
    ) -> tuple[Job, ...]:
        """Queue a script once for each combination of values, all or none.

        `axes` are such as `lr=1e-3,1e-4` or `seed=0..3`; several are crossed. Errors: see `submit`.
        """
        task = task_of(what, options)
        await self.first_frames(FLEET_WAIT_S)
        return await self.queue.sweep(task, read_axes(axes), force=force, hold=hold)

    @property
    def simulated_jobs(self) -> bool:
        """Whether its jobs are a demo's, of which nothing ran; also where a demo's queue is looked
        at later."""
        return self.simulated or self._journal.simulated

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs of the journal, oldest first. The same tuple while nothing changed."""
        return self._journal.jobs()

    def job(self, reference: str) -> Job:
        """Return a job by id, unique id prefix, or unique name; UsageError when there is none."""
        return self.queue.job(reference)

    def group(self, reference: str) -> tuple[Job, ...]:
        """Return the jobs of a sweep by its name, or the one job that is meant."""
        return commands.find_all(self.jobs(), reference, self.user)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` on the event loop for each event; the result unsubscribes."""
        return self._news.subscribe(listener)

    async def placements(self, task: Task, report: Report) -> Decision:
        """Return the placement engine's decision for a task as if it were queued now."""
        return await self._planning.decide(task, report)

    async def what_if(self, change: str) -> Comparison:
        """Say when waiting jobs would start after a change, and change nothing.

        `change` is `drain HOST`, `add COUNT MODEL` or `priority JOB NUMBER`.
        """
        wanted = parse_change(change)
        await self.look_around()
        return await self.foresight.what_if(wanted)

    async def first_frames(self, wait_s: float = 5.0, host: str = "") -> FleetSnapshot:
        """Wait until every host, or the named one, has answered or failed, at most so long."""
        return await first_frames(self.fleet, self._clock, wait_s, host)

    async def look_around(self, wait_s: float = 5.0) -> FleetSnapshot:
        """Wait for the first frames, then as long for leases, and plan why jobs wait."""
        await self.first_frames(wait_s)
        await self._planning.renew(wait_s)
        return self.snapshot()

    async def why(self, reference: str) -> Why:
        """Explain the state of a job, and what would help."""
        if self.job(reference).state is JobState.QUEUED:
            await self.look_around()
        return self.why_now(reference)

    def why_now(self, reference: str) -> Why:
        """Return why a job is in its state, from what is known already: reason, blockers, estimated
        start, options."""
        job = self.job(reference)
        return self.explain((job,))[job.id]

    @property
    def held_elsewhere(self) -> int:
        """How many devices jobs of other queues hold, which this one does not see."""
        return self._leases.held_elsewhere(self._journal.id)

    def explain(self, jobs: Iterable[Job]) -> dict[str, Why]:
        """Return why each of these jobs is in its state, by id, after one look at the journal and
        the fleet: for all rows of a list at once."""
        return self._planning.explain(tuple(jobs), dispatched=bool(self.dispatcher))

    def warnings(self, reference: str) -> tuple[str, ...]:
        """Return what was said when a job was submitted: what is unknown, what was not shipped."""
        return self._logs.warnings(self.job(reference).id)

    def log_path(self, reference: str, attempt: int | None = None, rank: int = 0) -> Path:
        """Return the file into which an attempt's log is followed (it may not exist yet)."""
        return self._logs.path(self.job(reference), attempt, rank)

    async def logs(
        self, reference: str, *, follow: bool = False, rank: int = 0
    ) -> AsyncIterator[str]:
        """Give the log lines of a job's latest attempt; with `follow`, until the job ends.

        `rank` chooses the host of a gang. Lines are cleaned of control characters. A line of the
        console's own among them warns of a time limit.
        """
        job_id = commands.require_rank(self.job(reference), rank).id
        if follow:
            self._dispatch()
        lines = self._logs.lines(
            lambda: self._as_it_is(job_id),
            lambda: self.log_path(job_id, rank=rank),
            lambda: not follow or self._log_is_whole(job_id, rank),
        )
        async for line in lines:
            yield line

    def _log_is_whole(self, job_id: str, rank: int) -> bool:
        path = self.log_path(job_id, rank=rank)
        return self._as_it_is(job_id).state.ended and not is_being_copied(path)

    async def curves(
        self, reference: str, attempt: int | None = None, rank: int = 0, *, ask: bool = False
    ) -> Curves:
        """Return what a job tells of its training: loss, accuracy, step time and others over its
        steps, as far as its log is copied; of the latest attempt where none is named.

        To what the log says come the scalars that the script left in its results with VisualDL's
        LogWriter, where its host can be asked; `ask` waits until that has come into sight. Of a job
        over several hosts `rank` is that of a host. UsageError when the log cannot be read, or
        where there is no such rank.
        """
        job = await self._reached(reference) if ask else self.job(reference)
        job = commands.require_rank(job, rank)
        number = attempt or (job.attempt.number if job.attempt else 0)
        if not number:
            return Curves()
        await self._log_copied(job, number, rank)
        return await self._logs.curves(job, number, self.log_path(job.id, number, rank=rank), rank)

    async def _log_copied(self, job: Job, attempt: int, rank: int = 0) -> None:
        """Have a log here as far as there is one; the dispatcher copies it where the queue is."""

    async def compare(self, references: Sequence[str]) -> tuple[Compared, ...]:
        """Return jobs side by side: parameters, curves, peak memory. A reference may be a sweep."""
        jobs = {job.id: job for reference in references for job in self.group(reference)}
        return compared(tuple(jobs.values()), [await self.curves(job_id) for job_id in jobs])

    async def follow(self, reference: str) -> AsyncIterator[Update]:
        """Give what is new of a job, state and log lines, until it has ended.

        Leaving the loop leaves the job alone. RefusedError once the job is held.
        """
        async for update in updates(self, reference):
            yield update

    async def wait(self, reference: str, *, timeout_s: float | None = None) -> Job:
        """Return a job once it has ended, however it did; `job.state` and `job.cause` tell.

        Takes part in dispatching meanwhile if no other process does. TimeoutError when it has not
        ended by then; RefusedError when it is held: nothing would come until it is released.
        """
        job = self.job(reference)
        self._dispatch()
        return await commands.until_ended(job, self._as_it_is, self._clock, timeout_s, reference)

    async def cancel(self, reference: str) -> Job:
        """End a job: it leaves the queue, or gets SIGTERM, a grace time, SIGKILL."""
        return await self.queue.cancel((await self._reached(reference)).id)

    async def hold(self, reference: str) -> Job:
        """Keep a queued job from starting until it is released."""
        return await self.queue.hold(reference)

    async def release(self, reference: str) -> Job:
        """Let a held job join the queue again."""
        return await self.queue.release(reference)

    async def set_priority(self, reference: str, priority: int) -> Job:
        """Change the priority of a job that waits, -1000 to 1000; higher is first."""
        return await self.queue.set_priority(reference, priority)

    async def retry(self, reference: str, *, secrets: Mapping[str, str] = NO_VALUES) -> Job:
        """Queue a job that has ended again, as a new attempt.

        `secrets` are the values of its secret variables, which are not kept after its end.
        """
        return await self.queue.retry(reference, secrets=secrets)

    async def retry_smaller(self, reference: str) -> Job:
        """Queue a job that ran out of memory again, with the largest batch that fits.

        RefusedError says why there is none, or why it cannot be set from here.
        """
        offer = await self.retrying.offer(await self._reached(reference))
        return await self.queue.retry(reference, offer)

    async def preempt(self, reference: str) -> Job:
        """Stop a running job and queue it again; it goes on from its checkpoint.

        RefusedError when it does not run, or keeps no checkpoints.
        """
        return await self.queue.preempt((await self._reached(reference)).id)

    async def scale(self, service: str, replicas: int) -> tuple[Job, ...]:
        """Have a service run so many replicas, 1 to 64; return those that it has now.

        UsageError where the name is not that of a service, RefusedError where it has ended.
        """
        return await self.queue.scale(service, replicas)

    async def forward(
        self, reference: str, port: int = 0, *, local_port: int = 0, rank: int = 0
    ) -> ForwardInfo:
        """Lead a port of this machine (127.0.0.1) to a port of a running job's container.

        Of a service, by its name, connections are spread over its healthy replicas; `port` 0 means
        the one that its task names, and takes part in dispatching if no other process does.

        `local_port` 0 takes the same number, or a free one. It ends with the session, with the job,
        or by `close_forward`. UsageError where the port is taken, RefusedError where the job does
        not run.
        """
        self._context.require_writable("Forwarding a port")
        first = self.group(reference)[0]
        if first.task.service is not None and first.task.sweep == reference:
            commands.require_service(self.jobs(), reference, self.user)
            self._dispatch()
            return (await self.forwards.open_service(first, port, local_port)).info
        job = await self._reached(reference)
        return (await self.forwards.open(job, port, local_port, rank)).info

    async def shell(
        self,
        *,
        memory_mib: float | None = None,
        idle_stop_s: float | None = None,
        until: float | None = None,
        workspace: str = "",
        **options: Unpack[TaskOptions],
    ) -> Job:
        """Queue a session: a shell on leased devices, which outlives its viewers.

        It takes `memory_mib` of each device, or all of it where None. `project` is a folder that is
        copied there, `workspace` the name of one that is kept on its host. It ends with its shell,
        at `until` (s since the epoch), or once for `idle_stop_s` nothing was typed and no device
        used; `attach` uses it. UsageError for what cannot be.
        """
        task = session_task(options)
        task = replace(task, idle_stop_s=idle_stop_s, until=until, workspace=workspace)
        return await self.shells.open(task, memory_mib)

    async def jupyter(
        self,
        *,
        memory_mib: float | None = None,
        idle_stop_s: float | None = None,
        until: float | None = None,
        workspace: str = "",
        **options: Unpack[TaskOptions],
    ) -> Job:
        """Queue a session that runs JupyterLab; all as `shell`. `jupyter_address` reaches it."""
        task = session_task(options, JUPYTER)
        task = replace(task, idle_stop_s=idle_stop_s, until=until, workspace=workspace)
        return await self.shells.open_jupyter(task, memory_mib)

    async def jupyter_address(self, reference: str, *, local_port: int = 0) -> str:
        """Forward a port of this machine to a session's JupyterLab, once that answers; return its
        address, with its token where the session was opened from here.

        Takes part in dispatching meanwhile if no other process does. RefusedError where the job is
        none, or does not run; UsageError where the port is taken.
        """
        self._dispatch()
        job = await self._reached(reference)
        return await self.shells.jupyter_address(job, self.forwards, local_port)

    async def attach(
        self, reference: str, columns: int = 80, rows: int = 24, *, watch: bool = False
    ) -> AttachedTerminal:
        """Look at the terminal of a session, in a window of so many cells, and type into it unless
        `watch` is set. RefusedError where the job is no session, or does not run.

        Takes part in dispatching meanwhile if no other process does.
        """
        self._dispatch()
        job = await self._reached(reference)
        return await self.shells.attach(job.id, columns, rows, watch=watch)

    async def close_forward(self, local_port: int) -> ForwardInfo:
        """End a forward, and what is open through it; UsageError where there is none."""
        forward_ = self.forwards.at(local_port)
        await forward_.close()
        return forward_.info

    async def _reached(self, reference: str) -> Job:
        """Return a job once the hosts of its latest attempt have answered or failed."""
        job = self.job(reference)
        for part in job.attempt.parts if job.attempt is not None else ():
            await self.first_frames(REACH_S, part.host)
        return job

    def _as_it_is(self, job_id: str) -> Job:
        """Return a job that is waited for; JournalLostError where nothing would ever change."""
        self._journal.require_intact()
        return self.job(job_id)

    async def results(self, reference: str) -> tuple[ResultFile, ...]:
        """List what a job has left on its hosts, the largest first."""
        return await list_results(self.hosts, await self._reached(reference))

    async def fetch(self, reference: str, folder: str | os.PathLike[str] = ".") -> Path:
        """Copy a job's results into `folder/<job id>`; returns that folder."""
        return (await self.fetch_results(reference, Path(absolute(Path(folder))))).folder

    async def fetch_results(self, reference: str, destination: Path) -> FetchedResults:
        """Copy a job's results as `fetch` does; returns the folder, and what could not be
        copied."""
        job = await self._reached(reference)
        return await fetch_results(self._context, job, destination / job.id)

    def render(self, reference: str, target: str = "docker") -> str:
        """Return the equal of a job for another engine: a command, or a cluster's objects."""
        if target == "slurm":
            return rendered_batch(self._context, self.group(reference))
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

    async def send_test_message(self) -> tuple[str, list[str]]:
        """Send a test message to the user; return the way that worked, and why others did not.
        RefusedError where none did."""
        self._context.require_writable("Sending a message")
        return await self.messages.test(self.user, self.settings.notify)

    async def incidents(self) -> tuple[Incident, ...]:
        """Return what is wrong in the lab and the latest that was."""
        await self.first_frames()
        if not self.elsewhere:
            await self.triage.look()
        return self.triage.incidents()

    async def incident(self, reference: str) -> Incident:
        """Return one incident, by its id or a beginning, with what can be done about it."""
        await self.incidents()
        return self.triage.incident(reference)

    async def acknowledge(self, incident: str) -> Incident:
        """Say of an incident, by its id, that it has been seen."""
        return await self.triage.acknowledge(incident)

    async def snooze(self, incident: str, seconds: float) -> Incident:
        """Put an incident off for so many seconds, 30 days at most."""
        return await self.triage.snooze(incident, seconds)

    async def resolve(self, incident: str) -> Incident:
        """Say of an incident that it is no fault: closed until it has gone and comes back."""
        return await self.triage.resolve(incident)

    async def reopen(self, incident: str) -> Incident:
        """Take back what was said of an incident."""
        return await self.triage.reopen(incident)

    def record_act(self, verb: str, subject: str, detail: str = "", refused: str = "") -> None:
        """Write into the audit what a program has done, or was refused, for this session's user.
        JournalError where that cannot be."""
        origin = f"{self.through} (pid {os.getpid()})"
        act = Act(self.now(), self.user, os.getuid(), origin, verb, subject, detail, refused)
        self._journal.record(act.cleaned())

    async def audit(self, limit: int = 100) -> tuple[Act, ...]:
        """Return the latest acts on the lab's queue, latest first; operators see everybody's.

        Of a queue of one's own there are the commands that were run in containers, and what
        programs did through `gpuconsole mcp`.
        """
        return self._journal.acts(limit)

    async def report(
        self,
        by: Sequence[Key] = ("user",),
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> UsageReport:
        """Return device-hours, use, energy and cost of jobs, and who holds devices idly.

        `by` are one or several of user, account, project, host, model and month; `since` and
        `until` seconds since the epoch, else the last 30 days. In a lab's queue operators see the
        hours of all users, others their own; idle leases are those of all users.
        """
        return await self.usage_report(Query.over(since, until, by, self.now()))

    async def usage_report(self, query: Query) -> UsageReport:
        """Return device-hours, use, energy and cost of a time, and who holds devices idly."""
        return await make_report(self._context, query)

    async def calibrate(
        self,
        host: str,
        device: int | None = None,
        image: str = "",
        progress: Callable[[str], None] = silent,
    ) -> HostCalibration:
        """Measure what a process costs on a host's device, and keep it where that worked.

        On an idle device where none is named, in the host's default image where `image` is "".
        """
        self._context.require_writable("Calibrating")
        await self.first_frames(REACH_S, host)
        return await calibrate_and_store(self._context, host, device, image, progress)

    async def record(self, path: str | os.PathLike[str], seconds: float | None = None) -> Recorded:
        """Record the session into a new file for so many seconds, or until it is cancelled.

        UsageError when the file cannot be made, or nothing could be written.
        """
        return await record_into(self, Path(path), asyncio.Event(), seconds)

    async def adopt(self, without: Collection[str] = (), wait_s: float = 60.0) -> Settled:
        """Take into a restored journal what hosts know, dispatching meanwhile if no other process
        does.

        Hosts named in `without` are taken as asked: nothing of this queue ran there.
        """
        begin_adopting(self._context, without)
        self._dispatch()
        return await settle(self._context, wait_s)

    async def prune(self) -> dict[str, PruneResult]:
        """Clear on every reachable host what finished jobs left; results stay."""
        return await self._prune_of("")

    async def _prune_of(self, user: str) -> dict[str, PruneResult]:
        """Clear what the finished jobs of one user left, or with "" of all."""
        self._context.require_writable("Pruning")
        await self.first_frames()
        return await prune_ended(self._context, user)

    def _runs(self) -> list[Work[None]]:
        """Return what goes on while the session is open, besides dispatching."""
        watch = self._planning.watch(lambda: self.dispatching)
        looks = [self._news.run(), self._samples.run(), self._images.run(), self.triage.run()]
        return [*looks, watch, self.recorder.run()]

    def _dispatch(self) -> None:
        """Take part in dispatching: this session does it whenever no other process does."""
        if not self._dispatching and not self.read_only:
            self._dispatching = True
            self._tasks.append(asyncio.ensure_future(self._dispatcher.run()))

    async def _close(self) -> None:
        tasks, self._tasks = self._tasks, []
        try:
            await cancel_all(tasks)
            await self.forwards.close()
            await self._housekeeping.close()
            await self.recorder.close()
            await self._leases.close()
            await self.hosts.close()
        finally:
            await self.estimates.close()
            self._journal.close()
            self._context.on_close()
        raise_faults(tasks)
