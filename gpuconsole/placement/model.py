"""The words of placement: who asks, who holds, what was chosen, and why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, NamedTuple, Protocol, overload

from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.roofline import Work

ANOTHER_CONSOLE = "another console"
"""Name, job and user of a holder of which no more is known: it claimed a device a moment ago."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a device by lease."""

    job: str
    name: str
    user: str
    since: float
    ends_at: float | None
    """When it is expected to be free again, or None if unknown."""
    need_mib: float | None = None
    """Upper bound of its memory on each device."""
    utilization: float | None = None
    """Percent of a device that it keeps busy, measured or predicted."""
    share: bool = False
    """Whether another job may use the device beside it."""
    priority: int = 0
    account: str = ""
    sweep: str = ""
    """The sweep that its job is part of; "" for none."""
    resumable: bool = False
    """Whether it may be stopped and goes on from its checkpoint later."""
    beside: Holder | None = None
    """The second job on the device, where two share it."""
    claimed_until: float | None = None
    """Of a claim that another console made: when it ends by itself if its job has not started."""


@dataclass(frozen=True, slots=True)
class Shun:
    """Why and until when a job does not go to a host that might do."""

    until: float
    sentence: str


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
    user: str = ""
    run_time_s: float | None = None
    """Predicted run time on a usual device; None while nothing like it has been seen."""
    rates: Mapping[str, float] | None = None
    """Relative speed by model, where it is known better than from `work`; the simulator's."""
    utilization: float | None = None
    """Percent of a device that it would keep busy."""
    deadline: float | None = None
    shunned: Mapping[str, Shun] | None = None
    """Hosts that could not start it lately, or that cannot fetch its image, by name."""

    @property
    def least_on_host(self) -> int:
        """Devices that it takes of a host at least: it spreads over equal parts."""
        parts = (p for p in range(self.task.hosts, 0, -1) if self.devices % p == 0)
        return self.devices // next(parts, 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Devices of one host."""

    host: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Devices that would do, with their score and a sentence for each part of it."""

    places: tuple[Place, ...]
    """One, or one for each host of a gang; the first has rank 0."""
    score: float
    reasons: tuple[str, ...]
    shared: bool = False
    """Whether another job holds the device already and would share it."""

    @property
    def host(self) -> str:
        """The host, of a gang the first."""
        return self.places[0].host

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices on all hosts."""
        return tuple(device for place in self.places for device in place.devices)


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
    """host, engine, drained, aside, health, mig, backend, labels, image, window, quota, memory,
    leased, reserved, held, exclusive, unknown, preferred, count."""
    reason: str


class Rejections(Sequence[Rejection]):
    """Why devices will not do, worked out when first read: few who decide ask for it, and a large
    fleet has thousands. Until then the board must stay as it was."""

    def __init__(self, make: Callable[[], tuple[Rejection, ...]] = tuple) -> None:
        self._make = make
        self._made: tuple[Rejection, ...] | None = None

    @property
    def items(self) -> tuple[Rejection, ...]:
        """All of them."""
        if self._made is None:
            self._made = self._make()
            self._make = tuple
        return self._made

    @overload
    def __getitem__(self, index: int) -> Rejection: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Rejection, ...]: ...
    def __getitem__(self, index: int | slice) -> Rejection | tuple[Rejection, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.items == tuple(other)

    def __hash__(self) -> int:
        return hash(self.items)


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
    undated: str = ""
    """The reason without when devices come free, for callers with a better forecast; "" where the
    reason names no time."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one job: a choice, or why it waits."""

    job: str
    chosen: Candidate | None
    candidates: tuple[Candidate, ...]
    """Best first, at most `MAX_CANDIDATES`; `chosen` is the first."""
    rejections: Sequence[Rejection]
    waiting: Waiting | None


Order = Literal["fifo", "time", "area"]
"""By submission, by predicted run time, or by predicted run time times devices."""
Backfill = Literal["strict", "skip", "easy"]
"""What jobs behind a blocked one may do: nothing, start anyhow, or start where it does not delay
the first blocked one (EASY)."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A trained correction of the weighted policy: sums of named terms, clipped."""

    place: Mapping[str, float] = field(default_factory=dict)
    """What a term of the score counts more or less, by name (`learned.PLACE_FEATURES`)."""
    order: Mapping[str, float] = field(default_factory=dict)
    """What a feature of a job moves it in the queue, by name (`learned.ORDER_FEATURES`)."""
    place_clip: float = 2.0
    order_clip: float = 2.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How jobs are ordered and candidates are ranked: a weight for each term of the score."""

    name: str = "weighted"
    memory_threshold: float = 0.85
    """Largest share of a device's memory that an estimate may fill; a task may ask for less."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By the names of `scores.TERMS`; a missing one counts 0."""
    note: str = ""
    """A sentence that every candidate carries, when the policy has something to say."""
    order: Order = "area"
    backfill: Backfill = "easy"
    fair_share: float = 0.0
    """What use beyond one's share moves a job back: in powers of e of its area, per whole share."""
    patience: float = 0.0
    """What waiting moves a job forward: in powers of e of its area, each time the wait doubles
    beyond its own run time."""
    front_after_s: float = 0.0
    """A job that has waited so long (s), and `FRONT_TIMES` times its own predicted run time, goes
    before all others of its priority; 0 switches that off."""
    host_per_user: bool = False
    """Every user keeps to one host; what many labs do today, and a baseline here."""
    sharing: bool = False
    """Whether two jobs that allow it may share a device."""
    preemption: bool = False
    """Whether a job of lower priority that can be resumed may be stopped for one of higher."""
    mix: Mapping[int, float] = field(default_factory=lambda: {1: 0.6, 2: 0.1, 4: 0.1, 8: 0.2})
    """Share of jobs by the number of devices they ask for: what a free rest is good for."""
    avoid_foreign: bool = False
    """Whether devices on which somebody works outside the queue are left alone."""
    learned: Learned | None = None


class Ruling(NamedTuple):
    """A rule of the lab against a job, or against a job on one host."""

    code: str
    """quota, beyond (a quota that the job alone exceeds), sweep, window, image, interruptible."""
    sentence: str


class Rules(Protocol):
    """What a lab forbids beyond what devices can do."""

    def job(self, request: Request, held: Mapping[str, int]) -> Ruling | None:
        """Return why a job may not start at all now; `held` counts devices by `user:`, `account:`
        and name, and jobs by `sweep:`, user and name."""
        ...

    def host(self, request: Request, host: Host, own: int, count: int) -> Ruling | None:
        """Return why a job may not have `count` devices of a host, of which its user holds `own`
        already."""
        ...


class Free:
    """No rules."""

    def job(self, request: Request, held: Mapping[str, int]) -> Ruling | None:
        """Allow everything."""
        return None

    def host(self, request: Request, host: Host, own: int, count: int) -> Ruling | None:
        """Allow everything."""
        return None


FREE = Free()
