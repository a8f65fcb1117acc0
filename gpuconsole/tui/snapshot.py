"""What one beat of the paint clock hands to a screen: the fleet, the jobs and the time, frozen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain, islice
from typing import NamedTuple

from gpuconsole.core.devices.health_levels import (
    BUSY_MEMORY_MIB,
    BUSY_UTILIZATION,
    SLOWING,
    Condition,
    is_faulty,
)
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.incidents import Incident, IncidentState, Severity
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.roll import roll_of
from gpuconsole.core.util.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over hosts. Percentages are means over the devices that tell."""

    up: int = 0
    down: int = 0
    devices: int = 0
    busy: int = 0
    free: int = 0
    bad: int = 0
    power_w: float = 0.0
    utilization_sum: float = 0.0
    utilization_known: int = 0
    memory_sum: float = 0.0
    memory_known: int = 0

    @property
    def utilization(self) -> float | None:
        """Mean utilisation, 0-100."""
        return self.utilization_sum / self.utilization_known if self.utilization_known else None

    @property
    def memory(self) -> float | None:
        """Mean share of memory held, 0-100."""
        return self.memory_sum / self.memory_known if self.memory_known else None

    @classmethod
    def of(cls, sums: Iterable[HostSums]) -> Totals:
        """Add up the sums of hosts."""
        return cls(*map(sum, islice(zip(*sums, strict=True), len(cls.__slots__))))


class HostSums(NamedTuple):
    """One host in figures: first those of `Totals`, in their order, then what is no sum."""

    up: int
    down: int
    devices: int
    busy: int
    free: int
    bad: int
    power_w: float
    utilization_sum: float
    utilization_known: int
    memory_sum: float
    memory_known: int
    worst: Condition
    free_gib: tuple[int, ...] = ()
    """The size of each free device, in GiB."""

    @property
    def utilization(self) -> float | None:
        """Mean utilisation, 0-100."""
        return self.utilization_sum / self.utilization_known if self.utilization_known else None

    @property
    def memory(self) -> float | None:
        """Mean share of memory held, 0-100."""
        return self.memory_sum / self.memory_known if self.memory_known else None


@dataclass(frozen=True, slots=True)
class Picture:
    """A frozen view of everything a screen draws."""

    snapshot: FleetSnapshot = field(default_factory=FleetSnapshot)
    jobs: tuple[Job, ...] = ()
    now: float = 0.0
    totals: Totals = Totals()
    owners: Mapping[str, Job] = field(default_factory=dict)
    """Device UUID to the job with an attempt that holds it."""
    users: Mapping[str, str] = field(default_factory=dict)
    """Device UUID to the user of that job, for filters."""
    sums: Mapping[str, HostSums] = field(default_factory=dict)
    """Host name to its figures."""
    in_order: tuple[HostSums, ...] = ()
    """The same, by the places of the hosts."""
    free_sizes: tuple[tuple[int, int], ...] = ()
    """How many devices are free of each size in GiB, the largest first."""

    waiting: int = 0
    """How many jobs wait or are held."""
    active: int = 0
    """How many jobs may hold devices."""
    incidents: tuple[Incident, ...] = ()
    """What is wrong, and what was lately."""

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """Open incidents without a mark of a user."""
        return tuple(
            incident
            for incident in self.incidents
            if incident.state(self.now) is IncidentState.OPEN
        )

    @property
    def critical(self) -> int:
        """How many of them are critical and not about to end."""
        return sum(
            incident.severity is Severity.CRITICAL and not self.recovering(incident)
            for incident in self.open_incidents
        )

    def recovering(self, incident: Incident) -> bool:
        """Whether a host of which an incident says that it cannot be reached answers again: the
        incident is still open, for the host has to stay for a while."""
        if incident.rule != "unreachable" or incident.ended_at is not None:
            return False
        host = self.snapshot.host(incident.host)
        return host is not None and host.state is HostState.UP

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest frame of any host."""
        times = [at for at in roll_of(self.snapshot.hosts).sampled_at if at is not None]
        return max(0.0, self.now - max(times)) if times else None

    def job(self, job_id: str) -> Job | None:
        """Return the job of that id."""
        return next((job for job in self.jobs if job.id == job_id), None)

    def of_host(self, host: Host) -> HostSums:
        """Return the figures of a host of this picture."""
        return self.sums.get(host.name) or sums_of(host)

    def at_places(self, hosts: Sequence[Host], places: Sequence[int]) -> list[HostSums]:
        """Return the figures of those of the hosts at these places."""
        if self.in_order and hosts is self.snapshot.hosts:
            # Without a look at their records.
            return [self.in_order[at] for at in places]
        return [self.of_host(hosts[at]) for at in places]

    def user_name(self, device: Device) -> str:
        """Say which user a device works for: its job's, else that of the process that holds most
        of it, else ""."""
        user = self.users.get(device.uuid)
        if user is not None or not device.processes:
            return user or ""
        return max(device.processes, key=lambda process: process.memory_mib or 0.0).user or "?"

    def owner_name(self, device: Device) -> str:
        """Say who uses a device: its job, else the users of its processes, else nothing."""
        job = self.owners.get(device.uuid)
        if job is not None:
            return f"{job.task.name} ({job.user})"
        if not device.processes:
            return ""
        users = dict.fromkeys(process.user or "?" for process in device.processes)
        return ", ".join(users)


class Gallery:
    """Makes pictures, remembering what did not change since the last one."""

    def __init__(self) -> None:
        self._hosts: list[Host | None] = []
        """What was summed up last, by its place in the fleet."""
        self._sums: list[HostSums] = []
        self._jobs: tuple[Job, ...] = ()
        self._owners: dict[str, Job] = {}
        self._users: dict[str, str] = {}
        self._counts = (0, 0)

    def look_ahead(self, hosts: Sequence[Host], first: int = 0) -> None:
        """Sum up the hosts of the fleet from a place on, which the next picture then has to do only
        where they have changed since."""
        self._sum_up(hosts, first)

    def picture(self, snapshot: FleetSnapshot, jobs: tuple[Job, ...], now: float) -> Picture:
        """Return the picture of this moment."""
        if jobs is not self._jobs:
            self._jobs = jobs
            self._owners = {
                uuid: job
                for job in jobs
                if job.state.active and job.attempt is not None
                for part in job.attempt.parts
                for uuid in part.device_uuids
            }
            self._users = {uuid: job.user for uuid, job in self._owners.items()}
            waiting = sum(job.state in (JobState.QUEUED, JobState.HELD) for job in jobs)
            self._counts = waiting, sum(job.state.active for job in jobs)
        hosts = snapshot.hosts
        self._sum_up(hosts, 0)
        del self._hosts[len(hosts) :], self._sums[len(hosts) :]
        in_order = tuple(self._sums)
        by_name = dict(zip(roll_of(hosts).names, in_order, strict=True))
        free = Counter(chain.from_iterable([sums[-1] for sums in in_order]))
        return Picture(
            snapshot, jobs, now, Totals.of(in_order), self._owners, self._users, by_name, in_order,
            tuple(sorted(free.items(), reverse=True)), *self._counts,
        )  # fmt: skip

    def _sum_up(self, hosts: Sequence[Host], first: int) -> None:
        summed, sums = self._hosts, self._sums
        new = first + len(hosts) - len(summed)
        if new > 0:
            summed += [None] * new
            sums += [_NO_SUMS] * new
        for place, host in enumerate(hosts, first):
            if summed[place] is not host:
                summed[place], sums[place] = host, sums_of(host)


def sums_of(host: Host) -> HostSums:
    """Sum up one host.

    A thousand hosts change every second, so the rules of `core.devices.health_levels` stand here in
    one loop; a test holds both against each other.
    """
    up = host.state is HostState.UP
    if up and (plain := plain_sums(host)) is not None:
        return plain
    if host.state is HostState.DOWN:
        return _sums_when_down(len(host.devices), asleep=bool(host.power))
    count = len(host.devices)
    busy = idle = bad = work_known = held_known = 0
    power = work = share = 0.0
    slowed = False
    sizes: list[int] = []
    for device in host.devices:
        if device.throttle and not SLOWING.isdisjoint(device.throttle):
            # Of a divided card too: it slows its slices.
            slowed = True
        load, held = device.utilization, device.memory_used_mib
        if is_faulty(device):
            bad += 1
        elif device.mig and device.divided:
            # Its slices are counted, each a device to jobs; what it draws is theirs together.
            count -= 1
            power += device.power_w or 0.0
            continue
        elif (
            device.processes
            or (load is not None and load >= BUSY_UTILIZATION)
            or (held is not None and held > BUSY_MEMORY_MIB)
        ):
            busy += 1
        else:
            idle += 1
            if up:
                sizes.append(round((device.memory_total_mib or 0.0) / 1024))
        if load is not None:
            work += load
            work_known += 1
        if held is not None and (total := device.memory_total_mib):
            share += held / total
            held_known += 1
        if watts := device.power_w:
            power += watts
    worst = Condition.FAULT if bad else Condition.THROTTLED if slowed else Condition.OK
    if not up and not bad:
        worst = Condition.STALE
    return HostSums(
        int(up), 0, count, busy, idle if up else 0, bad, power, work, work_known, 100.0 * share,
        held_known, worst, tuple(sizes),
    )  # fmt: skip


def _sums_when_down(count: int, *, asleep: bool) -> HostSums:
    condition = Condition.ASLEEP if asleep else Condition.DOWN
    down, bad = (0, 0) if asleep else (1, count)
    return HostSums(0, down, count, 0, 0, bad, 0.0, 0.0, 0, 0.0, 0, condition)


_NO_SUMS = _sums_when_down(0, asleep=True)


def plain_sums(host: Host) -> HostSums | None:
    """Sum up a host that is up, with all figures of its devices reported and without faults: nearly
    every host. None for others."""
    busy = 0
    power = work = share = 0.0
    sizes: tuple[int, ...] = ()
    try:
        for device in host.devices:
            if (
                device.throttle or device.xid or device.ecc_uncorrected or device.lost
                or device.error or device.health or device.remap_failed or device.mig
            ):  # fmt: skip
                return None
            load, held = device.utilization, device.memory_used_mib
            work += load  # type: ignore[operator]
            share += held / device.memory_total_mib  # type: ignore[operator]
            power += device.power_w or 0.0
            if load >= BUSY_UTILIZATION or held > BUSY_MEMORY_MIB or device.processes:  # type: ignore[operator]
                busy += 1
            else:
                sizes += (round(device.memory_total_mib / 1024),)  # type: ignore[operator]
    except (TypeError, ZeroDivisionError):
        # A figure is not reported. To ask for each of them takes longer.
        return None
    count = len(host.devices)
    # As `HostSums(...)`, in half its time.
    return _new(
        HostSums,
        (1, 0, count, busy, count - busy, 0, power, work, count, 100.0 * share, count,
         _WELL, sizes),
    )  # fmt: skip


_new, _WELL = tuple.__new__, Condition.OK


def hottest_c(host: Host) -> float | None:
    """Return the highest temperature of a host's devices; None where none tells."""
    heats = [
        device.temperature_c
        for device in host.devices
        if device.temperature_c is not None and (not device.divided or is_faulty(device))
    ]
    return None if host.state is HostState.DOWN else max(heats, default=None)
