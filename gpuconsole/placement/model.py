"""The words of placement: who asks, who holds, what was chosen, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuconsole.core.fleet import Device
from gpuconsole.core.jobs import Task
from gpuconsole.preflight.cost import Work


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a device by lease."""

    job: str
    name: str
    user: str
    since: float
    ends_at: float | None
    """When it is expected to be free again, or None when nobody can tell."""


@dataclass(frozen=True, slots=True)
class Request:
    """A job that wants devices."""

    job: str
    task: Task
    need_mib: float | None
    """Upper bound of memory per device, context included; None when the estimate is unknown."""
    devices: int
    waiting_since: float
    work: Work | None = None
    """What one step does, where preflight could tell: it ranks devices by the step's time."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Devices of one host that would do, with their score and a sentence for each part of it."""

    host: str
    devices: tuple[Device, ...]
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a device will not do now.

    A host without known devices is one rejection with `uuid` "". Beyond `MAX_REJECTIONS` the rest
    is counted, one row a filter, with `host` "" too.
    """

    host: str
    uuid: str
    model: str
    filter: str
    """host, engine, health, mig, backend, labels, memory, leased, reserved, held, exclusive,
    unknown, preferred, count."""
    reason: str


@dataclass(frozen=True, slots=True)
class Blocker:
    """A job that holds a device which would otherwise do."""

    job: str
    name: str
    user: str
    host: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job does not start now, and what a person could do about it."""

    reason: str
    blockers: tuple[Blocker, ...]
    estimated_start: float | None
    options: tuple[str, ...]
    possible: bool
    """False when no device of the fleet could ever do it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one job: a choice, or why it waits."""

    job: str
    chosen: Candidate | None
    candidates: tuple[Candidate, ...]
    """Best first, at most `MAX_CANDIDATES`; `chosen` is the first."""
    rejections: tuple[Rejection, ...]
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class Policy:
    """How candidates are ranked: a weight for each term of the score."""

    name: str = "weighted"
    memory_threshold: float = 0.85
    """Largest share of a device's memory that an estimate may fill; a task may ask for less."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """fit, balance, preferred, speed, links, domestic, price; a missing one counts 0."""
    note: str = ""
    """A sentence that every candidate carries, when the policy has something to say."""
