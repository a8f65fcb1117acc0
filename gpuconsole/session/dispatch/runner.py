"""One active job, driven from any state to its end.

A runner looks at the job's containers, asks `recovery` what to do, does it, and looks again. It
holds no state of its own that matters, so it may be killed anywhere and begun again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.jobs import (
    STOPPED_FOR_GOOD,
    Attempt,
    EndedBy,
    Job,
    JobState,
    state_when_stopped,
)
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import (
    Blame,
    ConsoleError,
    ContainerGoneError,
    EngineError,
    JournalError,
    LeaseTakenError,
    UnreachableError,
)
from gpuconsole.placement import engine_fault
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt import gang
from gpuconsole.session.dispatch.attempt.end import CANCELLED_BEFORE, Ending
from gpuconsole.session.dispatch.attempt.first_steps import FirstSteps, read_files
from gpuconsole.session.dispatch.attempt.gang import HostLostError, Part
from gpuconsole.session.dispatch.attempt.launch import Launch
from gpuconsole.session.dispatch.attempt.observation import Watch, read_reports
from gpuconsole.session.dispatch.attempt.recovery import Step, may_have_container, may_have_run
from gpuconsole.session.dispatch.job_record import Entry
from gpuconsole.session.dispatch.slurm_jobs import cluster_of
from gpuconsole.session.fleet.host_faults import HostFaults, could_not_start
from gpuconsole.session.logs.copies import LogCopies
from gpuconsole.state import RoleLostError

ASK_AGAIN_S = 2.0
"""How often an engine with a queue of its own is asked for a job that waits there."""
LOOK_AGAIN_S = 10.0
"""How often running containers are looked at, besides following their logs."""
INTERRUPTED_S = 60.0
"""How long a host that may be taken away is waited for before its jobs go on elsewhere."""
SERVICE_LOST_S = 30.0
"""How long a host is waited for before the replicas of services on it are begun again elsewhere."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
PEAK_STEP = 1.05
"""A new peak is written when it is so much above the last one written."""


class Runner:
    """Drives one job's latest attempt. `on_taken` is called with a device that another console
    took, `on_silent` with a host with an engine that could not be queried; `faults` counts what
    hosts cannot start; `silent` are the hosts with engines that do not answer now."""

    def __init__(
        self,
        context: Context,
        epoch: int,
        job_id: str,
        on_taken: Callable[[str, LeaseTakenError], None],
        on_silent: Callable[[str, ConsoleError], None],
        copies: LogCopies,
        faults: HostFaults,
        silent: Mapping[str, UnreachableError],
    ) -> None:
        self._context = context
        self._epoch = epoch
        self._copies = copies
        self._faults = faults
        self._followed: set[str] = set()
        self._entry = Entry(context, epoch, job_id)
        self._on_taken = on_taken
        self._on_silent = on_silent
        self._news = asyncio.Event()
        self._silent = silent
        self._pause_s = FIRST_PAUSE_S
        self._gone_since: float | None = None
        self._seen = Watch()
        self._ending = Ending(context, self._entry, self._seen, copies)
        self._first_steps = FirstSteps(context, self._entry, self._seen)
        self._steps = Steps(context, self._entry)

    @property
    def job(self) -> Job:
        """The job as the journal has it now."""
        return self._entry.job

    def wake(self) -> None:
        """Look again at once: the job is to be stopped, or its host is back."""
        self._news.set()

    def hear(self, host: str) -> None:
        """Look again at once if the job depends on an engine that has fallen silent, or answers
        again. A launch goes on in the call that it is in, and says so."""
        with contextlib.suppress(JournalError):
            job, attempt = self._entry.present()
            if any(part.host == host for part in attempt.parts):
                self._news.set()
                error = self._silent.get(host)
                if error is not None and job.state is JobState.LAUNCHING:
                    self._entry.say(f"{error.title}: {error.message}", 500)

    async def run(self) -> None:
        """Drive the job to an end, or back into the queue. RoleLostError when another console
        has taken over."""
        try:
            while self.job.state.active:
                self._news.clear()
                if await self._one_step():
                    await self._rest()
                else:
                    self._pause_s = FIRST_PAUSE_S
        except asyncio.CancelledError:
            await self._undo()
            raise
        finally:
            await self._copies.leave(self._followed)

    async def _undo(self) -> None:
        """Take back a launch that this console leaves before it started, if it can in time."""
        with contextlib.suppress(ConsoleError):
            job, attempt = self._entry.present()
            if job.state is JobState.LAUNCHING and not may_have_run(attempt):
                await self._ending.undo(attempt)

    async def _one_step(self) -> bool:
        """Do one step, whatever it meets; whether to rest before the next."""
        try:
            pause = await self._advance()
        except RoleLostError:
            raise
        except UnreachableError as error:
            pause = not (await self._let_go(error) or await self._taken_away(error))
            if pause:
                self._out_of_sight(error)
        except EngineError as error:
            # The engine answers, but not as it should: say so and try again.
            pause = not await self._set_back_unseen(error)
            if pause:
                self._entry.say(f"{error.title}: {error.message}", 500)
        else:
            self._gone_since = None
        return pause

    def observe(self, snapshot: FleetSnapshot) -> None:
        """Note how much device memory the job's containers hold, if that is a new peak."""
        job = self.job
        attempt = job.attempt
        if attempt is None or job.state is not JobState.RUNNING:
            return
        for part in attempt.parts:
            self._seen.see(snapshot, part)
        if self._seen.peak_mib > (attempt.peak_mib or 0.0) * PEAK_STEP:
            self._entry.keep(job, replace(attempt, peak_mib=self._seen.peak_mib))

    async def _advance(self) -> bool:
        """Do one step; whether to rest before the next."""
        job, attempt = self._entry.present()
        gone = self._gone(attempt)
        if gone and gang.unwanted(job):
            parts = await gang.look(self._context, attempt, but=gone)
            await self._ending.abandon(parts, " and ".join(gone))
            return False
        if not all(self._host_is_known(part.host) for part in attempt.parts):
            return True
        for part in attempt.parts:
            if part.host in self._silent:
                # To ask it all the same would take a minute, and one of its threads.
                raise HostLostError(part.host, self._silent[part.host])
        try:
            parts = await gang.look(self._context, attempt)
        except HostLostError as error:
            if gang.unwanted(self.job):
                # What can be reached of a gang need not run on until the rest is back.
                await self._stop(error.seen)
            raise
        job, _ = self._entry.present()
        step = gang.step_of(parts, job, self._context.journal.id)
        if step is Step.WAIT:
            return True
        if step is Step.FOREIGN:
            cause = "A container of that name belongs to somebody else."
            await self._ending.give_up(parts, cause)
        elif step is Step.LOST:
            await self._ending.lost(parts)
        elif step is Step.DISCARD:
            await self._ending.discard(parts)
        elif step in (Step.LAUNCH, Step.START):
            await self._launch(parts)
        elif step is Step.FINISH:
            await self._finish(parts)
        elif step is Step.PENDING:
            await self._wait_there(parts)
        elif step is Step.STOP:
            self._entry.say("stopping")
            await self._stop(parts)
        else:
            self._mark_running(parts)
            return await self._watch(parts)
        return False

    def _gone(self, attempt: Attempt) -> list[str]:
        """Return the hosts of an attempt that the inventory does not name any more."""
        snapshot = self._context.hosts.snapshot()
        return [part.host for part in attempt.parts if snapshot.host(part.host) is None]

    def _host_is_known(self, name: str) -> bool:
        """Whether the host's state is known; not during the first connection.

        UnreachableError when the inventory has no such host any more.
        """
        host = self._context.hosts.snapshot().host(name)
        if host is None:
            raise UnreachableError(
                "Host is gone",
                msg("{name} is not in the inventory any more.", name=name),
                "Put it back.",
            )
        return host.state is not HostState.CONNECTING

    async def _wait_there(self, parts: Sequence[Part]) -> None:
        """Tell why the engine lets a job wait, and give it some time."""
        note = " ".join(part.status.note for part in parts if part.status)
        job = self.job
        if job.state is JobState.UNKNOWN:
            self._entry.move(job, JobState.LAUNCHING, detail=clean(note, 500))
        else:
            self._entry.say(note, 500)
        await first(self._news.wait(), self._context.clock.sleep(ASK_AGAIN_S))

    async def _stop(self, parts: Sequence[Part]) -> None:
        self._entry.require_role()
        await self._ending.stop(parts)

    async def _launch(self, parts: Sequence[Part]) -> None:
        job = self.job
        if job.state is JobState.UNKNOWN:
            self._entry.move(job, JobState.LAUNCHING)
        launch = Launch(self._context, self._entry, parts)
        try:
            with self._entry.masking():
                await first(launch.fetch_images(), self._not_wanted())
                if not gang.unwanted(self.job):
                    async with self._context.launching:
                        await launch.start()
        except (LeaseTakenError, ContainerGoneError) as error:
            await self._taken(parts, error)
        except (RoleLostError, UnreachableError, JournalError):
            raise
        except ConsoleError as error:
            _, attempt = self._entry.present()
            seen = await gang.look(self._context, attempt)
            waiting = _unstarted(seen)
            # If the engine of a gang's member says why it cannot be started, that is named at the
            # end.
            unsaid = any(part.status is None or not part.status.error for part in waiting)
            if unsaid or len(waiting) == len(seen):
                cause = f"{error.title}: {error.message}"
                if not await self._set_back(seen, error):
                    await self._ending.give_up(seen, cause)

    async def _finish(self, parts: Sequence[Part]) -> None:
        """End an attempt after its containers ended, or one of them could not be started."""
        broken = next((part for part in _unstarted(parts) if part.status), None)
        if broken is not None and broken.status is not None:
            said = self._entry.masked(broken.status.error)
            error = could_not_start(said, broken.attempt.host)
            if await self._set_back(parts, error):
                return
        else:
            self._faults.started(self._epoch, self.job)
        await self._ending.finish(parts)

    async def _set_back(self, parts: Sequence[Part], error: ConsoleError) -> bool:
        """Put a job back into the queue that a host could not start, or end it where its faults
        follow it; False where the job itself is at fault.

        A gang of which a part has started is put back as often as it may be tried again.
        """
        job, attempt = self._entry.present()
        ran = len(_unstarted(parts)) < len(parts)
        before = sum(attempt.ended_by in ("gang", "lost-host") for attempt in job.attempts)
        hosts = {part.attempt.host for part in parts}
        if error.blame is Blame.TASK or error.host not in hosts or cluster_of(job.task):
            return False
        if ran and before >= job.task.retries:
            return False
        cause = clean(f"{error.title}: {error.message}", 1000)
        alone: EndedBy = "unfit" if error.blame is Blame.PLACE else "host-fault"
        ended = replace(
            attempt,
            ended_at=self._context.clock.now(),
            cause=cause,
            ended_by="gang" if ran else alone,
            at_fault=error.host,
        )
        tried = replace(job, attempts=(*job.attempts[:-1], ended))
        failing = self._faults.note(self._epoch, tried, error.host, error)
        await self._ending.set_back(parts, ended, failing, cause)
        return True

    async def _set_back_unseen(self, error: EngineError) -> bool:
        """Put a job back for which nothing was made yet, on a host that does not even tell of
        that; whether it was."""
        job, attempt = self._entry.present()
        if not job.state.active or may_have_container(attempt):
            return False
        engines = [await self._context.hosts.engine(alone.host) for alone in attempt.parts]
        pairs = zip(attempt.parts, engines, strict=True)
        parts = [Part(rank, alone, engine) for rank, (alone, engine) in enumerate(pairs)]
        return await self._set_back(parts, error)

    async def _taken(
        self, parts: Sequence[Part], error: LeaseTakenError | ContainerGoneError
    ) -> None:
        """Another console holds a device, or has removed what this one had made and not started:
        back into the queue, if no part of it runs yet."""
        for part in parts:
            if isinstance(error, LeaseTakenError) and error.uuid in part.attempt.device_uuids:
                self._on_taken(part.attempt.host, error)
        _, attempt = self._entry.present()
        seen = await gang.look(self._context, attempt)
        if len(_unstarted(seen)) == len(seen):
            await self._ending.requeue(seen, error)
        else:
            await self._ending.give_up(seen, error.message)

    async def _watch(self, parts: Sequence[Part]) -> bool:
        """Follow the logs until one ends, a container ends, or there is news."""
        live = [part for part in parts if part.live]
        self._followed |= {part.attempt.container_name for part in live}
        readers = (self._first_steps.run(live), self._steps.run(live))
        reading = [asyncio.ensure_future(reader) for reader in readers]
        try:
            return await self._follow(live)
        finally:
            await cancel_all(reading)

    async def _follow(self, live: Sequence[Part]) -> bool:
        copies = [self._copies.follow(self._entry, part) for part in live]
        while not any(copy.done() for copy in copies) and not self._news.is_set():
            again = self._context.clock.sleep(LOOK_AGAIN_S)
            await first(_one_of(copies), self._news.wait(), again)
            if any(copy.done() for copy in copies) or self._news.is_set():
                break
            if not await self._all_live(live):
                return False
        if self._news.is_set():
            return False
        for copy in copies:
            if copy.done():
                copy.result()
        # A log that ended says nothing about the job: the link may have broken.
        return await self._all_live(live)

    async def _all_live(self, parts: Sequence[Part]) -> bool:
        for part in parts:
            with gang.on_host(part.attempt.host):
                assert part.status is not None
                seen = await part.engine.inspect(part.status.id)
            if seen is None or seen.state not in gang.LIVE:
                return False
        return True

    def _mark_running(self, parts: Sequence[Part]) -> None:
        job, attempt = self._entry.present()
        ids = [part.status.id if part.status else "" for part in parts]
        marked = attempt.with_containers(ids)
        if job.state is JobState.RUNNING and marked == attempt:
            return
        now = self._context.clock.now()
        began = [part.status.started_at for part in parts if part.status]
        started = replace(
            marked,
            starting_at=attempt.starting_at or now,
            # A gang has started when its last part has.
            started_at=attempt.started_at or max((at for at in began if at), default=now),
        )
        note = clean(" ".join(part.status.note for part in parts if part.status).strip(), 500)
        self._entry.move(job, JobState.RUNNING, started, detail=note)
        self._faults.started(self._epoch, self.job)

    async def _let_go(self, error: UnreachableError) -> bool:
        """Part with an attempt of which nothing can have run: cancelled if that is wanted, or back
        into the queue when its host went away, or is there and its engine is not; whether it was.

        What was made on a host that is out of sight can never start by itself; it is removed when
        the host is back.
        """
        job, attempt = self._entry.present()
        if may_have_run(attempt):
            return False
        name = error.host if isinstance(error, HostLostError) else attempt.host
        host = self._context.hosts.snapshot().host(name)
        up = host is not None and host.state is HostState.UP
        ended_by: EndedBy = ""
        if job.cancel_requested and not (up and may_have_container(attempt)):
            cause, state = CANCELLED_BEFORE, JobState.CANCELLED
        elif up and not may_have_container(attempt):
            self._on_silent(name, error)
            cause, state = engine_fault(name, error.message), JobState.QUEUED
        elif host is not None and host.state is HostState.DOWN:
            cause = msg("{host} went out of sight before it could start.", host=name)
            state, ended_by = JobState.QUEUED, "lost-host"
        else:
            return False
        await self._clear(attempt, name)
        ended = replace(attempt, ended_at=self._context.clock.now(), cause=cause, ended_by=ended_by)
        if state is JobState.QUEUED:
            self._entry.move(job, state, ended, detail=cause)
        else:
            self._entry.move(job, state, ended, cause=cause)
        return True

    async def _taken_away(self, error: UnreachableError) -> bool:
        """Requeue a job on a host that may be taken away, or a replica of a service, once the host
        has been gone for long enough. Returns whether it was requeued.

        If the host comes back with the container, that is removed: the job has gone on.
        """
        job, attempt = self._entry.present()
        name = error.host if isinstance(error, HostLostError) else attempt.host
        host = self._context.hosts.snapshot().host(name)
        serves = job.task.service is not None
        may_go = host is not None and (serves or host.interruptible)
        if host is None or not may_go or host.state is not HostState.DOWN:
            self._gone_since = None
            return False
        patience = SERVICE_LOST_S if serves else INTERRUPTED_S
        now = self._context.clock.now()
        self._gone_since = now if self._gone_since is None else self._gone_since
        if job.cancel_requested or now - self._gone_since < patience:
            return False
        cause = f"Host interrupted: {name}, which may be taken away, is gone."
        if serves:
            cause = msg("{host} is out of sight: its replica begins again elsewhere.", host=name)
        await self._clear(attempt, name)
        if attempt.ended_by in STOPPED_FOR_GOOD:
            state = state_when_stopped(attempt.ended_by)
            self._entry.move(job, state, replace(attempt, ended_at=now), cause=attempt.cause)
            return True
        ended = replace(attempt, ended_at=now, cause=cause, ended_by="lost-host")
        self._entry.move(job, JobState.QUEUED, ended, detail=cause, queued_at=now)
        return True

    async def _clear(self, attempt: Attempt, lost: str) -> None:
        """End what there is of an attempt on the other hosts of its gang."""
        for rank, alone in enumerate(attempt.parts):
            if alone.host != lost:
                with contextlib.suppress(UnreachableError, EngineError):
                    engine = await self._context.hosts.engine(alone.host)
                    status = await engine.inspect(alone.container_name)
                    await self._ending.leave(Part(rank, alone, engine, status))

    def _out_of_sight(self, error: UnreachableError) -> None:
        job = self.job
        detail = clean(f"{error.title}: {error.message}", 500)
        if job.state is not JobState.UNKNOWN:
            self._entry.move(job, JobState.UNKNOWN, detail=detail)
        else:
            self._entry.say(detail, 500)

    async def _rest(self) -> None:
        await first(self._news.wait(), self._context.clock.sleep(self._pause_s))
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)

    async def _not_wanted(self) -> None:
        while not gang.unwanted(self.job):
            await self._news.wait()
            self._news.clear()


def _unstarted(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.status is None or part.status.state == "created"]


async def _one_of(futures: Sequence[asyncio.Future[None]]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


READ_EVERY_S = 300.0
"""Longest time between two readings; each is a small archive from each host of the job."""
SHORTEST_S = 15.0
READINGS = 4
"""Readings in the time after which a job without steps is reported."""


class Steps:
    """Watches one job, and writes into its attempt what its reporter says."""

    def __init__(self, context: Context, entry: Entry) -> None:
        self._context = context
        self._entry = entry

    async def run(self, parts: Sequence[Part]) -> None:
        """Read until cancelled. The journal's troubles are the runner's to tell."""
        limits = self._context.settings.triage.limits
        pause = min(READ_EVERY_S, max(SHORTEST_S, limits.job_idle_for / READINGS))
        try:
            while True:
                await self._context.clock.sleep(pause)
                await self._read(parts)
        except JournalError:
            return

    async def _read(self, parts: Sequence[Part]) -> None:
        files, whole = await read_files(parts)
        job, attempt = self._entry.present()
        if job.state is not JobState.RUNNING or not whole:
            return
        steps, now = read_reports(files).steps, self._context.clock.now()
        if steps > attempt.steps:
            seen = replace(attempt, steps=steps, stepped_at=now, steps_read_at=now)
        elif attempt.steps:
            seen = replace(attempt, steps_read_at=now)
        else:
            # It tells of no steps: nothing is known of them, and nothing is written.
            return
        self._entry.keep(job, seen)
