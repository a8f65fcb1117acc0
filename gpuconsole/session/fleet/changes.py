"""What has changed of a fleet since a picture before: how it is sent to those who do not poll."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import FleetSnapshot, Host
from gpuconsole.core.util.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FleetChanges:
    """Hosts that changed; all of them where there was no picture before."""

    revision: int
    taken_at: float
    simulated: bool
    names: tuple[str, ...]
    """All hosts, in their order."""
    changed: tuple[Host, ...]
    leases: Mapping[str, tuple[Lease, ...]] = field(default_factory=dict)


def changes(
    before: FleetSnapshot | None, now: FleetSnapshot, leases: Mapping[str, tuple[Lease, ...]]
) -> FleetChanges:
    """Return what somebody lacks who has the picture `before`, None for none."""
    seen = {host.name: host for host in before.hosts} if before is not None else {}
    changed = tuple(host for host in now.hosts if seen.get(host.name) is not host)
    names = tuple(host.name for host in now.hosts)
    return FleetChanges(now.revision, now.taken_at, now.simulated, names, changed, dict(leases))


def applied(before: FleetSnapshot, fleet_changes: FleetChanges) -> FleetSnapshot:
    """Return the picture after reported changes."""
    hosts = {host.name: host for host in (*before.hosts, *fleet_changes.changed)}
    there = tuple(hosts[name] for name in fleet_changes.names if name in hosts)
    return FleetSnapshot(
        fleet_changes.revision, fleet_changes.taken_at, there, fleet_changes.simulated
    )
