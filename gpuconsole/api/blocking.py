"""The same session for code that is not asynchronous: a script, or a cell of a notebook.

It runs on an event loop in a thread of its own, so it works beside a loop that runs already.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from gpuconsole.api.session import open_session
from gpuconsole.errors import UnreachableError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.images.service import Imaging, silent
from gpuconsole.session.queue.service import NO_VALUES
from gpuconsole.session.session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gpuconsole.core.containers import PruneResult, ResultFile
    from gpuconsole.core.devices.run_history import HostCalibration
    from gpuconsole.core.engines.host_containers import HostContainers
    from gpuconsole.core.engines.processes import Ran
    from gpuconsole.core.estimate import MeasuredTier, Report
    from gpuconsole.core.events import Event
    from gpuconsole.core.fleet import FleetSnapshot
    from gpuconsole.core.images import Progress
    from gpuconsole.core.incidents import Incident
    from gpuconsole.core.jobs import Job, Task
    from gpuconsole.core.lab_service.audit import Act
    from gpuconsole.core.training.curves import Compared, Curves
    from gpuconsole.placement import Candidate, Decision
    from gpuconsole.placement.forecast.what_if import Comparison
    from gpuconsole.placement.prepull import Fetch
    from gpuconsole.session.images.copy import Copied
    from gpuconsole.session.images.service import FetchedImage, HostImages, PullProgress
    from gpuconsole.session.logs.updates import Update
    from gpuconsole.session.ports.forwards import ForwardInfo
    from gpuconsole.session.queue.planner import Why
    from gpuconsole.session.recording.recorder import Recorded
    from gpuconsole.session.report.model import Key, UsageReport
    from gpuconsole.session.restore.adoption import Settled
    from gpuconsole.session.results import FetchedResults
    from gpuconsole.session.submit.runnable import Runnable, TaskOptions
    from gpuconsole.state.files.images import ImageCheck, Pin

Answer = TypeVar("Answer")
_CLOSE_S = 30.0
"""How long closing is waited for: longer than any host's last answer."""


def open_blocking(
    inventory: str | os.PathLike[str] | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    demo: bool | DemoOptions = False,
    dispatch: bool = False,
) -> BlockingSession:
    """Open a session as `open_session` does, for code without `await`.

    Use it in a `with` block, or close it; the end of the program does so too.
    """
    return BlockingSession(
        lambda: open_session(
            inventory, state=state, read_only=read_only, demo=demo, dispatch=dispatch
        )
    )


class BlockingImages:
    """The images of a lab's hosts, as `BlockingSession.images`."""

    def __init__(self, session: BlockingSession, images: Imaging) -> None:
        """Ask the images of an open session."""
        self._lab = images
        self._call = session._call
        self._ask = session._ask

    # -- written by tools/blocking_api.py: BlockingImages

    def default(self, host: str = "") -> str:
        """Return the image of tasks that name none, on a host or on any."""
        return self._ask(lambda: self._lab.default(host))

    def wanted(self, hosts: Sequence[str] = ()) -> tuple[Fetch, ...]:
        """Return the images that waiting jobs need on hosts where they may come to run."""
        return self._ask(lambda: self._lab.wanted(hosts))

    def listing(self, hosts: Sequence[str] = ()) -> tuple[HostImages, ...]:
        """Ask hosts for their images, all at once; those that cannot be asked say why."""
        return self._call(self._lab.listing(hosts))

    def fetch(
        self, fetches: Sequence[Fetch], progress: PullProgress = silent
    ) -> tuple[FetchedImage, ...]:
        """Pull images by policy: the order given, one at a time on each road. Cancelling ends the
        pulls; layers that are whole stay. The result names every fetch, also those of hosts that
        had the image."""
        return self._call(self._lab.fetch(fetches, progress))

    def pin(self, image: str, host: str = "") -> Pin:
        """Find the one image that a name means and remember it: tasks that are submitted from now
        on with that name run that image."""
        return self._call(self._lab.pin(image, host))

    def resolve(self, image: str, host: str = "") -> Pin:
        """Return what `pin` would remember, and remember nothing."""
        return self._call(self._lab.resolve(image, host))

    def unpin(self, image: str) -> None:
        """Forget a pin; RefusedError when there is none."""
        return self._ask(lambda: self._lab.unpin(image))

    def check(
        self, image: str, host: str, progress: Progress = silent, *, device: bool = True
    ) -> tuple[ImageCheck, list[str]]:
        """Run Paddle in an image on a host; returns what it said and what speaks against it."""
        return self._call(self._lab.check(image, host, progress, device=device))

    def copy(
        self,
        image: str,
        source: str,
        target: str,
        progress: Progress = silent,
        *,
        replace: bool = False,
    ) -> Copied:
        """Copy an image host to host through this console, for a host that cannot pull. Nothing is
        stored on the way; with `replace` the name is taken from another image there."""
        return self._call(self._lab.copy(image, source, target, progress, replace=replace))

    # -- end of what is written


class BlockingSession:
    """A lab's fleet and queue; each method is that of `Session`, and returns when it is done.

    An interrupt (Ctrl-C, a notebook's stop button) ends the waiting, never a job.
    """

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[Session]]) -> None:
        """Open the session in a thread of its own; use `open_blocking`."""
        ready: Future[Session] = Future()
        self._opening = opening
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="gpuconsole"))
        self._closing = asyncio.Event()
        self._ended = False
        self._thread = threading.Thread(
            target=self._serve, args=(ready,), name="gpuconsole", daemon=True
        )
        self._thread.start()
        try:
            self._lab = ready.result()
        except BaseException:
            self._end()
            raise
        _OPEN.add(self)

    def __enter__(self) -> BlockingSession:
        """Return the session itself; it is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Stop polling; jobs run on. Closing twice does nothing."""
        _OPEN.discard(self)
        self._end()

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        return self._ended or not self._thread.is_alive()

    # -- written by tools/blocking_api.py: BlockingSession

    @property
    def simulated(self) -> bool:
        """Whether this is the simulated lab."""
        return self._lab.simulated

    @property
    def read_only(self) -> bool:
        """Whether every change is refused."""
        return self._lab.read_only

    @property
    def user(self) -> str:
        """The user of the session, as the lab knows them."""
        return self._lab.user

    @property
    def images(self) -> BlockingImages:
        """The images of its hosts."""
        return BlockingImages(self, self._lab.images)

    def now(self) -> float:
        """Return the session's clock, seconds since the epoch."""
        return self._ask(lambda: self._lab.now())

    @property
    def dispatching(self) -> bool:
        """Whether this session is the one that launches jobs."""
        return self._ask(lambda: self._lab.dispatching)

    @property
    def dispatcher(self) -> str:
        """The process that launches jobs, as text for a person; "" if there is none."""
        return self._ask(lambda: self._lab.dispatcher)

    @property
    def away(self) -> str:
        """Why the lab's queue is not heard now, as a sentence without its full stop; "" while it
        is, and for a queue that is here."""
        return self._ask(lambda: self._lab.away)

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture of the fleet."""
        return self._ask(lambda: self._lab.snapshot())

    def status(self, wait_s: float = 5.0) -> FleetSnapshot:
        """Return the fleet once every host has answered or failed, at most `wait_s` later."""
        return self._call(self._lab.status(wait_s))

    def drain(self, host: str, reason: str) -> None:
        """Let no new job start on a host; what runs there runs on."""
        return self._call(self._lab.drain(host, reason))

    def undrain(self, host: str) -> None:
        """Let jobs start on a host again."""
        return self._call(self._lab.undrain(host))

    def signal_process(self, host: str, pid: int, signal: str = "TERM") -> None:
        """Send TERM, INT or KILL to a process that holds memory on a device of a host."""
        return self._call(self._lab.signal_process(host, pid, signal))

    def stop_container(self, host: str, container: str) -> Job | None:
        """Stop a container, by its id; one of a job of this queue is cancelled, and the job
        returned."""
        return self._call(self._lab.stop_container(host, container))

    def list_containers(
        self, hosts: Sequence[str] = (), *, stopped: bool = False
    ) -> tuple[HostContainers, ...]:
        """List the containers of some hosts, or of all: of all users, jobs or not."""
        return self._call(self._lab.list_containers(hosts, stopped=stopped))

    def container_log(
        self, container: str, *, follow: bool = False, tail: int | None = None
    ) -> Iterator[str]:
        """Give the log lines of any container, `HOST:CONTAINER`, or its last ones; with `follow`
        until it ends. Lines are cleaned of control characters."""
        return self._each(self._lab.container_log(container, follow=follow, tail=tail))

    def run_in_container(self, container: str, words: Sequence[str], *, user: str = "") -> Ran:
        """Run a command in a running container, `HOST:CONTAINER`, and return what it wrote."""
        return self._call(self._lab.run_in_container(container, words, user=user))

    def preflight(
        self, what: Runnable, *, tier: str = "", **options: Unpack[TaskOptions]
    ) -> Report:
        """Predict a script's memory and hold it against every device; runs nothing."""
        return self._call(self._lab.preflight(what, tier=tier, **options))

    def measure(
        self,
        what: Runnable,
        tier: MeasuredTier = "traced",
        *,
        host: str = "",
        local: bool = False,
        progress: Callable[[float, str], None] = silent,
        **options: Unpack[TaskOptions],
    ) -> Report:
        """Run a script for a few steps with real Paddle in a sandbox, and predict by that."""
        return self._call(
            self._lab.measure(what, tier, host=host, local=local, progress=progress, **options)
        )

    def submit(
        self,
        what: Runnable,
        *,
        force: bool = False,
        hold: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Job:
        """Pack a script's project and queue it; with `hold` it does not start until released."""
        return self._call(self._lab.submit(what, force=force, hold=hold, **options))

    def sweep(
        self,
        what: Runnable,
        axes: Sequence[str],
        *,
        force: bool = False,
        hold: bool = False,
        **options: Unpack[TaskOptions],
    ) -> tuple[Job, ...]:
        """Queue a script once for each combination of values, all or none."""
        return self._call(self._lab.sweep(what, axes, force=force, hold=hold, **options))

    @property
    def simulated_jobs(self) -> bool:
        """Whether its jobs are a demo's, of which nothing ran; also where a demo's queue is looked
        at later."""
        return self._ask(lambda: self._lab.simulated_jobs)

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs of the journal, oldest first. The same tuple while nothing changed."""
        return self._ask(lambda: self._lab.jobs())

    def job(self, reference: str) -> Job:
        """Return a job by id, unique id prefix, or unique name; UsageError when there is none."""
        return self._ask(lambda: self._lab.job(reference))

    def group(self, reference: str) -> tuple[Job, ...]:
        """Return the jobs of a sweep by its name, or the one job that is meant."""
        return self._ask(lambda: self._lab.group(reference))

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` on the event loop for each event; the result unsubscribes."""
        return self._ask(lambda: self._lab.subscribe(listener))

    def placements(self, task: Task, report: Report) -> Decision:
        """Return the placement engine's decision for a task as if it were queued now."""
        return self._call(self._lab.placements(task, report))

    def what_if(self, change: str) -> Comparison:
        """Say when waiting jobs would start after a change, and change nothing."""
        return self._call(self._lab.what_if(change))

    def why(self, reference: str) -> Why:
        """Explain the state of a job, and what would help."""
        return self._call(self._lab.why(reference))

    def why_now(self, reference: str) -> Why:
        """Return why a job is in its state, from what is known already: reason, blockers, estimated
        start, options."""
        return self._ask(lambda: self._lab.why_now(reference))

    def explain(self, jobs: Iterable[Job]) -> dict[str, Why]:
        """Return why each of these jobs is in its state, by id, after one look at the journal and
        the fleet: for all rows of a list at once."""
        return self._ask(lambda: self._lab.explain(jobs))

    def warnings(self, reference: str) -> tuple[str, ...]:
        """Return what was said when a job was submitted: what is unknown, what was not shipped."""
        return self._ask(lambda: self._lab.warnings(reference))

    def log_path(self, reference: str, attempt: int | None = None, rank: int = 0) -> Path:
        """Return the file into which an attempt's log is followed (it may not exist yet)."""
        return self._ask(lambda: self._lab.log_path(reference, attempt, rank))

    def logs(self, reference: str, *, follow: bool = False, rank: int = 0) -> Iterator[str]:
        """Give the log lines of a job's latest attempt; with `follow`, until the job ends."""
        return self._each(self._lab.logs(reference, follow=follow, rank=rank))

    def curves(
        self, reference: str, attempt: int | None = None, rank: int = 0, *, ask: bool = False
    ) -> Curves:
        """Return what a job tells of its training: loss, accuracy, step time and others over its
        steps, as far as its log is copied; of the latest attempt where none is named."""
        return self._call(self._lab.curves(reference, attempt, rank, ask=ask))

    def compare(self, references: Sequence[str]) -> tuple[Compared, ...]:
        """Return jobs side by side: parameters, curves, peak memory. A reference may be a sweep."""
        return self._call(self._lab.compare(references))

    def follow(self, reference: str) -> Iterator[Update]:
        """Give what is new of a job, state and log lines, until it has ended."""
        return self._each(self._lab.follow(reference))

    def wait(self, reference: str, *, timeout_s: float | None = None) -> Job:
        """Return a job once it has ended, however it did; `job.state` and `job.cause` tell."""
        return self._call(self._lab.wait(reference, timeout_s=timeout_s))

    def cancel(self, reference: str) -> Job:
        """End a job: it leaves the queue, or gets SIGTERM, a grace time, SIGKILL."""
        return self._call(self._lab.cancel(reference))

    def hold(self, reference: str) -> Job:
        """Keep a queued job from starting until it is released."""
        return self._call(self._lab.hold(reference))

    def release(self, reference: str) -> Job:
        """Let a held job join the queue again."""
        return self._call(self._lab.release(reference))

    def set_priority(self, reference: str, priority: int) -> Job:
        """Change the priority of a job that waits, -1000 to 1000; higher is first."""
        return self._call(self._lab.set_priority(reference, priority))

    def retry(self, reference: str, *, secrets: Mapping[str, str] = NO_VALUES) -> Job:
        """Queue a job that has ended again, as a new attempt."""
        return self._call(self._lab.retry(reference, secrets=secrets))

    def retry_smaller(self, reference: str) -> Job:
        """Queue a job that ran out of memory again, with the largest batch that fits."""
        return self._call(self._lab.retry_smaller(reference))

    def preempt(self, reference: str) -> Job:
        """Stop a running job and queue it again; it goes on from its checkpoint."""
        return self._call(self._lab.preempt(reference))

    def scale(self, service: str, replicas: int) -> tuple[Job, ...]:
        """Have a service run so many replicas, 1 to 64; return those that it has now."""
        return self._call(self._lab.scale(service, replicas))

    def forward(
        self, reference: str, port: int = 0, *, local_port: int = 0, rank: int = 0
    ) -> ForwardInfo:
        """Lead a port of this machine (127.0.0.1) to a port of a running job's container."""
        return self._call(self._lab.forward(reference, port, local_port=local_port, rank=rank))

    def shell(
        self,
        *,
        memory_mib: float | None = None,
        idle_stop_s: float | None = None,
        until: float | None = None,
        workspace: str = "",
        **options: Unpack[TaskOptions],
    ) -> Job:
        """Queue a session: a shell on leased devices, which outlives its viewers."""
        return self._call(
            self._lab.shell(
                memory_mib=memory_mib,
                idle_stop_s=idle_stop_s,
                until=until,
                workspace=workspace,
                **options,
            )
        )

    def jupyter(
        self,
        *,
        memory_mib: float | None = None,
        idle_stop_s: float | None = None,
        until: float | None = None,
        workspace: str = "",
        **options: Unpack[TaskOptions],
    ) -> Job:
        """Queue a session that runs JupyterLab; all as `shell`. `jupyter_address` reaches it."""
        return self._call(
            self._lab.jupyter(
                memory_mib=memory_mib,
                idle_stop_s=idle_stop_s,
                until=until,
                workspace=workspace,
                **options,
            )
        )

    def jupyter_address(self, reference: str, *, local_port: int = 0) -> str:
        """Forward a port of this machine to a session's JupyterLab, once that answers; return its
        address, with its token where the session was opened from here."""
        return self._call(self._lab.jupyter_address(reference, local_port=local_port))

    def close_forward(self, local_port: int) -> ForwardInfo:
        """End a forward, and what is open through it; UsageError where there is none."""
        return self._call(self._lab.close_forward(local_port))

    def results(self, reference: str) -> tuple[ResultFile, ...]:
        """List what a job has left on its hosts, the largest first."""
        return self._call(self._lab.results(reference))

    def fetch(self, reference: str, folder: str | os.PathLike[str] = ".") -> Path:
        """Copy a job's results into `folder/<job id>`; returns that folder."""
        return self._call(self._lab.fetch(reference, folder))

    def fetch_results(self, reference: str, destination: Path) -> FetchedResults:
        """Copy a job's results as `fetch` does; returns the folder, and what could not be
        copied."""
        return self._call(self._lab.fetch_results(reference, destination))

    def render(self, reference: str, target: str = "docker") -> str:
        """Return the equal of a job for another engine: a command, or a cluster's objects."""
        return self._ask(lambda: self._lab.render(reference, target))

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
        return self._ask(lambda: self._lab.render_task(task, target, on=on, report=report))

    def send_test_message(self) -> tuple[str, list[str]]:
        """Send a test message to the user; return the way that worked, and why others did not.
        RefusedError where none did."""
        return self._call(self._lab.send_test_message())

    def incidents(self) -> tuple[Incident, ...]:
        """Return what is wrong in the lab and the latest that was."""
        return self._call(self._lab.incidents())

    def incident(self, reference: str) -> Incident:
        """Return one incident, by its id or a beginning, with what can be done about it."""
        return self._call(self._lab.incident(reference))

    def acknowledge(self, incident: str) -> Incident:
        """Say of an incident, by its id, that it has been seen."""
        return self._call(self._lab.acknowledge(incident))

    def snooze(self, incident: str, seconds: float) -> Incident:
        """Put an incident off for so many seconds, 30 days at most."""
        return self._call(self._lab.snooze(incident, seconds))

    def resolve(self, incident: str) -> Incident:
        """Say of an incident that it is no fault: closed until it has gone and comes back."""
        return self._call(self._lab.resolve(incident))

    def reopen(self, incident: str) -> Incident:
        """Take back what was said of an incident."""
        return self._call(self._lab.reopen(incident))

    def audit(self, limit: int = 100) -> tuple[Act, ...]:
        """Return the latest acts on the lab's queue, latest first; operators see everybody's."""
        return self._call(self._lab.audit(limit))

    def report(
        self,
        by: Sequence[Key] = ("user",),
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> UsageReport:
        """Return device-hours, use, energy and cost of jobs, and who holds devices idly."""
        return self._call(self._lab.report(by, since=since, until=until))

    def calibrate(
        self,
        host: str,
        device: int | None = None,
        image: str = "",
        progress: Callable[[str], None] = silent,
    ) -> HostCalibration:
        """Measure what a process costs on a host's device, and keep it where that worked."""
        return self._call(self._lab.calibrate(host, device, image, progress))

    def record(self, path: str | os.PathLike[str], seconds: float | None = None) -> Recorded:
        """Record the session into a new file for so many seconds, or until it is cancelled."""
        return self._call(self._lab.record(path, seconds))

    def adopt(self, without: Collection[str] = (), wait_s: float = 60.0) -> Settled:
        """Take into a restored journal what hosts know, dispatching meanwhile if no other process
        does."""
        return self._call(self._lab.adopt(without, wait_s))

    def prune(self) -> dict[str, PruneResult]:
        """Clear on every reachable host what finished jobs left; results stay."""
        return self._call(self._lab.prune())

    # -- end of what is written

    def _serve(self, ready: Future[Session]) -> None:
        """Run the loop of the session, from its opening to its close."""
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(_drop_unreachable)
        try:
            self._loop.run_until_complete(self._live(ready))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            self._loop.close()

    async def _live(self, ready: Future[Session]) -> None:
        async with self._opening() as lab:
            ready.set_result(lab)
            await self._closing.wait()
            await cancel_all(asyncio.all_tasks() - {asyncio.current_task()})

    def _end(self) -> None:
        # From now on nothing may be asked of a loop that may never answer.
        self._ended = True
        if self._thread.is_alive() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(_CLOSE_S)

    def _call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do work on the session's loop; being interrupted cancels it."""
        if self.closed:
            work.close()
            raise UsageError("Session is closed", "It was closed before.", "Open another one.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask on the session's loop: its journal belongs to that thread."""

        async def asked() -> Answer:
            return question()

        return self._call(asked())

    def _each(self, items: AsyncIterator[Answer]) -> Iterator[Answer]:
        """Yield the items of an asynchronous iterator; leaving early ends it."""
        steps = _Steps(items)
        try:
            while (item := self._call(steps.next())) is not None:
                yield item
        finally:
            if not self.closed:
                self._call(steps.close())


def _document(face: type, whole: type) -> None:
    """Give the methods of a face the whole docstrings of what they call."""
    for name, member in vars(face).items():
        its = getattr(whole, name, None)
        if name[0] != "_" and member.__doc__ and its is not None and its.__doc__:
            member.__doc__ = its.__doc__


_OPEN: set[BlockingSession] = set()


def _close_all() -> None:
    """Close what the program has left open, at its end."""
    for session in tuple(_OPEN):
        session.close()


_document(BlockingSession, Session)
_document(BlockingImages, Imaging)
# `atexit` is too late: closing needs threads, and executors take no more work by then. What is
# registered after their own end runs before it. Python has no public word for that.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


class _Steps:
    """An asynchronous iterator, taken step by step by somebody who may be interrupted."""

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self._items = items
        self._step: asyncio.Future[Any] | None = None

    async def next(self) -> Any:
        """Return the next item, None at the end."""
        self._step = asyncio.ensure_future(self._take())
        return await self._step

    async def close(self) -> None:
        """End the iterator once the step in progress is over."""
        if self._step is not None:
            await cancel_all([self._step])
        await self._items.aclose()  # type: ignore[attr-defined]

    async def _take(self) -> Any:
        return await anext(self._items, None)


def _drop_unreachable(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave a host that cannot be reached to the picture of the fleet, which tells it."""
    if not isinstance(context.get("exception"), (UnreachableError, asyncio.CancelledError)):
        loop.default_exception_handler(context)
