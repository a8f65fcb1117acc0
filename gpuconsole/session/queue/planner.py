"""What the dispatcher wants from placement: for each queued job a choice, or why it waits."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, cast

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement import Place


@dataclass(frozen=True, slots=True)
class Choice:
    """Devices chosen for a job, now."""

    job: str
    host: str
    device_uuids: tuple[str, ...]
    device_indexes: tuple[int, ...]
    reasons: tuple[str, ...] = ()
    others: tuple[Place, ...] = ()
    """The other hosts of a gang, in the order of their ranks."""
    shared: bool = False
    """Whether another job holds the device and shares it."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job is in its state."""

    state: str
    reason: str
    blockers: tuple[Mapping[str, Any], ...] = ()
    """Jobs that hold what it needs: `job, name, user, host, uuid, text`."""
    estimated_start: float | None = None
    options: tuple[str, ...] = ()
    """What a person could do about it."""
    undated: str = ""
    """The reason without when devices come free; "" where it names no such time."""

    def as_json(self) -> dict[str, Any]:
        """Return the `why --json` document."""
        return {
            "state": self.state,
            "reason": self.reason,
            "blockers": [dict(blocker) for blocker in self.blockers],
            "estimated_start": iso_utc(self.estimated_start),
            "options": list(self.options),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Choices for those that may start now, reasons for those that wait."""

    choices: tuple[Choice, ...] = ()
    waiting: Mapping[str, Why] = field(default_factory=dict)
    preempt: tuple[str, ...] = ()
    """Running jobs to be stopped, to go on from their checkpoints later; the dispatcher does it
    only where the lab's settings allow preemption."""

    def plus(self, other: Plan) -> Plan:
        """Return this plan with another, which speaks of other jobs, added to it."""
        if not (self.choices or self.waiting or self.preempt):
            return other
        both = ChainMap(cast("dict[str, Why]", other.waiting), cast("dict[str, Why]", self.waiting))
        return Plan((*self.choices, *other.choices), both, (*self.preempt, *other.preempt))


@dataclass(frozen=True, slots=True)
class Situation:
    """What the queue is planned for: the context of every planning step."""

    jobs: Sequence[Job]
    snapshot: FleetSnapshot
    """The hosts on which the console decides."""
    now: float
    """Unix time, s."""
    leases: Mapping[str, Sequence[Lease]] = field(default_factory=dict)
    """Those of other consoles, by host."""
    avoid: frozenset[tuple[str, str]] = frozenset()
    """Devices (host, UUID) that another console took a moment ago."""
    with_clusters: FleetSnapshot | None = None
    """All hosts, nodes of clusters too; None where the lab has no cluster."""

    @property
    def fleet(self) -> FleetSnapshot:
        """All hosts, nodes of clusters too."""
        return self.snapshot if self.with_clusters is None else self.with_clusters


Step = Callable[[Situation, Plan], Plan]
"""A step of planning: returns the plan of the steps before it with its own part."""


def planned(situation: Situation, steps: Iterable[Step]) -> Plan:
    """Return the plan that the steps make, in their order."""
    plan = Plan()
    for step in steps:
        plan = step(situation, plan)
    return plan


class Planner(Protocol):
    """Places queued jobs; pure."""

    def plan(self, situation: Situation) -> Plan:
        """Return choices for queued jobs, and why the others wait."""
        ...


def placed_by(planner: Planner) -> Step:
    """Return the step that places queued jobs on hosts of the console."""
    return lambda situation, plan: plan.plus(planner.plan(situation))
