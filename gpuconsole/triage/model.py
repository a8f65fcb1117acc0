"""What a rule sees, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

from gpuconsole.config import Thresholds
from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, DeviceProcess, Host
from gpuconsole.core.incidents import Confidence, Severity
from gpuconsole.core.jobs import Job
from gpuconsole.core.util.lazy_dataclass import dataclass

Signal = tuple[str, str]
"""Where something was seen, in a word, and what."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed by itself."""

    at: float
    job: str
    name: str
    script: str
    host: str
    uuids: tuple[str, ...]
    cause: str


@dataclass(slots=True)
class Past:
    """What is remembered of a device between two looks at it."""

    at: float
    utilization: float | None
    """Mean of about the last half minute, 0-100."""
    slowed: float
    """Share of about the last half minute in which it slowed itself for heat, 0-1."""
    errors: int | None
    """Uncorrected memory errors when it was first seen."""
    pages: int | None
    """Retired pages when it was first seen."""
    links: int | None = None
    """NVLinks that were up when it was first seen."""
    processes: tuple[DeviceProcess, ...] = ()
    """Those of the last look."""
    arrivals: Mapping[int, float] = field(default_factory=dict)
    """When each of them, by its number, was first seen."""
    power_w: float | None = None
    """Mean of about the last half minute; None where the device does not tell it."""
    power_limit_w: float | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """One host and what is known around it. Leases are those of others."""

    host: Host
    now: float
    limits: Thresholds
    past: Mapping[str, Past]
    """By device UUID, of all hosts."""
    holders: Mapping[str, tuple[Job, ...]]
    """Active jobs of this queue by the UUID of a device that they hold."""
    jobs: tuple[Job, ...] = ()
    """Active jobs with a part on this host."""
    leases: Mapping[str, tuple[Lease, ...]] | None = None
    """By device UUID."""
    silent: str = ""
    """Why the container engine could not be asked lately, or ""."""
    failures: tuple[Failure, ...] = ()
    """On this host, oldest first."""

    def jobs_on(self, device: Device) -> tuple[str, ...]:
        """Return the ids of the jobs that hold a device."""
        return tuple(job.id for job in self.holders.get(device.uuid, ()))

    def utilization(self, device: Device) -> float | None:
        """Return the device's utilisation of about the last half minute."""
        past = self.past.get(device.uuid)
        return None if past is None else past.utilization


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says is wrong now."""

    title: str
    seen: tuple[Signal, ...] | Callable[[], tuple[Signal, ...]]
    """Its signals, or what puts them into words: a rule that holds of many devices is asked again
    and again, and its words are read seldom."""
    confidence: Confidence
    reason: str
    jobs: tuple[str, ...] = ()
    severity: Severity | None = None
    """None means the rule's own."""
    part: str = ""
    """Tells apart two things of the same rule and device, such as the number of an XID."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Where it was seen, and what."""
        return self.seen() if callable(self.seen) else self.seen


HostTest = Callable[[Scene], Finding | None]
DeviceTest = Callable[[Scene, Device], Finding | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to look for, about a host or about each of its devices."""

    name: str
    title: str
    """What it is called in a list."""
    severity: Severity
    when: str
    """When it holds, as a sentence; names in braces are thresholds."""
    holds: str
    """The threshold that says for how long it must hold."""
    test: HostTest | None = None
    device_test: DeviceTest | None = None
    blind: bool = False
    """Whether it applies to a host that is not up."""
    needs: str = ""
    """A field of the device without which it cannot hold: where that says nothing it is not
    asked. Most devices are well, and thousands are looked at."""
    held: str = ""
    """The threshold of the share of memory below which it cannot hold."""
    mean: str = ""
    """The threshold of the mean utilisation above which it cannot hold."""
    claimed: bool = False
    """Whether it can hold only of a device that a job or another console's lease claims."""
    slowed: bool = False
    """Whether it can hold only of a device that has mostly been slowed by heat lately."""

    @property
    def about(self) -> Literal["host", "device"]:
        """What its subject is."""
        return "device" if self.device_test is not None else "host"
