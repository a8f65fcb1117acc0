"""The fleet as a session sees it: the hosts' own snapshots, with what else is known of hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from gpuconsole.core.containers import Engine, Hosts
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot, Host


class Marks(Protocol):
    """What is known of hosts at one moment beside what they say themselves."""

    def mark(self, host: Host) -> Host:
        """Return a host's record with what is known of it; the same record where nothing is."""
        ...


Overlay = Callable[[], Marks | None]
"""Returns what is known now: equal while nothing changed, None while nothing was ever known."""


class FleetView:
    """Hosts with the marks of overlays in their snapshots. Implements `core.containers.Hosts`."""

    def __init__(
        self,
        hosts: Hosts,
        overlays: Sequence[Overlay],
        fence: Callable[[str, Engine], Engine] = lambda host, engine: engine,
    ) -> None:
        """A later one of `overlays` sees the marks of those before it; `fence` is put before the
        engine of each host."""
        self._hosts = hosts
        self._fence = fence
        self._overlays = overlays
        self._marks: tuple[Marks | None, ...] = (None,) * len(overlays)
        self._changes = 0
        self._made: tuple[FleetSnapshot, int, FleetSnapshot] | None = None
        self._marked: dict[str, tuple[Host, Host]] = {}

    async def start(self) -> None:
        """Begin to poll."""
        await self._hosts.start()

    async def close(self) -> None:
        """End all links."""
        await self._hosts.close()

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host."""
        return self._fence(host, await self._hosts.engine(host))

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Send a signal to a process of a host."""
        await self._hosts.signal(host, process, signal)

    def snapshot(self) -> FleetSnapshot:
        """Return the present snapshot; the same one while nothing changed."""
        marks = tuple(overlay() for overlay in self._overlays)
        if marks != self._marks:
            self._marks, self._changes = marks, self._changes + 1
        plain = self._hosts.snapshot()
        if not self._changes:
            return plain
        if self._made is None or self._made[0] is not plain or self._made[1] != self._changes:
            hosts = tuple(map(self._mark, plain.hosts))
            # Both only grow, so equal sums are equal snapshots.
            revision = plain.revision + self._changes
            self._made = (plain, self._changes, replace(plain, hosts=hosts, revision=revision))
        return self._made[2]

    def _mark(self, host: Host) -> Host:
        """Return a host's marked record; the same one while neither it nor its marks changed."""
        marked = host
        for marks in self._marks:
            marked = marked if marks is None else marks.mark(marked)
        if marked is host:
            self._marked.pop(host.name, None)
            return host
        before = self._marked.get(host.name)
        if before is None or before[0] is not host or before[1] != marked:
            before = (host, marked)
            self._marked[host.name] = before
        return before[1]
