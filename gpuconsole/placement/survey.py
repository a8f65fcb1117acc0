"""One pass over the fleet for one job: which devices would do, and what is wrong with the others.

A fleet has thousands of devices and a decision must not be felt, so the pass only sorts devices
into filters; sentences are made afterwards, for those that are shown. What can never change for a
job (back end, labels, capacity) is asked before what can (leases, memory held), so that the filter
also tells whether waiting would help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuconsole.core.catalogue import Catalogue, Spec
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.text import clean
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
    kind: int
    """Index of its kind."""
    fault: str
    """`host`, `engine` or `health` when the device cannot take any job now, else ""."""
    spare_mib: float | None
    """Memory beside what others hold and what stays free of everybody; None when unknown."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What one picture of the fleet says for every job; made once for a whole queue."""

    blocks: tuple[tuple[Spot, ...], ...]
    """Devices of one kind on one host."""
    silent: tuple[Host, ...]
    """Hosts whose devices are not known yet."""
    kinds: tuple[tuple[str, float | None, str, bool], ...]
    """Distinct kinds of device: model, memory (MiB), back end, whether divided by MIG."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What all devices of one kind have in common for one job."""

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
    """Devices kept for a job that waits for several, with that job's name."""
    layout: Layout
    threshold: float = 0.0
    """The lab's threshold, or the task's where it is lower."""
    kinds: list[Kind] = field(default_factory=list)
    eligible: list[Spot] = field(default_factory=list)
    refused: list[tuple[Spot, str]] = field(default_factory=list)
    preference_ends: float | None = None
    """Until when only preferred devices will do; None when the wait is over or pointless."""

    def usable_mib(self, spot: Spot) -> float:
        """Return the memory a job may fill: within the threshold and beside what others hold."""
        limit = self.kinds[spot.kind].limit_mib
        return 0.0 if limit is None or spot.spare_mib is None else min(limit, spot.spare_mib)

    def in_use(self, host: Host) -> int:
        """Return how many devices of a host are claimed or worked on."""
        claims = self.claims
        return sum(device.uuid in claims or bool(device.processes) for device in host.devices)


def lay_out(snapshot: FleetSnapshot) -> Layout:
    """Sort out what does not depend on a job."""
    kinds: dict[tuple[str, float | None, str, bool], int] = {}
    blocks: list[tuple[Spot, ...]] = []
    order = 0
    for host in snapshot.hosts:
        down = "host" if host.state is not HostState.UP else "engine" if host.engine_error else ""
        groups: dict[int, list[Spot]] = {}
        for device in host.devices:
            divided = device.mig and not device.uuid.startswith("MIG-")
            key = (device.model, device.memory_total_mib, device.backend, divided)
            fault = down or ("health" if health_fault(device) else "")
            kind = kinds.setdefault(key, len(kinds))
            spot = Spot(order, host, device, kind, fault, _spare_mib(device))
            groups.setdefault(kind, []).append(spot)
            order += 1
        blocks += map(tuple, groups.values())
    silent = tuple(host for host in snapshot.hosts if not host.devices)
    return Layout(tuple(blocks), silent, tuple(kinds))


def survey(
    request: Request,
    layout: Layout,
    claims: Mapping[str, Holder],
    policy: Policy,
    now: float,
    reserved: Mapping[str, str],
) -> Survey:
    """Sort all devices of the fleet for one job."""
    result = Survey(request, policy, now, claims, reserved, layout)
    result.threshold = request.task.threshold(policy.memory_threshold)
    result.kinds = [_kind(result, *kind) for kind in layout.kinds]
    unlabelled = _unlabelled(request, layout)
    result.preference_ends = _preference_ends(result, unlabelled)
    for block in layout.blocks:
        kind, host = result.kinds[block[0].kind], block[0].host
        code = "labels" if host.name in unlabelled else kind.permanent
        if code:
            result.refused.extend((spot, code) for spot in block)
            continue
        for spot in block:
            code = spot.fault or _taken(result, spot.device) or _lacking(result, spot, kind)
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


def _spare_mib(device: Device) -> float | None:
    total, used = device.memory_total_mib, device.memory_used_mib
    return None if total is None or used is None else total - used - RESERVE_SHARE * total


def _kind(result: Survey, model: str, total: float | None, backend: str, divided: bool) -> Kind:
    task, need = result.request.task, result.request.need_mib
    catalogue = Catalogue.load()
    limit = None if total is None else total * result.threshold
    if divided:
        permanent = "mig"
    elif backend != task.backend:
        permanent = "backend"
    elif need is not None and limit is not None and need > limit:
        permanent = "memory"
    else:
        permanent = ""
    names = enumerate(task.preferred_devices)
    ranks = (place for place, name in names if catalogue.matches(name, model, total))
    spec = catalogue.lookup(model, total, backend)
    return Kind(total, limit, permanent, next(ranks, None), spec)


def _unlabelled(request: Request, layout: Layout) -> frozenset[str]:
    """Return the hosts that lack a label of the task."""
    wanted = request.task.labels.items()
    if not wanted:
        return frozenset()
    hosts = {block[0].host.name: block[0].host for block in layout.blocks}
    return frozenset(
        name
        for name, host in hosts.items()
        if any(host.labels.get(key) != value for key, value in wanted)
    )


def _taken(result: Survey, device: Device) -> str:
    holder = result.claims.get(device.uuid)
    if holder is not None and holder.job != result.request.job:
        return "leased"
    return "reserved" if device.uuid in result.reserved else ""


def _lacking(result: Survey, spot: Spot, kind: Kind) -> str:
    need, exclusive = result.request.need_mib, result.request.task.exclusive
    if (exclusive or need is None) and not is_empty(spot.device):
        return "exclusive" if exclusive else "unknown"
    # That it is within the kind's limit is known already.
    if need is not None and (spot.spare_mib is None or need > spot.spare_mib):
        return "held"
    return "preferred" if result.preference_ends is not None and kind.rank is None else ""


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


def engine_fault(host: str, cause: str) -> str:
    """Return the sentence for a host whose engine cannot be asked because of `cause`."""
    why = clean(cause, 300).removeprefix(f"{host}, ").rstrip(".")
    return (
        f"{host}: its Docker engine does not answer: {why};"
        f" `gpuconsole check {host}` says what to do."
    )


def _preference_ends(result: Survey, unlabelled: frozenset[str]) -> float | None:
    """Return until when to insist on preferred devices; pointless if the fleet has none."""
    request = result.request
    ends = request.waiting_since + request.task.preference_timeout_s
    if not request.task.preferred_devices or result.now >= ends:
        return None
    wanted = {
        number
        for number, kind in enumerate(result.kinds)
        if kind.rank is not None and not kind.permanent
    }
    blocks = result.layout.blocks
    usable = any(b[0].kind in wanted and b[0].host.name not in unlabelled for b in blocks)
    return ends if wanted and usable else None


def time_left(ends: float, now: float) -> str:
    """Return the time until `ends` in words."""
    return format_duration(max(1.0, ends - now))
