"""When a suspended host is worth resuming.

Pure: times are arguments, and the caller's planner says where jobs would start with a host resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import cast

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.devices.host_power import Elastic
from gpuconsole.core.fleet import Backend, Device, FleetSnapshot, Host, HostFacts, HostState
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import sentences

HOUR_S = 3600.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 3600.0
"""Rest after a first failed wake, and the longest after several."""
MOST_TRIED = 8
"""Sleeping hosts that are tried in a plan at one look, the cheapest first."""

Landing = Callable[[FleetSnapshot], Mapping[str, Collection[str]]]
"""Where waiting jobs would start in a picture: the hosts of each, by job."""


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of a host's waking and sleeping. Times are seconds since the epoch."""

    phase: str = "awake"
    """`awake`, `waking`, `sleeping` or `asleep`."""
    since: float = 0.0
    wakes: tuple[float, ...] = ()
    """When it was woken, within the last day."""
    took: tuple[float, ...] = ()
    """Seconds that its last wakes took."""
    failures: int = 0
    """Wakes that failed one after another."""
    try_after: float = 0.0
    error: str = ""
    """How the last wake or sleep failed."""
    jobs: tuple[str, ...] = ()
    """For which jobs it is being woken."""
    wanted: tuple[str, ...] = ()
    """Jobs that could start were it awake, though it may not be woken."""
    too_dear: bool = False
    """Whether its price keeps it asleep."""
    lease: str = ""
    """The claim that keeps others from a host which is put to sleep."""
    devices: tuple[Device, ...] = ()
    """What it had when it was last awake, empty."""
    facts: HostFacts = field(default_factory=HostFacts)


def typical_s(limits: Elastic, past: Past) -> float:
    """Return how long waking takes: the middle of what was seen, else what the inventory says."""
    if not past.took:
        return limits.wake_s
    return sorted(past.took)[len(past.took) // 2]


def pause_s(failures: int) -> float:
    """Return how long to rest after so many failed wakes."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * float(2 ** min(max(0, failures - 1), 10)))


def may_wake(limits: Elastic, past: Past, now: float) -> str:
    """Return why a host is not to be woken now, as a sentence; "" when it may be."""
    if now < past.try_after:
        left = format_duration(past.try_after - now)
        return f"It did not wake; it is tried again in {left}."
    recent = [at for at in past.wakes if now - at < HOUR_S]
    if len(recent) >= limits.wakes_per_hour:
        left = format_duration(max(1.0, min(recent) + HOUR_S - now))
        times = "once" if len(recent) == 1 else f"{len(recent)} times"
        return f"It was woken {times} within an hour, its limit; it may be again in {left}."
    return ""


def bar_words(limits: Elastic, past: Past, now: float) -> str:
    """Say why a sleeping host that jobs would need is not woken; "" when it soon may be."""
    dear = "It would cost more in an hour than `elastic_price` leaves." if past.too_dear else ""
    return sentences(may_wake(limits, past, now), dear)


def price_of(host: Host) -> float:
    """Return what a host costs in an hour while it is awake, by the price of its devices."""
    return (host.price_per_hour or 0.0) * max(1, len(host.devices))


def awake_as(host: Host, past: Past, limits: Elastic) -> Host:
    """Return a sleeping host as it would be: up, with all its devices empty."""
    devices = past.devices or _said(host, limits)
    return replace(
        host,
        state=HostState.UP,
        devices=devices,
        facts=past.facts,
        error="",
        power="",
        engine_error="",
    )


def _said(host: Host, limits: Elastic) -> tuple[Device, ...]:
    """Return the devices that the inventory says a host has."""
    spec = Catalogue.load().lookup(limits.model) if limits.model else None
    total = spec.memory_gib * 1024.0 if spec is not None and spec.memory_gib else None
    backend = spec.backend if spec is not None and spec.backend else "gpu"
    return tuple(
        Device(
            uuid=f"asleep-{host.name}-{index}",
            index=index,
            model=limits.model,
            backend=cast(Backend, backend),
            memory_total_mib=total,
            memory_used_mib=None if total is None else 0.0,
        )
        for index in range(limits.devices)
    )


def to_wake(
    snapshot: FleetSnapshot,
    sleeping: Sequence[Host],
    landing: Landing,
    budget: float | None,
) -> dict[str, tuple[str, ...]]:
    """Return the hosts to resume so that waiting jobs can start, with those jobs.

    `sleeping` are hosts as they would be after resuming, `budget` what may still be spent in an
    hour (None: no limit). The cheapest sufficient host is taken; several hosts together only if no
    single one is sufficient.
    """
    if not sleeping:
        return {}
    chosen: dict[str, tuple[str, ...]] = {}
    awake: list[Host] = []
    served = set(landing(snapshot))
    for host in _cheapest(sleeping):
        if budget is not None and price_of(host) > budget:
            continue
        landings = landing(with_awake(snapshot, [*awake, host]))
        # Nothing else has changed: what starts now starts because of it, wherever that may be.
        jobs = tuple(job for job in landings if job not in served)
        if not jobs:
            continue
        chosen[host.name] = jobs
        served.update(jobs)
        awake.append(host)
        budget = None if budget is None else budget - price_of(host)
    return chosen or _together(snapshot, sleeping, landing, budget)


def _together(
    snapshot: FleetSnapshot, sleeping: Sequence[Host], landing: Landing, budget: float | None
) -> dict[str, tuple[str, ...]]:
    """Return the hosts of the first job that starts only when several are awake."""
    if len(sleeping) < 2:
        return {}
    served = set(landing(snapshot))
    names = {host.name for host in sleeping}
    for job, hosts in landing(with_awake(snapshot, sleeping)).items():
        needed = [host for host in sleeping if host.name in names & set(hosts)]
        cost = sum(map(price_of, needed))
        if job not in served and needed and (budget is None or cost <= budget):
            return {host.name: (job,) for host in needed}
    return {}


def would_do(
    snapshot: FleetSnapshot, barred: Sequence[Host], landing: Landing
) -> dict[str, tuple[str, ...]]:
    """Return the hosts of which one alone, were it awake, would let jobs start, on it or where it
    makes room, with those jobs. The cheapest are looked at."""
    if not barred:
        return {}
    served = set(landing(snapshot))
    jobs_by_host: dict[str, tuple[str, ...]] = {}
    for host in _cheapest(barred):
        jobs = tuple(job for job in landing(with_awake(snapshot, [host])) if job not in served)
        if jobs:
            jobs_by_host[host.name] = jobs
    return jobs_by_host


def _cheapest(hosts: Sequence[Host]) -> list[Host]:
    return sorted(hosts, key=lambda host_: (price_of(host_), host_.name))[:MOST_TRIED]


def with_awake(snapshot: FleetSnapshot, awake: Sequence[Host]) -> FleetSnapshot:
    """Return a picture in which these hosts stand in place of those of their names."""
    by_name = {host.name: host for host in awake}
    hosts = tuple(by_name.get(host.name, host) for host in snapshot.hosts)
    return replace(snapshot, hosts=hosts)


def in_use(host: Host) -> str:
    """Return what of a host's own picture shows that somebody uses it, or ""."""
    for device in host.devices:
        if device.processes:
            return f"device {device.index} has processes"
        if (device.utilization or 0.0) > 0.0:
            return f"device {device.index} is busy"
    return ""
