"""The real hosts, with links that are imported only on first use.

SSH takes a third of the console's start to import. So that the first picture need not wait for it,
the hosts of the inventory are shown as connecting until then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Engine
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot
from gpuconsole.remote.inventory import Inventory, unread

if TYPE_CHECKING:
    from gpuconsole.remote.hosts import RemoteHosts


class LazyHosts:
    """Implements `core.containers.Hosts` over an inventory."""

    def __init__(self, inventory: Inventory, settings: LabSettings) -> None:
        self._inventory = inventory
        self._settings = settings
        self._hosts: RemoteHosts | None = None
        self._first = FleetSnapshot(hosts=tuple(map(unread, inventory.hosts)))

    async def start(self) -> None:
        """Import what the links need beside the event loop, then begin to poll."""
        await asyncio.to_thread(_imported)
        await self._made().start()

    async def close(self) -> None:
        """End all links, if any were made."""
        if self._hosts is not None:
            await self._hosts.close()

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture: until the start that of the inventory alone."""
        return self._first if self._hosts is None else self._hosts.snapshot()

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host."""
        return await self._made().engine(host)

    def hurry(self, host: str) -> None:
        """Look at once for a host that is expected back."""
        if self._hosts is not None:
            self._hosts.hurry(host)

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Send a signal to a process of a host."""
        await self._made().signal(host, process, signal)

    def _made(self) -> RemoteHosts:
        if self._hosts is None:
            from gpuconsole.remote.hosts import RemoteHosts

            self._hosts = RemoteHosts(self._inventory, self._settings)
        return self._hosts


def _imported() -> None:
    import gpuconsole.remote.hosts  # noqa: F401
