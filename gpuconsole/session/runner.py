"""One active job, driven from wherever it stands to its end.

A runner looks at the container, asks `recovery.next_step` what to do, does it, and looks again.
It keeps nothing that matters in memory, so it may be killed anywhere and begun anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from gpuconsole.core.containers import ContainerStatus, Engine
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.errors import (
    ConsoleError,
    EngineError,
    JournalError,
    LeaseTakenError,
    UnreachableError,
)
from gpuconsole.placement import engine_fault
from gpuconsole.remote.reporter import REPORTS
from gpuconsole.session.bench import Bench
from gpuconsole.session.follow import follow_log, log_file, read_tail
from gpuconsole.session.launch import Launch
from gpuconsole.session.observing import Ended, Reported, Watch, devices_of, named, read_reports
from gpuconsole.session.outcome import TAIL_BYTES, outcome_of
from gpuconsole.session.recovery import Step, may_have_container, next_step
from gpuconsole.session.spec import attempt_key, memory_limit_mib
from gpuconsole.session.tasks import cancel_all, first
from gpuconsole.state import RoleLostError

LOOK_AGAIN_S = 10.0
"""How often a running container is looked at, besides following its log."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
LIVE = ("running", "paused", "restarting")
PEAK_STEP = 1.05
"""A new peak is written when it is so much above the last one written."""


class Runner:
    """Drives one job's latest attempt. `on_taken` hears which device another console took,
    `on_silent` which host's engine could not be asked."""

    def __init__(
        self,
        bench: Bench,
        epoch: int,
        job_id: str,
        on_taken: Callable[[str, LeaseTakenError], None],
        on_silent: Callable[[str, ConsoleError], None],
    ) -> None:
        self._bench = bench
        self._epoch = epoch
        self._job_id = job_id
        self._on_taken = on_taken
        self._on_silent = on_silent
        self._news = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S
        self._seen = Watch()

    @property
    def job(self) -> Job:
        """The job as the journal has it now."""
        job = self._bench.journal.job(self._job_id)
        if job is None:
            raise JournalError("No such job", f"Job {self._job_id} has left the journal.")
        return job

    def wake(self) -> None:
        """Look again at once: the job is to be cancelled, or its host is back."""
        self._news.set()

    async def run(self) -> None:
        """Drive the job to an end, or back into the queue. RoleLostError when another console
        has taken over."""
        while self.job.state.active:
            self._news.clear()
            try:
                pause = await self._advance()
            except RoleLostError:
                raise
            except (UnreachableError, EngineError) as error:
                pause = not self._let_go(error)
                if pause and isinstance(error, UnreachableError):
                    self._out_of_sight(error)
                elif pause:
                    # The engine answers, but not as it should: say so and try again.
                    self._say(f"{error.title}: {error.message}")
            if pause:
                await self._rest()
            else:
                self._pause_s = FIRST_PAUSE_S

    def observe(self, snapshot: FleetSnapshot) -> None:
        """Note how much device memory the job's container holds, if that is a new peak."""
        job = self.job
        attempt = job.attempt
        if attempt is None or job.state is not JobState.RUNNING:
            return
        self._seen.see(snapshot, attempt)
        if self._seen.peak_mib > (attempt.peak_mib or 0.0) * PEAK_STEP:
            self._save(job, replace(attempt, peak_mib=self._seen.peak_mib))

    async def _advance(self) -> bool:
        """Do one step; whether to rest before the next."""
        job, attempt = self._present()
        if not self._host_is_known(attempt.host):
            return True
        engine = await self._bench.hosts.engine(attempt.host)
        status = await engine.inspect(attempt.container_name)
        job, attempt = self._present()
        step = next_step(
            attempt, status, journal=self._bench.journal.id, cancel=job.cancel_requested
        )
        if step is Step.WAIT:
            return True
        if step is Step.FOREIGN:
            await self._give_up(engine, "A container of that name belongs to somebody else.")
        elif step is Step.LOST:
            await self._end_lost(engine)
        elif step is Step.DISCARD:
            await self._discard(engine)
        elif step in (Step.LAUNCH, Step.START):
            await self._launch(engine)
        else:
            assert status is not None
            return await self._attend(engine, step, status)
        return False

    def _host_is_known(self, name: str) -> bool:
        """Whether it can be told if the host is there; not while the first connection is made.

        UnreachableError when the inventory has no such host any more.
        """
        host = self._bench.hosts.snapshot().host(name)
        if host is None:
            raise UnreachableError(
                "Host is gone", f"{name} is not in the inventory any more.", "Put it back."
            )
        return host.state is not HostState.CONNECTING

    async def _attend(self, engine: Engine, step: Step, status: ContainerStatus) -> bool:
        if step is Step.FINISH:
            await self._finish(engine, status)
            return False
        self._mark_running(status)
        if step is Step.STOP:
            self._say("stopping")
            self._require_role()
            await engine.stop(status.id, self._bench.settings.stop_grace)
            return False
        return await self._watch(engine, status)

    async def _launch(self, engine: Engine) -> None:
        job, _ = self._present()
        if job.state is JobState.UNKNOWN:
            self._move(job, JobState.LAUNCHING)
        launch = Launch(self._bench, self._epoch, self._job_id, engine)
        try:
            await first(launch.fetch_image(), self._cancelled())
            if not self.job.cancel_requested:
                async with self._bench.launching:
                    await launch.start()
        except LeaseTakenError as error:
            await self._requeue(engine, error)
        except (RoleLostError, UnreachableError, JournalError):
            raise
        except ConsoleError as error:
            _, attempt = self._present()
            seen = await engine.inspect(attempt.container_name)
            if seen is None or seen.state == "created":
                await self._give_up(engine, f"{error.title}: {error.message}")

    async def _watch(self, engine: Engine, status: ContainerStatus) -> bool:
        """Follow the log until it ends, the container ends, or there is news."""
        follow = asyncio.ensure_future(self._follow(engine.logs(status.id, follow=True)))
        try:
            while not follow.done() and not self._news.is_set():
                await first(_done(follow), self._news.wait(), self._bench.clock.sleep(LOOK_AGAIN_S))
                if follow.done() or self._news.is_set():
                    break
                seen = await engine.inspect(status.id)
                if seen is None or seen.state not in LIVE:
                    return False
        finally:
            await cancel_all([follow])
        if self._news.is_set():
            return False
        follow.result()
        # A log that ended says nothing about the job: the link may have broken.
        seen = await engine.inspect(status.id)
        return seen is not None and seen.state in LIVE

    async def _follow(self, chunks: AsyncIterator[bytes]) -> None:
        _, attempt = self._present()
        path = log_file(self._bench.state, self._job_id, attempt.number)
        try:
            async with contextlib.aclosing(chunks):  # type: ignore[type-var]
                await follow_log(path, chunks)
        except OSError as error:
            self._say(f"its log cannot be stored: {error.strerror}")

    async def _finish(self, engine: Engine, status: ContainerStatus) -> None:
        job, attempt = self._present()
        if status.state != "created":
            await self._follow(engine.logs(status.id, follow=False))
        path = log_file(self._bench.state, job.id, attempt.number)
        image = job.task.image or self._bench.default_image(attempt.host)
        outcome = outcome_of(
            status,
            read_tail(path, TAIL_BYTES),
            image=image,
            memory_limit_mib=memory_limit_mib(
                job, self._bench.settings, self._bench.hosts.snapshot().host(attempt.host)
            ),
            cancelled=job.cancel_requested,
        )
        reported = await self._reported(engine, status)
        outcome = named(outcome, reported)
        # A console before this one may have seen more.
        self._seen.peak_mib = self._peak() or 0.0
        ended = replace(
            attempt,
            container_id=status.id,
            started_at=attempt.started_at or status.started_at,
            ended_at=status.ended_at or self._bench.clock.now(),
            exit_code=status.exit_code,
            # The driver is asked now and then, Paddle itself knows its peak.
            peak_mib=max(self._seen.peak_mib, reported.peak_mib or 0.0) or None,
        )
        devices = devices_of(self._bench.hosts.snapshot(), attempt)
        self._remember(Ended(job, ended, outcome, self._seen, reported, image, devices))
        await self._end(engine, ended, outcome.state, outcome.cause, ended_at=status.ended_at)

    async def _reported(self, engine: Engine, status: ContainerStatus) -> Reported:
        """Read what the reporter left in the container; without it a job ends all the same."""
        try:
            return read_reports(await engine.read_files(status.id, REPORTS))
        except EngineError:
            return Reported()

    def _remember(self, ended: Ended) -> None:
        """Write what was seen into the history. Done again after a crash, it replaces itself."""
        observation = ended.observation()
        if observation is not None:
            self._require_role()
            self._bench.journal.observe(observation)

    async def _end_lost(self, engine: Engine) -> None:
        job, attempt = self._present()
        state = JobState.CANCELLED if job.cancel_requested else JobState.FAILED
        cause = (
            f"Its container is gone from {attempt.host}: something else removed it. "
            "It is not started again unasked, as it may have run."
        )
        await self._end(engine, attempt, state, cause)

    async def _discard(self, engine: Engine) -> None:
        _, attempt = self._present()
        await self._end(engine, attempt, JobState.CANCELLED, "Cancelled before it started.")

    async def _give_up(self, engine: Engine, cause: str) -> None:
        _, attempt = self._present()
        await self._end(engine, attempt, JobState.FAILED, clean(cause, 1000))

    async def _end(
        self,
        engine: Engine,
        attempt: Attempt,
        state: JobState,
        cause: str,
        *,
        ended_at: float | None = None,
    ) -> None:
        """Give the devices back, write the end, remove the container; in that order a console
        that dies in between finds the work again, or leaves only what a sweep removes."""
        job, _ = self._present()
        self._require_role()
        await engine.release(attempt_key(job.id, attempt.number), attempt.device_uuids)
        ended = replace(
            attempt,
            ended_at=ended_at or self._bench.clock.now(),
            cause=cause,
            peak_mib=max(attempt.peak_mib or 0.0, self._peak() or 0.0) or None,
        )
        self._move(job, state, ended, cause=cause)
        with contextlib.suppress(UnreachableError, EngineError):
            await self._remove_own(engine, attempt)

    async def _requeue(self, engine: Engine, error: LeaseTakenError) -> None:
        """Back into the queue: nothing of the attempt has run."""
        job, attempt = self._present()
        self._require_role()
        await self._remove_own(engine, attempt)
        await engine.release(attempt_key(job.id, attempt.number), attempt.device_uuids)
        self._on_taken(attempt.host, error)
        ended = replace(attempt, ended_at=self._bench.clock.now(), cause=clean(error.message))
        self._move(job, JobState.QUEUED, ended, detail=clean(error.message))

    async def _remove_own(self, engine: Engine, attempt: Attempt) -> None:
        status = await engine.inspect(attempt.container_name)
        step = next_step(attempt, status, journal=self._bench.journal.id, cancel=False)
        if status is not None and step is not Step.FOREIGN:
            await engine.remove(status.id)

    def _mark_running(self, status: ContainerStatus) -> None:
        job, attempt = self._present()
        if job.state is JobState.RUNNING and attempt.container_id == status.id:
            return
        started = replace(
            attempt,
            container_id=status.id,
            starting_at=attempt.starting_at or self._bench.clock.now(),
            started_at=attempt.started_at or status.started_at or self._bench.clock.now(),
        )
        self._move(job, JobState.RUNNING, started)

    def _let_go(self, error: ConsoleError) -> bool:
        """Part with an attempt of which nothing can be on its host: cancelled if that is wanted,
        or back into the queue when the host is there and its engine is not; whether it was."""
        job, attempt = self._present()
        if may_have_container(attempt):
            return False
        if job.cancel_requested:
            cause = "Cancelled before it started."
            ended = replace(attempt, ended_at=self._bench.clock.now(), cause=cause)
            self._move(job, JobState.CANCELLED, ended, cause=cause)
            return True
        host = self._bench.hosts.snapshot().host(attempt.host)
        up = host is not None and host.state is HostState.UP
        if not up or not isinstance(error, UnreachableError):
            return False
        self._on_silent(attempt.host, error)
        cause = engine_fault(attempt.host, error.message)
        ended = replace(attempt, ended_at=self._bench.clock.now(), cause=cause)
        self._move(job, JobState.QUEUED, ended, detail=cause)
        return True

    def _out_of_sight(self, error: UnreachableError) -> None:
        job, _ = self._present()
        detail = clean(f"{error.title}: {error.message}", 500)
        if job.state is not JobState.UNKNOWN:
            self._move(job, JobState.UNKNOWN, detail=detail)
        elif job.detail != detail:
            self._say(detail)

    async def _rest(self) -> None:
        await first(self._news.wait(), self._bench.clock.sleep(self._pause_s))
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)

    async def _cancelled(self) -> None:
        while not self.job.cancel_requested:
            await self._news.wait()
            self._news.clear()

    def _present(self) -> tuple[Job, Attempt]:
        job = self.job
        if job.attempt is None:
            raise JournalError("Journal is damaged", f"Job {job.id} is {job.state} untried.")
        return job, job.attempt

    def _require_role(self) -> None:
        """Asked before anything on a host is taken away: an heir may have begun to use it."""
        self._bench.journal.require_role(self._epoch)

    def _peak(self) -> float | None:
        known = self.job.attempt
        peak = max(self._seen.peak_mib, (known.peak_mib or 0.0) if known else 0.0)
        return peak or None

    def _say(self, detail: str) -> None:
        job = self.job
        if job.detail != detail:
            self._bench.journal.save(job, replace(job, detail=detail), epoch=self._epoch)

    def _save(self, job: Job, attempt: Attempt) -> None:
        attempts = (*job.attempts[:-1], attempt)
        self._bench.journal.save(job, replace(job, attempts=attempts), epoch=self._epoch)

    def _move(
        self,
        job: Job,
        state: JobState,
        attempt: Attempt | None = None,
        *,
        cause: str = "",
        detail: str = "",
    ) -> None:
        attempts = job.attempts if attempt is None else (*job.attempts[:-1], attempt)
        moved = replace(job, state=state, attempts=attempts, cause=cause, detail=detail)
        self._bench.journal.save(job, moved, epoch=self._epoch)


async def _done(future: asyncio.Future[None]) -> None:
    await asyncio.wait([future])
