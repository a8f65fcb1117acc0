"""Where devices with so much free memory are now: `4x24`, `2 x 40 GiB nvlink`. Pure.

Only unused devices count: not held by a lease, without others' processes, healthy, on a host that
takes jobs. Places that do not fit come with a reason, so that an answer of "nowhere" names the
nearest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.placement.engine.board import Spot
from gpuconsole.placement.engine.device_state import health_fault, host_fault, is_empty
from gpuconsole.placement.engine.topology import closest
from gpuconsole.placement.model import Place

NOMINAL = 0.93
"""Share of its nominal memory that a free card tells at least: ECC and the driver take the rest
(an A10 of 24 GB tells 22.5 GiB)."""
MOST = 1024
_ASKED = re.compile(
    r"\s*(?:(\d{1,4})\s*[x*×]\s*)?(\d{1,4}(?:\.\d+)?)\s*(?:g|gb|gib)?\s*(nvlink|linked)?\s*\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Ask:
    """So many devices with so much free memory each, joined by NVLink where asked."""

    count: int
    gib: float
    linked: bool = False

    def __str__(self) -> str:
        return f"{self.count} x {self.gib:g} GiB" + (" nvlink" if self.linked else "")


@dataclass(frozen=True, slots=True)
class Nearest:
    """The host that comes closest where nothing fits, and why its other devices will not do."""

    host: str
    devices: tuple[Device, ...]
    """Those that would do."""
    missing: tuple[tuple[int, str], ...]
    """Device index and reason, for the others."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Where it fits: each place alone, or, where no host has enough, all of them together."""

    ask: Ask
    places: tuple[Place, ...] = ()
    together: bool = False
    nearest: Nearest | None = None

    @property
    def uuids(self) -> frozenset[str]:
        """The devices that answer."""
        return frozenset(device.uuid for place in self.places for device in place.devices)


def read(text: str) -> Ask:
    """Read `4x24`, `4 x 24GiB nvlink` or `24`; ValueError, worded for a person, when it is none."""
    match = _ASKED.match(text)
    if match is None:
        raise ValueError("Write how many and how much: 4x24, or 2 x 40 GiB nvlink.")
    count, gib = int(match[1] or 1), float(match[2])
    if not 1 <= count <= MOST or gib <= 0:
        raise ValueError(f"Ask for 1 to {MOST} devices and for more than 0 GiB.")
    return Ask(count, gib, bool(match[3]))


def where(ask: Ask, snapshot: FleetSnapshot, held: Mapping[str, str]) -> Answer:
    """Return where an ask fits; `held` maps the UUIDs of claimed devices to who holds them.

    A place has exactly the devices asked for, those with the best links among them; places with
    the least left over come first, so that large holes stay whole.
    """
    usable: list[tuple[int, Host, list[Device]]] = []
    for host in snapshot.hosts:
        free = [device for device in host.devices if not _unfit(ask, host, device, held)]
        if free:
            usable.append((len(free), host, free))
    alone = [
        (left, Place(host.name, group))
        for left, host, free in usable
        if (group := _group(free, ask.count, linked=ask.linked))
    ]
    if alone:
        alone.sort(key=lambda option: option[0])
        return Answer(ask, tuple(place for _, place in alone))
    if not ask.linked and sum(count for count, _, _ in usable) >= ask.count:
        return Answer(ask, _spread(ask.count, usable), together=True)
    return Answer(ask, nearest=_nearest(ask, snapshot, held))


def _unfit(ask: Ask, host: Host, device: Device, held: Mapping[str, str]) -> str:
    """Return why a device will not do, in a few words, or ""."""
    if fault := host_fault(host):
        return {"host": f"{host.state.value}", "engine": "Docker is silent"}.get(fault, fault)
    if device.lost or health_fault(device, host):
        return "faulty"
    if device.divided:
        return "cut into slices"
    if device.parent_uuid and ask.count > 1:
        return "a slice"
    if user := held.get(device.uuid):
        return msg("held by {user}", user=user)
    total = device.memory_total_mib
    if total is not None and total < _needed_mib(ask):
        return f"has {total / 1024:.0f} GiB"
    if device.memory_free_mib is None:
        return "does not tell its memory"
    if not is_empty(device) or device.utilization:
        users = {process.user or "?" for process in device.processes}
        return msg("used by {user}", user=", ".join(sorted(users))) if users else "in use"
    return "" if device.memory_free_mib >= _needed_mib(ask) else "not enough free"


def _needed_mib(ask: Ask) -> float:
    return ask.gib * 1024.0 * NOMINAL


def _group(free: Sequence[Device], count: int, *, linked: bool) -> tuple[Device, ...]:
    """Return so many devices of a host with the best links among them, or none."""
    if len(free) < count:
        return ()
    if linked:
        return _island(free, count)
    spots = [Spot(at, device, 0, "", "", None) for at, device in enumerate(free)]
    return tuple(spot.device for spot in closest(spots, count)[0])


def _island(free: Sequence[Device], count: int) -> tuple[Device, ...]:
    """Return devices of which each reaches each by NVLink, or none."""
    for start in free:
        group = [start]
        for device in free:
            if device is not start and all(_joined(device, other) for other in group):
                group.append(device)
        if len(group) >= count:
            return tuple(sorted(group[:count], key=lambda device: device.index))
    return ()


def _joined(device: Device, other: Device) -> bool:
    return any(peer.uuid == other.uuid and peer.kind.startswith("NV") for peer in device.peers)


def _spread(count: int, usable: Sequence[tuple[int, Host, list[Device]]]) -> tuple[Place, ...]:
    """Take from the hosts with most free devices first: the fewest hosts."""
    places: list[Place] = []
    for _, host, free in sorted(usable, key=lambda each: -each[0]):
        if count <= 0:
            break
        places.append(Place(host.name, _group(free, min(count, len(free)), linked=False)))
        count -= len(free)
    return tuple(places)


def _nearest(ask: Ask, snapshot: FleetSnapshot, held: Mapping[str, str]) -> Nearest | None:
    best: Nearest | None = None
    for host in snapshot.hosts:
        reasons = [(device, _unfit(ask, host, device, held)) for device in host.devices]
        good = tuple(device for device, reason in reasons if not reason)
        missing = tuple((device.index, reason) for device, reason in reasons if reason)
        if reasons and (best is None or _rank(good, missing) > _rank(best.devices, best.missing)):
            best = Nearest(host.name, good, missing)
    return best


def _rank(good: Sequence[Device], missing: Sequence[tuple[int, str]]) -> tuple[int, int]:
    """Most devices that would do; then most that wait for somebody only."""
    soon = sum(reason.startswith(("held", "used")) for _, reason in missing)
    return len(good), soon
