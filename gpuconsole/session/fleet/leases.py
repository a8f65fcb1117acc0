"""The leases on all hosts as last seen: who else holds devices there, and who cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpuconsole.core.containers import CALIBRATION, MEASUREMENT, Hosts, Lease
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.clock import Clock
from gpuconsole.session.dispatch.slurm_jobs import without_clusters
from gpuconsole.session.fleet.silent_engines import Silences

REFRESH_S = 5.0
PARALLEL = 8
PATIENCE_S = 5.0
"""How long a refresh waits for an engine that is slow, or frozen, before it goes on without."""


class LeaseBoard:
    """Looks at the leases of hosts that are up, now and then, while somebody wants to know."""

    def __init__(self, hosts: Hosts, clock: Clock, silences: Silences) -> None:
        self._hosts = hosts
        self._clock = clock
        self.silences = silences
        self._seen: dict[str, tuple[float, tuple[Lease, ...]]] = {}
        self._looks: dict[str, tuple[float, asyncio.Task[None]]] = {}
        self._slots = asyncio.Semaphore(PARALLEL)

    def others(self, journal: str) -> Mapping[str, tuple[Lease, ...]]:
        """Return the leases of other journals, and of what is no job of this one, by host.

        A host speaks for its own devices alone: it cannot block those of another.
        """
        own = {
            host.name: {device.uuid for device in host.devices}
            for host in self._hosts.snapshot().hosts
            if host.name in self._seen
        }
        return {
            host: tuple(
                lease
                for lease in leases
                if lease.uuid in own[host]
                and (lease.journal != journal or lease.job.startswith((MEASUREMENT, CALIBRATION)))
            )
            for host, (_, leases) in self._seen.items()
            if host in own
        }

    def held_elsewhere(self, journal: str) -> int:
        """Return how many devices jobs of other journals hold, as last seen."""
        return len(
            {
                (host, lease.uuid)
                for host, (_, leases) in self._seen.items()
                for lease in leases
                if lease.journal != journal
            }
        )

    def seen(self) -> dict[str, tuple[Lease, ...]]:
        """Return all leases as last seen, by host."""
        return {host: leases for host, (_, leases) in self._seen.items()}

    def silent(self) -> Mapping[str, str]:
        """Return why an engine could not be asked lately, by host."""
        return self.silences.current()

    def forget(self, host: str) -> None:
        """Look at this host again at the next refresh: what was seen is outdated."""
        seen = self._seen.get(host)
        if seen is not None:
            self._seen[host] = (0.0, seen[1])

    async def refresh(self) -> None:
        """Look at the hosts with an old picture; one that cannot be queried keeps its last."""
        now = self._clock.now()
        for host in self._hosts.snapshot().hosts:
            wanted = host.state is HostState.UP and host.devices and not host.cluster
            due = now - self._seen.get(host.name, (0.0, ()))[0] >= REFRESH_S
            if wanted and due and host.name not in self._looks:
                self._looks[host.name] = (now, asyncio.ensure_future(self._look(host.name, now)))
        recent = [look for began, look in self._looks.values() if now - began < PATIENCE_S]
        if recent:
            await first(_all(recent), self._clock.sleep(PATIENCE_S))

    async def close(self) -> None:
        """Look no more."""
        await cancel_all(look for _, look in self._looks.values())

    async def _ask(self, name: str) -> tuple[Lease, ...]:
        engine = await self._hosts.engine(name)
        return await engine.leases()

    async def _look(self, name: str, now: float) -> None:
        try:
            answer = asyncio.ensure_future(self._ask(name))
            try:
                async with self._slots:
                    await first(_all([answer]), self._clock.sleep(PATIENCE_S))
                self._seen[name] = (now, await answer)
            finally:
                await cancel_all([answer])
            self.silences.heard(name)
        except Exception as error:
            # Whatever one host answers, placing on the others goes on.
            self.silences.note(name, error)
            # Not asked again each second: a host without Docker is no news.
            self._seen[name] = (now, self._seen.get(name, (0.0, ()))[1])
        finally:
            del self._looks[name]


async def _all(looks: Iterable[asyncio.Task[object]]) -> None:
    await asyncio.wait(set(looks))


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
