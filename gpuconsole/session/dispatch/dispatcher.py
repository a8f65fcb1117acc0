"""The dispatcher: one console at a time launches queued jobs and looks after those that run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Member
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError, JournalError, LeaseTakenError, UnreachableError
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.checkpoint import holder_of
from gpuconsole.session.dispatch.attempt.container_spec import container_name
from gpuconsole.session.dispatch.attempt.gang import unwanted
from gpuconsole.session.dispatch.cleanup import Refusals, Sweeping
from gpuconsole.session.dispatch.device_sharing_watch import Crowding
from gpuconsole.session.dispatch.preemption import interrupt, may_be_preempted
from gpuconsole.session.dispatch.runner import Runner
from gpuconsole.session.fleet.engine_pulse import Pulse
from gpuconsole.session.fleet.host_faults import HostFaults
from gpuconsole.session.fleet.leases import LeaseBoard
from gpuconsole.session.logs.copies import LogCopies
from gpuconsole.session.queue.plan import Outlook
from gpuconsole.session.queue.planner import Choice
from gpuconsole.session.restore.adoption import Adoption
from gpuconsole.state import JobMovedError, JournalLostError, RoleLostError, new_nonce
from gpuconsole.state.files.measurement_turn import left_on

TICK_S = 1.0
SOONEST_S = 0.1
"""Rest before devices that became free are given away sooner than at the next tick: several jobs
that end together are looked at together."""
RENEW_EVERY_S = 5.0
"""A third of the age at which another console takes over."""
SWEEP_AGAIN_S = 5.0
"""Rest after a sweep that an engine did not let."""
LEFT_AGAIN_S = 30.0
"""Rest before a log that could not be copied, or a container that an engine has long not removed,
is tried again: a disk that is full stays so."""
AVOID_S = 10.0
"""How long a device is left out after another console took it."""
RESTART_PAUSE_S = 5.0
"""Rest after an error that no rule covers, before a job is looked after again."""


class Dispatcher:
    """Takes the role when it is free, and while it has it drives every active job."""

    def __init__(
        self,
        context: Context,
        outlook: Outlook,
        leases: LeaseBoard,
        faults: HostFaults,
        owner: str,
        on_trouble: Callable[[Event], None] = lambda event: None,
        look_on: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        """`on_trouble` hears errors that cannot be written into the journal either; `look_on` is
        called each second with the epoch, while this console dispatches."""
        self._context = context
        self._on_trouble = on_trouble
        self._look_on = look_on
        self._outlook = outlook
        self._leases = leases
        self._faults = faults
        self._owner = owner
        self._epoch: int | None = None
        self._renewed_at = 0.0
        self._runners: dict[str, tuple[Runner, asyncio.Task[None]]] = {}
        self._restart_at: dict[str, float] = {}
        self._avoid: dict[tuple[str, str], float] = {}
        self._up: frozenset[str] = frozenset()
        self._well: frozenset[str] = frozenset()
        self._back: frozenset[str] = frozenset()
        self._unswept: dict[str, float] = {}
        self._sweeps: dict[str, asyncio.Task[bool]] = {}
        self._releasing: set[tuple[str, str]] = set()
        self._pulse = Pulse(context, leases.silences, self._engine_changed)
        self._copies = LogCopies(context, self._left_behind)
        self._refusals = Refusals(context)
        self._adoption = Adoption(context)
        self._crowding = Crowding(context, leases.others)
        self._trouble = ""
        self._reported: dict[str, str] = {}
        self._freed = asyncio.Event()

    @property
    def active(self) -> bool:
        """Whether this console has the role."""
        return self._epoch is not None

    async def run(self) -> None:
        """Dispatch until cancelled; then give the role back. Jobs run on."""
        try:
            while True:
                self._freed.clear()
                await self.tick()
                await self._context.clock.sleep(SOONEST_S)
                await first(self._freed.wait(), self._context.clock.sleep(TICK_S - SOONEST_S))
        finally:
            await self._drop()

    async def tick(self) -> None:
        """Do what is to be done now. An error is reported once, and retried."""
        try:
            await self._tick()
            self._trouble = ""
        except (RoleLostError, JournalLostError):
            # Containers run on. That the journal is lost is reported by whatever looks at it.
            await self._drop()
        except JournalError as error:
            self._tell_trouble(error.message)
        except Exception as error:
            # Whatever is wrong with one job or one host's figures, the others are looked after.
            self._tell_trouble(f"Dispatching goes wrong: {error!r}")

    async def _tick(self) -> None:
        self._context.journal.require_intact()
        if not self._hold_role():
            return
        await self._reap()
        assert self._epoch is not None
        self._adoption.look(self._epoch)
        self._note_hosts()
        for job in self._context.journal.jobs():
            if job.state.active:
                self._look_after(job)
        self._pulse.watch(self._hosts_in_use(), self._up)
        self._observe()
        self._make_room()
        self._sweep_back()
        self._look_on(self._epoch)
        await self._place()

    def _hold_role(self) -> bool:
        journal, now = self._context.journal, self._context.clock.now()
        if self._epoch is None:
            self._epoch = journal.take_role(self._owner)
            self._renewed_at = now
            return self._epoch is not None
        if now - self._renewed_at >= RENEW_EVERY_S or now < self._renewed_at:
            journal.renew_role(self._epoch)
            self._renewed_at = now
        return True

    async def _drop(self) -> None:
        """Stop looking after jobs, and free the role if it is still this console's."""
        runners, self._runners = self._runners, {}
        await self._pulse.close()
        await cancel_all([*(task for _, task in runners.values()), *self._sweeps.values()])
        await self._adoption.close()
        await self._copies.close()
        await self._crowding.close()
        self._sweeps.clear()
        self._up = self._well = frozenset()
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            with contextlib.suppress(JournalError):
                self._context.journal.give_back_role(epoch)

    async def _reap(self) -> None:
        """Forget runners that ended; one that failed begins again after a rest."""
        for job_id, (_, task) in list(self._runners.items()):
            if not task.done():
                continue
            del self._runners[job_id]
            error = None if task.cancelled() else task.exception()
            if error is None:
                self._reported.pop(job_id, None)
                continue
            if isinstance(error, (RoleLostError, JournalLostError)):
                raise error
            self._restart_at[job_id] = self._context.clock.now() + RESTART_PAUSE_S
            message = error.message if isinstance(error, ConsoleError) else repr(error)
            if self._reported.get(job_id) != message:
                self._reported[job_id] = message
                self._tell(job_id, clean(message, 500))

    def _look_after(self, job: Job) -> None:
        assert self._epoch is not None
        present = self._runners.get(job.id)
        if present is not None:
            parts = job.attempt.parts if job.attempt is not None else ()
            if unwanted(job) or any(part.host in self._back for part in parts):
                present[0].wake()
            return
        if self._context.clock.now() < self._restart_at.get(job.id, 0.0):
            return
        runner = Runner(
            self._context,
            self._epoch,
            job.id,
            self._taken,
            self._engine_silent,
            self._copies,
            self._faults,
            self._pulse.silent,
        )
        self._runners[job.id] = (runner, asyncio.ensure_future(self._run(runner)))

    async def _run(self, runner: Runner) -> None:
        """Drive a job; once it has ended, others need not wait for its devices until the tick."""
        await runner.run()
        if runner.job.state.ended:
            self._freed.set()

    def _engine_silent(self, host: str, error: ConsoleError) -> None:
        """Leave out a host with an engine that could not be queried, and sweep it once it
        answers."""
        self._leases.silences.note(host, error)
        self._unswept.setdefault(host, 0.0)

    def _left_behind(self, host: str) -> None:
        """Sweep a host again on which a container waits for the copy of its log."""
        self._unswept.setdefault(host, self._context.clock.now() + LEFT_AGAIN_S)

    def _engine_changed(self, host: str, error: UnreachableError | None) -> None:
        """Let the jobs on a host say that its engine is silent, or look again as it answers."""
        for runner, _ in self._runners.values():
            runner.hear(host)
        if error is None:
            self._unswept[host] = 0.0

    def _taken(self, host: str, error: LeaseTakenError) -> None:
        self._avoid[host, error.uuid] = self._context.clock.now() + AVOID_S
        self._leases.forget(host)

    def _hosts_in_use(self) -> set[str]:
        """Return the hosts in sight on which jobs depend on an engine."""
        attempts = (job.attempt for job in self._context.journal.jobs() if job.state.active)
        parts = (part for attempt in attempts if attempt is not None for part in attempt.parts)
        return {part.host for part in parts} & self._up

    def _observe(self) -> None:
        snapshot = self._context.hosts.snapshot()
        for runner, task in self._runners.values():
            if not task.done():
                runner.observe(snapshot)

    async def _place(self) -> None:
        now = self._context.clock.now()
        self._avoid = {key: until for key, until in self._avoid.items() if until > now}
        self._outlook.avoid = frozenset(self._avoid) | self._releasing
        plan = await self._outlook.renew()
        for choice in plan.choices if plan is not None else ():
            job = self._context.journal.job(choice.job)
            # While a large plan was made somebody may have held or cancelled it.
            if job is not None and job.state is JobState.QUEUED and self._can_start(job, choice):
                with contextlib.suppress(JobMovedError):
                    self._look_after(self._begin(job, choice))
        for job_id in plan.preempt if plan is not None else ():
            self._preempt(job_id)

    def _make_room(self) -> None:
        """Send the later of two jobs away where sharing a device does not go well, and tell how
        it goes."""
        journal = self._context.journal
        for job_id, cause in self._crowding.look(journal.jobs()):
            job = journal.job(job_id)
            if job is not None and job.state.active:
                with contextlib.suppress(JobMovedError):
                    self._look_after(interrupt(journal, job, "crowded-out", cause))
        jobs = {job.id: job for job in journal.jobs()}
        for changed in self._crowding.with_details(journal.jobs()):
            with contextlib.suppress(JobMovedError):
                journal.save(jobs[changed.id], changed, epoch=self._epoch)

    def _preempt(self, job_id: str) -> None:
        """Stop a job for one that goes first, where the lab allows that."""
        job = self._context.journal.job(job_id)
        if job is None or not self._context.settings.preemption or not may_be_preempted(job):
            return
        cause = "Stopped for a job that goes first; it goes on from its checkpoint."
        with contextlib.suppress(JobMovedError):
            self._look_after(interrupt(self._context.journal, job, "preempted", cause))

    def _can_start(self, job: Job, choice: Choice) -> bool:
        """Whether the job may begin where it is placed: its checkpoint is available, and on a host
        at the end of its pause it is the trial."""
        assert self._epoch is not None
        hosts = (choice.host, *(place.host for place in choice.others))
        if self._releasing and not self._releasing.isdisjoint(_devices(choice)):
            return False
        return self._can_resume(job, hosts) and self._faults.admits(self._epoch, job, hosts)

    def _can_resume(self, job: Job, chosen: Sequence[str]) -> bool:
        """Whether the job's checkpoint is available: where it is placed, or on a host that is
        up."""
        holder = holder_of(job, self._context.hosts.snapshot())
        if not holder or holder in self._up or set(chosen) == {holder}:
            return True
        detail = f"Its checkpoint lies on {holder}, which is out of sight."
        if job.detail != detail:
            with contextlib.suppress(JobMovedError):
                waiting = replace(job, detail=detail)
                self._context.journal.save(job, waiting, epoch=self._epoch)
        return False

    def _begin(self, job: Job, choice: Choice) -> Job:
        """Journal an attempt: from here on it belongs to the dispatcher."""
        last = job.attempt
        # A try that never got as far as a start counts for nothing: its number is used again. One
        # that a host could not start stays, as it tells where not to try.
        unused = last is not None and last.starting_at is None and not last.at_fault
        attempts = job.attempts[:-1] if unused else job.attempts
        number = (last.number if unused else last.number + 1) if last is not None else 1
        nonce = new_nonce()
        attempt = Attempt(
            number=number,
            host=choice.host,
            device_uuids=choice.device_uuids,
            device_indexes=choice.device_indexes,
            container_name=container_name(job.id, number, nonce),
            created_at=self._context.clock.now(),
            placement_reasons=choice.reasons,
            shared=choice.shared,
            members=tuple(
                Member(
                    place.host,
                    tuple(device.uuid for device in place.devices),
                    tuple(device.index for device in place.devices),
                    container_name(job.id, number, nonce, rank),
                )
                for rank, place in enumerate(choice.others, start=1)
            ),
        )
        launching = replace(
            job, state=JobState.LAUNCHING, attempts=(*attempts, attempt), cause="", detail="chosen"
        )
        return self._context.journal.save(job, launching, epoch=self._epoch)

    def _note_hosts(self) -> None:
        """Note which hosts have come into sight, or start jobs again, since the last tick."""
        hosts = (host for host in self._context.hosts.snapshot().hosts if not host.node)
        self._up = frozenset(host.name for host in hosts if host.state is HostState.UP)
        streaks = self._context.journal.streaks().values()
        well = self._up - {
            streak.host for streak in streaks if streak.set_aside and not streak.image
        }
        # What a host has of a restored journal is learned before anything there is removed.
        well -= self._adoption.unqueried
        self._back, self._well = well - self._well, well

    def _sweep_back(self) -> None:
        """Remove what a dead console, or a host that failed, left on hosts that are just back; a
        host is tried again if its engine does not answer yet, or one of its logs could not be
        copied."""
        assert self._epoch is not None
        now = self._context.clock.now()
        for name in [name for name, task in self._sweeps.items() if task.done()]:
            if not self._sweeps.pop(name).result():
                lasting = self._refusals.lasting(name)
                self._unswept[name] = now + (LEFT_AGAIN_S if lasting else SWEEP_AGAIN_S)
        for name in self._back:
            self._unswept[name] = 0.0
        if left := left_on(self._context.state):
            self._unswept.setdefault(left, 0.0)
        sweeping = Sweeping(
            self._context, self._epoch, self._copies, self._releasing, self._refusals
        )
        for name, after in list(self._unswept.items()):
            if name in self._well and after <= now and name not in self._sweeps:
                del self._unswept[name]
                self._sweeps[name] = asyncio.ensure_future(sweeping.sweep(name))

    def _tell_trouble(self, message: str) -> None:
        if self._trouble != message:
            self._trouble = message
            self._tell("dispatcher", clean(message, 500))

    def _tell(self, subject: str, message: str) -> None:
        try:
            self._context.journal.tell("error", subject, message, "error")
        except JournalError:
            now = self._context.clock.now()
            self._on_trouble(Event("error", subject, message, now, "error"))


def _devices(choice: Choice) -> set[tuple[str, str]]:
    """Return the devices of a choice by host and UUID."""
    others = {(place.host, device.uuid) for place in choice.others for device in place.devices}
    return others | {(choice.host, uuid) for uuid in choice.device_uuids}
