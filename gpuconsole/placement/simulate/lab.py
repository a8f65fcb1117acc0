"""The lab that is simulated: hosts, what they cost and how fast they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import inf

from gpuconsole.core.fleet import Backend, Device, FleetSnapshot, Host, HostState, PeerLink
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.simulate.device_speeds import CLASSES, OVER_HOSTS

THRESHOLD = 0.85
"""Share of a device's memory that an estimate may fill, as in the live console."""


@dataclass(frozen=True, slots=True)
class LabHost:
    """A host with equal devices."""

    name: str
    model: str
    devices: int
    memory_mib: float
    """Of each device."""
    speed: Mapping[str, float]
    """By class of job; 1 is the reference device."""
    backend: Backend = "gpu"
    linked: bool = True
    """Whether every device reaches every other on the host by a fast link."""
    price_per_hour: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failures:
    """How often hosts fail: exponential times between, a fixed time to mend."""

    mean_days_between: float
    repair_hours: float


@dataclass(frozen=True)
class Lab:
    """All hosts."""

    name: str
    hosts: tuple[LabHost, ...]
    failures: Failures | None = None
    assumptions: tuple[str, ...] = ()
    """Sentences on what the file did not say."""
    _limits: dict[tuple[int, tuple[str, ...]], float | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def by_name(self) -> Mapping[str, LabHost]:
        """The hosts by name."""
        return {host.name: host for host in self.hosts}

    @cached_property
    def devices(self) -> int:
        """Number of devices."""
        return sum(host.devices for host in self.hosts)

    @cached_property
    def capacity(self) -> float:
        """Devices, each counted by its mean speed over the classes: work it does in a second."""
        return sum(host.devices * sum(host.speed.values()) / len(host.speed) for host in self.hosts)

    @cached_property
    def backends(self) -> tuple[str, ...]:
        """The back ends that there are, most devices first."""
        counts: Counter[str] = Counter()
        for host in self.hosts:
            counts[host.backend] += host.devices
        return tuple(name for name, _ in counts.most_common())

    def most_memory_mib(self, devices: int, backends: tuple[str, ...]) -> float | None:
        """Return the most that a job may need on each of `devices`; None when there is no room.

        A job for which every host is too small takes as many devices on each of several hosts of
        one model.
        """
        key = (devices, backends)
        if key not in self._limits:
            self._limits[key] = self._most_memory_mib(devices, backends)
        return self._limits[key]

    def _most_memory_mib(self, devices: int, backends: tuple[str, ...]) -> float | None:
        hosts = self.hosts_for(devices)
        each = devices // hosts
        able = Counter(
            (host.model, host.memory_mib)
            for host in self.hosts
            if host.backend in backends and host.devices >= each
        )
        limits = (memory * THRESHOLD for (_, memory), count in able.items() if count >= hosts)
        return max(limits, default=None)

    def hosts_for(self, devices: int) -> int:
        """Return over how many hosts a job of so many devices spreads: as few as will do."""
        largest = max(host.devices for host in self.hosts)
        return next(
            n for n in range(1, devices + 1) if devices % n == 0 and devices // n <= largest
        )

    def rates(self, job_class: str, backends: Sequence[str]) -> dict[str, float]:
        """Return the speed by model for a class of job, of the models that can run it."""
        return {
            host.model: host.speed[job_class] for host in self.hosts if host.backend in backends
        }

    def speed(self, job_class: str, hosts: Sequence[str], devices: int) -> float:
        """Return the speed of a job on devices of these hosts; the slowest sets the pace."""
        traits = CLASSES[job_class]
        slowest = inf
        for name in hosts:
            host = self.by_name[name]
            speed = host.speed[job_class]
            if devices > 1 and not host.linked:
                speed *= traits.unlinked
            slowest = min(slowest, speed)
        return slowest * (OVER_HOSTS if len(hosts) > 1 else 1.0)

    def snapshot(self) -> FleetSnapshot:
        """Return the lab as the fleet that the engine knows, all idle."""
        return FleetSnapshot(1, 0.0, tuple(_host(host) for host in self.hosts), simulated=True)


def _host(host: LabHost) -> Host:
    uuids = [f"{host.name}/{index}" for index in range(host.devices)]
    kind = "NV12" if host.linked else "PHB"
    devices = tuple(
        Device(
            uuid=uuid,
            index=index,
            model=host.model,
            backend=host.backend,
            memory_total_mib=host.memory_mib,
            memory_used_mib=0.0,
            utilization=0.0,
            peers=tuple(PeerLink(other, kind) for other in uuids if other != uuid),
        )
        for index, uuid in enumerate(uuids)
    )
    return Host(
        host.name,
        HostState.UP,
        labels=host.labels,
        price_per_hour=host.price_per_hour,
        devices=devices,
        sampled_at=0.0,
    )
