"""What one beat of the paint clock hands to a screen: the fleet, the jobs and the time, frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.incidents import Incident, IncidentState, Severity
from gpuconsole.core.jobs import Job
from gpuconsole.core.levels import Condition, condition, is_busy, memory_percent


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
    def of(cls, sums: Iterable[Sums]) -> Totals:
        """Add up the sums of hosts."""
        columns = tuple(zip(*sums, strict=True))
        return cls(*map(sum, columns)) if columns else cls()


Sums = tuple[int, int, int, int, int, int, float, float, int, float, int]
"""The fields of `Totals` for one host; plain, as there may be thousands."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A frozen view of everything a screen draws."""

    snapshot: FleetSnapshot = field(default_factory=FleetSnapshot)
    jobs: tuple[Job, ...] = ()
    now: float = 0.0
    totals: Totals = Totals()
    owners: Mapping[str, Job] = field(default_factory=dict)
    """Device UUID to the job whose attempt holds it."""
    users: Mapping[str, str] = field(default_factory=dict)
    """Device UUID to the user of that job, for filters."""

    incidents: tuple[Incident, ...] = ()
    """What is wrong, and what was lately."""

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """What is wrong and nobody has said anything of yet."""
        return tuple(
            one for one in self.incidents if one.state(self.now) is IncidentState.OPEN
        )

    @property
    def critical(self) -> int:
        """How many of them are critical."""
        return sum(one.severity is Severity.CRITICAL for one in self.open_incidents)

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest frame of any host."""
        times = [host.sampled_at for host in self.snapshot.hosts if host.sampled_at is not None]
        return max(0.0, self.now - max(times)) if times else None

    def job(self, job_id: str) -> Job | None:
        """Return the job of that id."""
        return next((job for job in self.jobs if job.id == job_id), None)

    def owner_name(self, device: Device) -> str:
        """Say who uses a device: its job, else the users of its processes, else nothing."""
        job = self.owners.get(device.uuid)
        if job is not None:
            return f"{job.task.name} ({job.user})"
        users = dict.fromkeys(process.user or "?" for process in device.processes)
        return ", ".join(users)


class Gallery:
    """Makes pictures, remembering what did not change since the last one."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[Host, Sums]] = {}
        self._jobs: tuple[Job, ...] = ()
        self._owners: dict[str, Job] = {}
        self._users: dict[str, str] = {}

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
        return Picture(snapshot, jobs, now, self._total(snapshot), self._owners, self._users)

    def _total(self, snapshot: FleetSnapshot) -> Totals:
        kept: dict[str, tuple[Host, Sums]] = {}
        for host in snapshot.hosts:
            known = self._hosts.get(host.name)
            kept[host.name] = known if known and known[0] is host else (host, _sums(host))
        self._hosts = kept
        return Totals.of(sums for _, sums in kept.values())


def host_totals(host: Host) -> Totals:
    """Sum up one host."""
    return Totals(*_sums(host))


def _sums(host: Host) -> Sums:
    busy = free = bad = 0
    power = used = used_known = work = work_known = 0.0
    for device in host.devices:
        state = condition(host, device)
        if state in (Condition.DOWN, Condition.FAULT):
            bad += 1
        elif is_busy(device):
            busy += 1
        elif state is not Condition.STALE:
            free += 1
        if state is Condition.DOWN:
            continue
        power += device.power_w or 0.0
        if device.utilization is not None:
            work, work_known = work + device.utilization, work_known + 1
        percent = memory_percent(device)
        if percent is not None:
            used, used_known = used + percent, used_known + 1
    return (
        int(host.state is HostState.UP),
        int(host.state is HostState.DOWN),
        len(host.devices),
        busy,
        free,
        bad,
        power,
        work,
        int(work_known),
        used,
        int(used_known),
    )
