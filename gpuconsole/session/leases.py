"""The leases on all hosts as last seen: who else holds devices there, and who cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from gpuconsole.core.containers import Hosts, Lease
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.errors import ConsoleError
from gpuconsole.session.clock import Clock
from gpuconsole.session.clusters import without_clusters

REFRESH_S = 5.0
PARALLEL = 8
SILENT_S = 60.0
"""How long a host is left out after its engine could not be asked, if nobody asks it again."""
BELIEVED_S = 10.0
"""An engine that answers is trusted again so long after it last did not: one that takes some
calls and drops others must not get a job every few seconds."""


class LeaseBoard:
    """Looks at the leases of hosts that are up, now and then, while somebody wants to know."""

    def __init__(self, hosts: Hosts, clock: Clock) -> None:
        self._hosts = hosts
        self._clock = clock
        self._seen: dict[str, tuple[float, tuple[Lease, ...]]] = {}
        self._silent: dict[str, tuple[float, str]] = {}
        self._slots = asyncio.Semaphore(PARALLEL)

    def others(self, journal: str) -> Mapping[str, tuple[Lease, ...]]:
        """Return the leases of other journals, by host.

        A host speaks for its own devices alone: it cannot block those of another.
        """
        own = {
            host.name: {device.uuid for device in host.devices}
            for host in self._hosts.snapshot().hosts
            if host.name in self._seen
        }
        return {
            host: tuple(
                lease for lease in leases if lease.journal != journal and lease.uuid in own[host]
            )
            for host, (_, leases) in self._seen.items()
            if host in own
        }

    def seen(self) -> dict[str, tuple[Lease, ...]]:
        """Return all leases as last seen, by host."""
        return {host: leases for host, (_, leases) in self._seen.items()}

    def silent(self) -> Mapping[str, str]:
        """Return why an engine could not be asked lately, by host."""
        now = self._clock.now()
        return {
            host: cause for host, (at, cause) in self._silent.items() if 0.0 <= now - at < SILENT_S
        }

    def silence(self, host: str, error: Exception) -> None:
        """Note why a host's engine could not be asked: no job is placed there for a while."""
        told = error.message if isinstance(error, ConsoleError) else ""
        cause = told or f"its answer is not understood: {error!r}"
        self._silent[host] = (self._clock.now(), cause)

    def forget(self, host: str) -> None:
        """Look at this host again at the next refresh: what was seen is outdated."""
        found = self._seen.get(host)
        if found is not None:
            self._seen[host] = (0.0, found[1])

    async def refresh(self) -> None:
        """Look at the hosts whose picture is old; one that cannot be asked keeps its last."""
        now = self._clock.now()
        due = [
            host.name
            for host in self._hosts.snapshot().hosts
            if host.state is HostState.UP
            and host.devices
            and not host.cluster
            and now - self._seen.get(host.name, (0.0, ()))[0] >= REFRESH_S
        ]
        await asyncio.gather(*(self._look(name, now) for name in due))

    async def _look(self, name: str, now: float) -> None:
        async with self._slots:
            try:
                engine = await self._hosts.engine(name)
                self._seen[name] = (now, await engine.leases())
                if now - self._silent.get(name, (0.0, ""))[0] >= BELIEVED_S:
                    self._silent.pop(name, None)
            except Exception as error:
                # Whatever one host answers, placing on the others goes on.
                self.silence(name, error)
                # Not asked again each second: a host without Docker is no news.
                self._seen[name] = (now, self._seen.get(name, (0.0, ()))[1])


def marked(snapshot: FleetSnapshot, silent: Mapping[str, str]) -> FleetSnapshot:
    """Return the picture for placement, in which hosts with a silent engine say so."""
    snapshot = without_clusters(snapshot)
    if not silent:
        return snapshot
    hosts = tuple(
        replace(host, engine_error=silent[host.name]) if host.name in silent else host
        for host in snapshot.hosts
    )
    return replace(snapshot, hosts=hosts)
