"""What the dispatcher wants from placement: for each queued job a choice, or why it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import iso_utc
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
    """Why a job stands where it does."""

    state: str
    reason: str
    blockers: tuple[Mapping[str, Any], ...] = ()
    """Jobs that hold what it needs: `job, name, user, host, uuid, text`."""
    estimated_start: float | None = None
    options: tuple[str, ...] = ()
    """What a person could do about it."""

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


class Planner(Protocol):
    """Places queued jobs; pure."""

    def plan(
        self,
        jobs: Sequence[Job],
        snapshot: FleetSnapshot,
        leases: Mapping[str, Sequence[Lease]],
        avoid: frozenset[tuple[str, str]],
        now: float,
    ) -> Plan:
        """Return choices for the queued ones among `jobs`.

        `leases` are those of other consoles, by host; `avoid` are devices (host, UUID) that
        another console took a moment ago.
        """
        ...
