"""The plan for the queue, made again only when something changed, and never felt on the screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.context import Context
from gpuconsole.session.fleet.leases import LeaseBoard, marked
from gpuconsole.session.queue.planner import Plan, Situation, Step, planned

SMALL = 20_000
"""Waiting jobs times devices up to which a plan takes some milliseconds and is made at once."""
FEW_DEVICES = 100
"""A waiting job costs as much as so many devices, however few there are."""
REST = 7.0
"""A large plan rests for so many times as long as it took: it costs an eighth of a core at most."""
STALE_S = 5.0
"""After so long a plan is made again although nothing moved: waiting for a preference ends."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What a plan depends on."""

    jobs: Sequence[Job]
    snapshot: FleetSnapshot
    leases: Mapping[str, Sequence[Lease]]
    silent: Mapping[str, str]
    avoid: frozenset[tuple[str, str]]
    now: float

    def equals(self, other: _Inputs | None) -> bool:
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

    def __init__(self, context: Context, steps: Sequence[Step], leases: LeaseBoard) -> None:
        self._context = context
        self._steps = steps
        self._leases = leases
        self._made_for: _Inputs | None = None
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
        inputs = self._inputs()
        if not inputs.equals(self._made_for) and inputs.small:
            self._keep(inputs, self._make(inputs))
        return self._plan

    async def renew(self) -> Plan | None:
        """Return the plan as things are now; None while a large one rests.

        A large plan is made beside the event loop.
        """
        inputs = self._inputs()
        if inputs.equals(self._made_for):
            return self._plan
        if inputs.small:
            self._keep(inputs, self._make(inputs))
            return self._plan
        if time.monotonic() < self._rest_until:
            return None
        began = time.monotonic()
        plan = await asyncio.to_thread(self._make, inputs)
        ended = time.monotonic()
        self._rest_until = ended + REST * (ended - began)
        self._keep(inputs, plan)
        return plan

    def _inputs(self) -> _Inputs:
        journal = self._context.journal
        return _Inputs(
            journal.jobs(),
            self._context.hosts.snapshot(),
            self._leases.others(journal.id),
            self._leases.silent(),
            self.avoid,
            self._context.clock.now(),
        )

    def _make(self, inputs: _Inputs) -> Plan:
        # Whether two may share a device is known from watching each alone, also while none waits.
        if inputs.idle and not self._context.settings.sharing:
            return Plan()
        ours = marked(inputs.snapshot, inputs.silent)
        situation = Situation(
            inputs.jobs, ours, inputs.now, inputs.leases, inputs.avoid, inputs.snapshot
        )
        return planned(situation, self._steps)

    def _keep(self, inputs: _Inputs, plan: Plan) -> None:
        self._made_for, self._plan, self._large = inputs, plan, not inputs.small
