"""One pass over the fleet for one job: which devices would do, and what is wrong with the others.

A fleet has thousands of devices and a decision must not be felt, so the pass only sorts devices
into filters; sentences are made afterwards, for those that are shown. What can never change for a
job (back end, labels, capacity) is asked before what can (leases, memory held), so that the filter
also tells whether waiting would help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuconsole.core.catalogue import Catalogue, Spec
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.units import format_duration
from gpuconsole.placement.model import Holder, Policy, Request

RESERVE_SHARE = 0.02
"""Share of a device's memory that stays free beside what others hold."""
EMPTY_SHARE = 0.10
"""A device below this share without processes is empty: drivers hold some memory on their own
(an idle Ascend 910 shows 8 %)."""
FATAL_XIDS = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140, 143})
"""XIDs after which a device needs a reset, a repair, or a reboot of its host (NVIDIA's list)."""
BAD_THROTTLE = frozenset({"hw-thermal", "power-brake"})

PERMANENT = frozenset({"mig", "backend", "labels", "memory"})
"""Filters that waiting does not lift."""


class Spot(NamedTuple):
    """A device at its place."""

    order: int
    """Position in the order of the inventory."""
    host: Host
    device: Device
    kind: Kind


@dataclass(slots=True)
class Kind:
    """What all devices of one model and size have in common for one job."""

    model: str
    total_mib: float | None
    limit_mib: float | None
    """Threshold times capacity."""
    permanent: str
    """The filter that rules the kind out for good, or ""."""
    rank: int | None
    """Place in the task's preferred devices."""
    spec: Spec | None


@dataclass(slots=True)
class Survey:
    """Devices of the fleet sorted by what holds them back from one job."""

    request: Request
    policy: Policy
    now: float
    claims: Mapping[str, Holder]
    reserved: Mapping[str, str]
    eligible: list[Spot] = field(default_factory=list)
    refused: list[tuple[Spot, str]] = field(default_factory=list)
    silent: list[Host] = field(default_factory=list)
    """Hosts whose devices are not known yet."""
    preference_ends: float | None = None
    """Until when only preferred devices will do; None when the wait is over or pointless."""
    busy: dict[str, float] = field(default_factory=dict)
    """Share of each host's devices that are in use, by host name."""
    threshold: float = field(init=False)
    """The lab's threshold, or the task's where it is lower."""

    def __post_init__(self) -> None:
        self.threshold = min(self.policy.memory_threshold, self.request.task.memory_threshold)


def survey(
    request: Request,
    snapshot: FleetSnapshot,
    claims: Mapping[str, Holder],
    policy: Policy,
    now: float,
    reserved: Mapping[str, str] | None = None,
) -> Survey:
    """Sort all devices of the fleet; `reserved` maps devices to a job that they are kept for."""
    result = Survey(request, policy, now, claims, reserved or {})
    spots = list(_spots(result, snapshot))
    result.preference_ends = _preference_ends(request, spots, now)
    empty_needed = request.task.exclusive or request.need_mib is None
    for spot in spots:
        host, device, kind = spot[1], spot[2], spot[3]
        code = _labels_code(request, host) or kind.permanent
        if not code:
            code = "host" if host.state is not HostState.UP else _temporary(result, device)
        if not code and empty_needed and not is_empty(device):
            code = "exclusive" if request.task.exclusive else "unknown"
        if not code and request.need_mib is not None:
            code = "" if request.need_mib <= usable_mib(device, result.threshold) else "held"
        if not code and result.preference_ends is not None and kind.rank is None:
            code = "preferred"
        if code:
            result.refused.append((spot, code))
        else:
            result.eligible.append(spot)
    return result


def is_empty(device: Device) -> bool:
    """Tell whether nobody uses a device, as far as can be seen."""
    total, used = device.memory_total_mib, device.memory_used_mib
    if total is None or used is None:
        return False
    return not device.processes and used <= EMPTY_SHARE * total


def usable_mib(device: Device, threshold: float) -> float:
    """Return the memory a job may fill: within the threshold and beside what others hold."""
    total, used = device.memory_total_mib, device.memory_used_mib
    if total is None or used is None:
        return 0.0
    return min(threshold * total, total - used - RESERVE_SHARE * total)


def _spots(result: Survey, snapshot: FleetSnapshot) -> Iterator[Spot]:
    kinds: dict[tuple[str, float | None, str, bool], Kind] = {}
    claims = result.claims
    order = 0
    for host in snapshot.hosts:
        if not host.devices:
            result.silent.append(host)
            continue
        in_use = 0
        for device in host.devices:
            parent = device.mig and not device.uuid.startswith("MIG-")
            key = (device.model, device.memory_total_mib, device.backend, parent)
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = _kind(result, device, parent)
            in_use += device.uuid in claims or bool(device.processes)
            yield Spot(order, host, device, kind)
            order += 1
        result.busy[host.name] = in_use / len(host.devices)


def _kind(result: Survey, device: Device, mig_parent: bool) -> Kind:
    task, need = result.request.task, result.request.need_mib
    catalogue = Catalogue.load()
    total = device.memory_total_mib
    limit = None if total is None else total * result.threshold
    if mig_parent:
        permanent = "mig"
    elif device.backend != task.backend:
        permanent = "backend"
    elif need is not None and limit is not None and need > limit:
        permanent = "memory"
    else:
        permanent = ""
    names = enumerate(task.preferred_devices)
    ranks = (place for place, name in names if catalogue.matches(name, device.model, total))
    spec = catalogue.lookup(device.model, total, device.backend)
    return Kind(device.model, total, limit, permanent, next(ranks, None), spec)


def _labels_code(request: Request, host: Host) -> str:
    wanted = request.task.labels
    if wanted and any(host.labels.get(key) != value for key, value in wanted.items()):
        return "labels"
    return ""


def _temporary(result: Survey, device: Device) -> str:
    if health_fault(device):
        return "health"
    holder = result.claims.get(device.uuid)
    if holder is not None and holder.job != result.request.job:
        return "leased"
    return "reserved" if device.uuid in result.reserved else ""


def health_fault(device: Device) -> str:
    """Return what is wrong with a device, or ""."""
    if device.lost:
        return "has dropped off the bus; its host needs a look"
    if device.ecc_uncorrected:
        return f"has {device.ecc_uncorrected} uncorrected memory errors; reset or replace it"
    if device.xid in FATAL_XIDS:
        return f"reported XID {device.xid}; reset it before use"
    if device.throttle and (bad := BAD_THROTTLE.intersection(device.throttle)):
        heat = "" if device.temperature_c is None else f" at {device.temperature_c:.0f} °C"
        return f"is slowed down by {' and '.join(sorted(bad))}{heat}; check cooling and supply"
    return ""


def _preference_ends(request: Request, spots: list[Spot], now: float) -> float | None:
    """Return until when to insist on preferred devices; pointless if the fleet has none."""
    ends = request.waiting_since + request.task.preference_timeout_s
    if not request.task.preferred_devices or now >= ends:
        return None
    usable = any(
        spot.kind.rank is not None
        and not spot.kind.permanent
        and not _labels_code(request, spot.host)
        for spot in spots
    )
    return ends if usable else None


def time_left(ends: float, now: float) -> str:
    """Return the time until `ends` in words."""
    return format_duration(max(1.0, ends - now))
