"""`ElasticHosts`, the one way into this room, and `Waking`, which resumes the hosts that jobs need
and suspends unused ones.

It acts only while its console dispatches. What it does is written down before it is done, so that
the next dispatcher goes on where this one ended.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import replace

from gpuconsole.core.containers import Hosts
from gpuconsole.core.devices.host_power import Elastic, Hurries
from gpuconsole.core.events import Severity
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostFacts, HostState
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.placement.elastic.wake import (
    Past,
    awake_as,
    in_use,
    may_wake,
    pause_s,
    price_of,
    to_wake,
    with_awake,
    would_do,
)
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.checkpoint import holder_of
from gpuconsole.session.elastic.power_state import WOKEN, power_overlay, with_power
from gpuconsole.session.elastic.suspend import Falling
from gpuconsole.session.fleet.leases import LeaseBoard, marked
from gpuconsole.session.queue.planner import Planner, Situation
from gpuconsole.state.files.host_power import ElasticNotes

LOOK_EVERY_S = 2.0
REST = 4.0
"""Looking for hosts to wake rests for so many times as long as it took."""
AWAKE_S = 120.0
"""A host that is still up so long after its sleep command has not fallen asleep."""
JUST_NOW_S = 10.0
"""A job that joined the queue so short a time ago may still find its place."""
DAY_S = 86400.0
MOST_TOOK = 9
"""Durations of wakes that are remembered."""


class ElasticHosts:
    """What is remembered of the hosts that can be resumed, for the map, the plan and the waking."""

    def __init__(self, context: Context) -> None:
        """`context` has the hosts as they say themselves, without what is remembered of them."""
        self._hosts = context.hosts
        self._notes = ElasticNotes(context.journal.folder)
        limits = context.power.hosts
        self.overlay = power_overlay(limits, self._notes)
        self.step = with_power(limits, self._notes)

    def waking(self, context: Context, planner: Planner, leases: LeaseBoard) -> Waking:
        """Return what resumes and suspends hosts while the session dispatches."""
        return Waking(context, planner, leases, self._hosts, self._notes)


class Waking:
    """Follows hosts that can be woken, for as long as its console dispatches."""

    def __init__(
        self,
        context: Context,
        planner: Planner,
        leases: LeaseBoard,
        hosts: Hosts,
        notes: ElasticNotes,
    ) -> None:
        """`hosts` are the hosts as they say themselves, without what is remembered of them."""
        self._context = context
        self._planner = planner
        self._leases = leases
        self._hosts = hosts
        self._power = context.power
        self._notes = notes
        self._falling = Falling(context, context.power)
        self._looked_at = float("-inf")
        self._rest_until = 0.0
        self._idle_since: dict[str, float] = {}
        self._doing: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Do what is to be done now; called each second while this console dispatches."""
        now = self._context.clock.now()
        if not self._power.hosts or 0.0 <= now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        self._reap()
        for name, limits in self._power.hosts.items():
            host = self._hosts.snapshot().host(name)
            if host is not None and name not in self._doing:
                self._follow(host, limits, now)
        if self._looking is None and time.monotonic() >= self._rest_until:
            self._looking = asyncio.ensure_future(self._wake_what_is_needed(now))

    def _reap(self) -> None:
        """Forget what has ended; what went wrong there is the dispatcher's to tell."""
        ended = [name for name, task in self._doing.items() if task.done()]
        tasks = [self._doing.pop(name) for name in ended]
        if self._looking is not None and self._looking.done():
            tasks.append(self._looking)
            self._looking = None
        for task in tasks:
            task.result()

    async def close(self) -> None:
        """End commands under way; what they were to do is written down."""
        looking = [self._looking] if self._looking is not None else []
        await cancel_all([*self._doing.values(), *looking])

    # -- following --------------------------------------------------------------------------

    def _follow(self, host: Host, limits: Elastic, now: float) -> None:
        past = self._notes.all().get(host.name, Past(phase="", since=now))
        if host.devices:
            # Also of a host that went away: this is what it had.
            past = replace(past, devices=_empty(host.devices), facts=_steady(host))
        held = past.lease and past.phase != "sleeping"
        if host.state is HostState.UP and held and now - past.since < limits.timeout_s:
            self._start(host.name, self._give_back(host, past))
        elif host.state is HostState.UP:
            past = self._up(host, limits, past, now)
            if self._is_idle(host, limits, past, now):
                self._start(host.name, self._sleep(host, past))
        elif host.state is HostState.DOWN:
            self._idle_since.pop(host.name, None)
            self._down(host, limits, past, now)

    def _up(self, host: Host, limits: Elastic, past: Past, now: float) -> Past:
        if past.phase == "waking":
            took = now - past.since
            durations = (*past.took, took)[-MOST_TOOK:]
            past = replace(
                past, phase="awake", since=now, took=durations, failures=0, error="", jobs=()
            )
            self._tell(host.name, f"It is awake after {format_duration(took)}.")
        elif past.phase in ("", "asleep") or (
            past.phase == "sleeping" and now - past.since > AWAKE_S
        ):
            stayed = past.phase == "sleeping"
            error = "it was still up after its sleep command" if stayed else ""
            past = replace(past, phase="awake", since=now, error=error, failures=0, jobs=())
            if stayed:
                self._tell(host.name, f"It did not fall asleep: {error}.", "warning")
        awake_s = now - past.since
        if (
            past.phase == "awake"
            and limits.max_awake_s is not None
            and awake_s > limits.max_awake_s
        ):
            past = replace(past, phase="tired")
            self._tell(host.name, f"It has been awake for {format_duration(awake_s)}, its limit.")
        self._notes.keep(host.name, past)
        return past

    def _down(self, host: Host, limits: Elastic, past: Past, now: float) -> None:
        if past.phase == "sleeping" or (
            past.phase in ("", "awake", "tired") and self._has_no_job(host)
        ):
            self._notes.keep(host.name, replace(past, phase="asleep", since=now, error=""))
        elif past.phase == "waking" and isinstance(self._hosts, Hurries):
            self._hosts.hurry(host.name)
        if past.phase == "waking" and now - past.since > limits.timeout_s:
            error = f"it was not up {format_duration(limits.timeout_s)} after its wake command"
            self._failed(host.name, past, error)

    def _has_no_job(self, host: Host) -> bool:
        """Whether no job of ours is on a host: one that went away with a job was lost."""
        return not any(
            host.name == part.host
            for job in self._context.journal.jobs()
            if job.state.active and job.attempt is not None
            for part in job.attempt.parts
        )

    # -- suspending -------------------------------------------------------------------------

    def _is_idle(self, host: Host, limits: Elastic, past: Past, now: float) -> bool:
        """Whether nothing has used a host for long enough, as far as can be seen from here."""
        used = in_use(host) or not self._has_no_job(host) or not host.devices
        asleep = not limits.sleeps or past.phase not in ("awake", "tired")
        if used or asleep or now < past.try_after or self._is_wanted(now):
            self._idle_since.pop(host.name, None)
            return False
        since = self._idle_since.setdefault(host.name, now)
        return now - since >= (0.0 if past.phase == "tired" else limits.idle_s)

    def _is_wanted(self, now: float) -> bool:
        """Whether a job has just joined the queue, which may come to any host."""
        waiting = (job for job in self._context.journal.jobs() if job.state is JobState.QUEUED)
        return any(now - (job.queued_at or job.submitted_at) < JUST_NOW_S for job in waiting)

    async def _give_back(self, host: Host, past: Past) -> None:
        """Release what kept others from a host while it was put to sleep; until its engine has
        answered it is not awake."""
        if await self._falling.release(host, past.lease):
            self._notes.keep(host.name, replace(past, lease=""))

    async def _sleep(self, host: Host, past: Past) -> None:
        if await self._falling.leased(host):
            self._idle_since.pop(host.name, None)
            return
        now = self._context.clock.now()
        lease = self._falling.claim_name()
        before = replace(past, error="")
        self._notes.keep(host.name, replace(before, phase="sleeping", since=now, lease=lease))
        fault = await self._falling.asleep(host, lease)
        self._idle_since.pop(host.name, None)
        if not fault:
            self._tell(host.name, "It is being put to sleep: nothing uses it.")
            return
        again = replace(before, error=fault, try_after=self._context.clock.now() + pause_s(1))
        self._notes.keep(host.name, again)
        self._tell(host.name, f"It stays awake: {fault}", "warning")

    # -- waking -----------------------------------------------------------------------------

    async def _wake_what_is_needed(self, now: float) -> None:
        jobs = self._context.journal.jobs()
        waiting = {job.id: job for job in jobs if job.state is JobState.QUEUED}
        sleeping = self._sleeping() if waiting else []
        if not sleeping:
            self._note_wanted({}, set())
            return
        await self._leases.refresh()
        snapshot = marked(self._context.hosts.snapshot(), self._leases.silent())
        began = time.monotonic()
        chosen, wanted_of, dear = await asyncio.to_thread(
            self._chosen, jobs, snapshot, sleeping, now
        )
        self._rest_until = time.monotonic() + REST * (time.monotonic() - began)
        for name, wanted in chosen.items():
            if name not in self._doing:
                self._start(name, self._wake(name, tuple(job for job in wanted if job in waiting)))
        self._note_wanted(wanted_of, dear)

    def _note_wanted(self, wanted_of: Mapping[str, tuple[str, ...]], dear: set[str]) -> None:
        """Write down which hosts sleep on though jobs need them, and which for their price."""
        for name, past in self._notes.all().items():
            if name in self._power.hosts and name not in self._doing:
                wanted = wanted_of.get(name, ())
                too_dear = bool(wanted) and name in dear
                self._notes.keep(name, replace(past, wanted=wanted, too_dear=too_dear))

    def _sleeping(self) -> list[Host]:
        """Return the hosts that sleep, as they would be awake."""
        hosts = []
        for host in self._context.hosts.snapshot().hosts:
            limits, past = self._power.hosts.get(host.name), self._notes.all().get(host.name)
            if limits is None or past is None or host.drained or host.name in self._doing:
                continue
            if host.power == "asleep":
                hosts.append(awake_as(host, past, limits))
        return hosts

    def _chosen(
        self, jobs: Sequence[Job], snapshot: FleetSnapshot, sleeping: Sequence[Host], now: float
    ) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]], set[str]]:
        """Return the hosts to wake and those that would do but may not be woken, both with their
        jobs, and those that are too dear."""
        journal = self._context.journal.id
        notes, limits = self._notes.all(), self._power.hosts
        ready = [
            host for host in sleeping if not may_wake(limits[host.name], notes[host.name], now)
        ]
        waking = [
            awake_as(
                replace(host, drained="") if host.drained == WOKEN else host,
                self._notes.all()[host.name],
                self._power.hosts[host.name],
            )
            for host in snapshot.hosts
            if host.power == "waking"
        ]
        # What is on its way already serves its jobs.
        there = {host.name: host for host in waking}
        hosts = tuple(there.get(host.name, host) for host in snapshot.hosts)
        leases = self._leases.others(journal)

        def landing(picture: FleetSnapshot) -> Mapping[str, Collection[str]]:
            plan = self._planner.plan(Situation(jobs, picture, now, leases=leases))
            return {
                choice.job: (choice.host, *(place.host for place in choice.others))
                for choice in plan.choices
            }

        picture = replace(snapshot, hosts=hosts)
        budget = self._budget(snapshot, waking)
        chosen = to_wake(picture, ready, landing, budget)
        starts = landing(picture)
        names = {host.name for host in ready}
        for job in jobs:
            # A job that could start goes on from a checkpoint that may lie on a sleeping host.
            holder = holder_of(job, snapshot)
            if job.id in starts and holder in names and holder not in chosen:
                chosen[holder] = (job.id,)
        awake = [host for host in sleeping if host.name in chosen]
        left = math.inf if budget is None else budget - sum(map(price_of, awake))
        asleep = [host for host in sleeping if host.name not in chosen]
        dear = {host.name for host in asleep if price_of(host) > left}
        barred = [host for host in asleep if host.name in dear or host.name not in names]
        return chosen, would_do(with_awake(picture, awake), barred, landing), dear

    def _budget(self, snapshot: FleetSnapshot, waking: Sequence[Host]) -> float | None:
        most = self._context.settings.elastic_price
        if most is None:
            return None
        awake = [
            host
            for host in snapshot.hosts
            if host.name in self._power.hosts and host.state is HostState.UP
        ]
        return most - sum(price_of(host) for host in (*awake, *waking))

    async def _wake(self, name: str, jobs: tuple[str, ...]) -> None:
        now = self._context.clock.now()
        past = self._notes.all().get(name, Past())
        wakes = (*(at for at in past.wakes if now - at < DAY_S), now)
        past = replace(past, phase="waking", since=now, wakes=wakes, jobs=jobs, error="")
        self._notes.keep(name, past)
        why = f"for {len(jobs)} waiting job{'' if len(jobs) == 1 else 's'}"
        self._tell(name, f"It is being woken {why}.")
        fault = await self._power.switch(name, "wake")
        if fault:
            self._failed(name, past, fault)

    def _failed(self, name: str, past: Past, error: str) -> None:
        now, failures = self._context.clock.now(), past.failures + 1
        after = now + pause_s(failures)
        self._notes.keep(
            name,
            replace(past, phase="asleep", since=now, failures=failures, try_after=after,
                    error=clean(error, 500), jobs=()),
        )  # fmt: skip
        pause = format_duration(pause_s(failures))
        self._tell(name, f"It did not wake: {error}. It is tried again in {pause}.", "error")

    # -- telling ----------------------------------------------------------------------------

    def _start(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._doing[name] = asyncio.ensure_future(work)

    def _tell(self, host: str, message: str, severity: Severity = "information") -> None:
        self._context.journal.tell("host", host, clean(f"{host}: {message}", 500), severity)


def _empty(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return devices without load: only static facts are kept."""
    return tuple(
        Device(
            device.uuid,
            device.index,
            device.model,
            device.backend,
            memory_total_mib=device.memory_total_mib,
            memory_used_mib=0.0 if device.memory_total_mib is not None else None,
            mig=device.mig,
            pci_bus_id=device.pci_bus_id,
            numa_node=device.numa_node,
            peers=device.peers,
            vendor=device.vendor,
            parent_uuid=device.parent_uuid,
            mig_profile=device.mig_profile,
        )
        for device in devices
    )


def _steady(host: Host) -> HostFacts:
    """Return of a host's facts those that decide what may run there."""
    facts = host.facts
    return HostFacts(
        cpu_count=facts.cpu_count,
        memory_total_mib=facts.memory_total_mib,
        driver_version=facts.driver_version,
        runtime_version=facts.runtime_version,
    )
