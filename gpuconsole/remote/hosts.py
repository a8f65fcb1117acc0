"""The real fleet: one link and one poller a host, pictures that never block, engines on demand."""

from __future__ import annotations

import asyncio
import contextlib
import random as dice
import time
from collections.abc import Callable
from typing import Protocol

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Engine
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UnreachableError, UsageError
from gpuconsole.remote import process_signals
from gpuconsole.remote.inventory import HostEntry, Inventory
from gpuconsole.remote.links.connect_limits import ConnectGate
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.remote.links.protocol import Link
from gpuconsole.remote.links.ssh import SshLink
from gpuconsole.remote.links.wakeups import Wakeups
from gpuconsole.remote.polling.poller import HostPoller
from gpuconsole.remote.slurm.cluster import Cluster
from gpuconsole.remote.slurm.poller import SlurmPoller
from gpuconsole.waiting import aligned_sleep, within

TICK_S = 0.5
MANY_HOSTS = 64
"""With more hosts in the inventory those who read their lines are woken together. The agents of no
more speak at one moment, so that what they say is drawn once and not host by host."""
WAKE_WITHIN_S = 0.05
"""So much later a line may be read, and half of it a host's clock may be taken to be off."""
CLOSE_S = 4.0


class ClosableEngine(Engine, Protocol):
    """An engine that can be let go of."""

    async def close(self) -> None:
        """Let go of the engine; containers run on."""
        ...


EngineFactory = Callable[[Link, HostEntry], ClosableEngine]


class RemoteHosts:
    """The hosts of an inventory. Implements `core.containers.Hosts`.

    `clock` returns seconds since the epoch, `random` a number in [0, 1) for jitter.
    """

    def __init__(
        self,
        inventory: Inventory,
        settings: LabSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        random: Callable[[], float] = dice.random,
        engine_factory: EngineFactory | None = None,
    ) -> None:
        settings = settings or inventory.lab
        self.inventory = inventory
        self._clock = clock
        self._grace = settings.lease_grace
        self._engine_factory = engine_factory or self._docker
        self._engines: dict[str, ClosableEngine] = {}
        self._links = make_links(inventory, settings)
        self._clusters = {
            entry.name: Cluster(clock) for entry in inventory.hosts if entry.slurm is not None
        }
        self._random = random
        self._pollers = {
            entry.name: self._poller(entry, settings.poll.stale_after) for entry in inventory.hosts
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._revision = 0
        self._snapshot: FleetSnapshot | None = None

    async def start(self) -> None:
        """Begin to poll; returns at once."""
        if not self._tasks:
            runs = [poller.run() for poller in self._pollers.values()]
            self._tasks = [asyncio.ensure_future(work) for work in (*runs, self._tick())]

    async def close(self) -> None:
        """End all links and what runs at their far ends for us, within five seconds."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S / 2)
        engines, self._engines = self._engines, {}
        endings = [engine.close() for engine in engines.values()]
        endings += [link.close() for link in self._links.values()]
        with contextlib.suppress(asyncio.TimeoutError):
            await within(CLOSE_S / 2, asyncio.gather(*endings, return_exceptions=True))

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture; the same object while nothing changed."""
        if self._snapshot is None:
            hosts = tuple(host for poller in self._pollers.values() for host in poller.hosts)
            self._snapshot = FleetSnapshot(self._revision, self._clock(), hosts)
        return self._snapshot

    def link(self, host: str) -> Link:
        """Return the link to a host; UsageError when the inventory does not name it."""
        self._entry(host)
        return self._links[host]

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host; UnreachableError when it cannot be reached now."""
        entry = self._entry(host)
        link = self._links[host]
        if isinstance(link, SshLink) and not link.connected:
            state = self._pollers[host].host
            if self._tasks and state.state is HostState.DOWN:
                # The caller must not wait for a host that is known to be away.
                raise UnreachableError(
                    "Host is down", state.error or msg("{host} is down.", host=host)
                )
            await link.connect()
        if host not in self._engines:
            make = self._engine_factory if entry.slurm is None else self._slurm
            self._engines[host] = make(link, entry)
        return self._engines[host]

    def hurry(self, host: str) -> None:
        """Look for a host at once that is expected back, instead of after its back-off."""
        poller = self._pollers.get(host)
        if isinstance(poller, HostPoller):
            poller.hurry()

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Send a signal to a process of a host, if it still is the one that is meant."""
        await process_signals.send(self.link(host), host, process, signal)

    def _poller(self, entry: HostEntry, stale_after: float) -> HostPoller | SlurmPoller:
        link, clock, random = self._links[entry.name], self._clock, self._random
        if entry.slurm is not None:
            cluster = self._clusters[entry.name]
            return SlurmPoller(entry, link, cluster, self._changed, clock=clock, random=random)
        together = len(self.inventory.hosts) <= MANY_HOSTS
        return HostPoller(
            entry, link, self._changed, clock=clock, random=random, stale_after=stale_after,
            together=together,
        )  # fmt: skip

    def _slurm(self, link: Link, entry: HostEntry) -> ClosableEngine:
        from gpuconsole.remote.slurm.engine import SlurmEngine

        assert entry.slurm is not None
        return SlurmEngine(link, entry.name, entry.slurm, self._clusters[entry.name])

    def _docker(self, link: Link, entry: HostEntry) -> ClosableEngine:
        # Only a session that touches containers pays for the import.
        from gpuconsole.remote.docker.engine import DockerEngine

        return DockerEngine(
            link,
            entry.name,
            entry.docker_socket,
            lease_grace_s=self._grace,
            interface=entry.interface,
            road=entry.jump or "",
        )

    def _refuse_node(self, host: str) -> None:
        """Raise RefusedError for a node of a cluster: only Slurm acts there."""
        cluster, _, node = host.partition("/")
        if node and cluster in self._clusters:
            raise RefusedError(
                "Slurm runs this node",
                msg(
                    "{host} is a node of {cluster}; the console has no way to it.",
                    host=host,
                    cluster=cluster,
                ),
                msg("Use Slurm's own commands on {cluster}, such as scancel.", cluster=cluster),
            )

    def _entry(self, host: str) -> HostEntry:
        self._refuse_node(host)
        entry = self.inventory.host(host)
        if entry is None:
            names = ", ".join(self._pollers)
            raise UsageError(
                "No such host",
                msg("{name} is not in the inventory.", name=host),
                msg("Known: {known}", known=names),
            )
        return entry

    def _changed(self, host: Host) -> None:
        self._revision += 1
        self._snapshot = None

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await aligned_sleep(TICK_S)
            now = loop.time()
            for poller in self._pollers.values():
                poller.tick(now)


def make_links(inventory: Inventory, settings: LabSettings) -> dict[str, Link]:
    """Return a link for each host and each jump host, not yet connected.

    Hosts behind one jump host share its connection, which is the polled one if it has GPUs too.
    """
    gate = ConnectGate(settings.poll.parallel_connects)
    wakeups = Wakeups(WAKE_WITHIN_S) if len(inventory.hosts) > MANY_HOSTS else None
    links: dict[str, Link] = {}

    def ssh(entry: HostEntry) -> SshLink:
        existing = links.get(entry.name)
        if isinstance(existing, SshLink):
            return existing
        jump = None
        if entry.jump is not None:
            alias = HostEntry(entry.jump, address=entry.jump, known_hosts=entry.known_hosts)
            jump = ssh(inventory.host(entry.jump) or alias)
        patience = settings.poll.connect_timeout
        link = SshLink(entry, jump=jump, gate=gate, timeout=patience, wakeups=wakeups)
        links[entry.name] = link
        return link

    for entry in inventory.hosts:
        if entry.local:
            links[entry.name] = LocalLink(entry.name)
        else:
            ssh(entry)
    return links
