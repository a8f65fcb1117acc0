"""A cluster followed for ever: Slurm is asked for its nodes and jobs now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.inventory import HostEntry, unread
from gpuconsole.remote.links.protocol import Link
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.slurm.calls import SlurmCalls
from gpuconsole.remote.slurm.cluster import Cluster
from gpuconsole.remote.slurm.nodes import hosts_of, out_of_sight

LONGEST_BACKOFF_S = 30.0


class SlurmPoller:
    """Follows one cluster and publishes its hosts whenever they changed."""

    def __init__(
        self,
        entry: HostEntry,
        link: Link,
        cluster: Cluster,
        publish: Callable[[Host], None],
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        assert entry.slurm is not None
        self.entry = entry
        self._link = link
        self._cluster = cluster
        self._publish = publish
        self._clock = clock
        self._random = random
        self._models = entry.slurm.devices
        self._calls = SlurmCalls(link, entry.name, entry.slurm)
        self.hosts: tuple[Host, ...] = (unread(entry),)

    @property
    def host(self) -> Host:
        """The login node's record."""
        return self.hosts[0]

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        failures = 0
        while True:
            try:
                await self._look()
                failures = 0
                await asyncio.sleep(self.entry.poll_interval)
            except Exception as error:
                failures += 1
                self._cluster.lost()
                self._away(_reason(error))
                longest = min(LONGEST_BACKOFF_S, 2.0 ** min(failures, 8))
                await asyncio.sleep(self._random() * longest)

    def tick(self, now: float) -> None:
        """Nothing to notice between two looks: each ends by itself, or by its time limit."""

    async def _look(self) -> None:
        if isinstance(self._link, SshLink):
            await self._link.connect()
        picture = await self._calls.picture()
        now = self._clock()
        self._cluster.saw(picture, now)
        self.hosts = hosts_of(
            unread(self.entry), picture, self._models, self._cluster.runs_by_number(), now
        )
        self._publish(self.host)

    def _away(self, error: str) -> None:
        first, *nodes = self.hosts
        login = replace(first, state=HostState.DOWN, error=error)
        away = msg("{host} cannot be asked about it", host=self.entry.name)
        self.hosts = (login, *out_of_sight(tuple(nodes), HostState.STALE, away))
        self._publish(login)


def _reason(error: Exception) -> str:
    if isinstance(error, ConsoleError):
        return f"{error.title}: {error.message}" + (f" {error.hint}" if error.hint else "")
    # A fault of ours costs this cluster its picture, is shown, and is tried again like any other.
    return clean(f"internal error: {type(error).__name__}: {error}", 300)
