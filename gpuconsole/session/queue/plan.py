"""The plan for the queue, made anew only when something changed, and never felt on the screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.bench import Bench
from gpuconsole.session.fleet.leases import LeaseBoard, marked
from gpuconsole.session.queue.planner import Plan, Planner

SMALL = 20_000
"""Waiting jobs times devices up to which a plan takes some milliseconds and is made at once."""
FEW_DEVICES = 100
"""A waiting job costs as much as so many devices, however few there are."""
REST = 7.0
"""A large plan rests for so many times as long as it took: it costs an eighth of a core at most."""
STALE_S = 5.0
"""After so long a plan is made anew although nothing moved: waiting for a preference ends."""


@dataclass(frozen=True, slots=True)
class _Situation:
    """What a plan depends on."""

    jobs: Sequence[Job]
    snapshot: FleetSnapshot
    leases: Mapping[str, Sequence[Lease]]
    silent: Mapping[str, str]
    avoid: frozenset[tuple[str, str]]
    now: float

    def equals(self, other: _Situation | None) -> bool:
        """Tell whether the plan made for the other holds for this one too."""
        return (
            other is not None
            and self.snapshot.revision == other.snapshot.revision
            and self.avoid == other.avoid
            and self.jobs == other.jobs
            and self.leases == other.leases
            and self.silent == other.silent
            and 0.0 <= self.now - other.now < STALE_S
        )

    @property
    def idle(self) -> bool:
        """Whether nothing waits for a place."""
        return not any(job.state is JobState.QUEUED for job in self.jobs)

    @property
    def small(self) -> bool:
        """Whether a plan for it is not felt."""
        waiting = sum(job.state is JobState.QUEUED for job in self.jobs)
        devices = sum(len(host.devices) for host in self.snapshot.hosts)
        return waiting * max(FEW_DEVICES, devices) <= SMALL


class Outlook:
    """Which queued jobs may start where, and why the others wait."""

    def __init__(self, bench: Bench, planner: Planner, leases: LeaseBoard) -> None:
        self._bench = bench
        self._planner = planner
        self._leases = leases
        self._made_for: _Situation | None = None
        self._plan = Plan()
        self._large = False
        self._rest_until = 0.0
        self.avoid: frozenset[tuple[str, str]] = frozenset()
        """Devices (host, UUID) that another console took a moment ago."""

    @property
    def plan(self) -> Plan:
        """The latest plan: of a small lab as things are now, else some seconds old at most while
        somebody renews it."""
        # Asked for each row of the queue: a large plan is only made by `renew`.
        if self._large:
            return self._plan
        situation = self._situation()
        if not situation.equals(self._made_for) and situation.small:
            self._keep(situation, self._make(situation))
        return self._plan

    async def renew(self) -> Plan | None:
        """Return the plan as things are now; None while a large one rests.

        A large plan is made beside the event loop.
        """
        situation = self._situation()
        if situation.equals(self._made_for):
            return self._plan
        if situation.small:
            self._keep(situation, self._make(situation))
            return self._plan
        if time.monotonic() < self._rest_until:
            return None
        began = time.monotonic()
        made = await asyncio.to_thread(self._make, situation)
        ended = time.monotonic()
        self._rest_until = ended + REST * (ended - began)
        self._keep(situation, made)
        return made

    def _situation(self) -> _Situation:
        journal = self._bench.journal
        return _Situation(
            journal.jobs(),
            self._bench.hosts.snapshot(),
            self._leases.others(journal.id),
            self._leases.silent(),
            self.avoid,
            self._bench.clock.now(),
        )

    def _make(self, situation: _Situation) -> Plan:
        # Whether two may share a device is known from watching each alone, also while none waits.
        if situation.idle and not self._bench.settings.sharing:
            return Plan()
        snapshot = marked(situation.snapshot, situation.silent)
        return self._planner.plan(
            situation.jobs, snapshot, situation.leases, situation.avoid, situation.now
        )

    def _keep(self, situation: _Situation, made: Plan) -> None:
        self._made_for, self._plan, self._large = situation, made, not situation.small
