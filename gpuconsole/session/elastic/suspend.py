"""Suspending a host without losing work.

All its devices are claimed first, as a job would, so that no console can start anything there
meanwhile.
"""

from __future__ import annotations

from gpuconsole.core.containers import Lease
from gpuconsole.core.devices.host_power import Power, TellsRunning
from gpuconsole.core.fleet import Host
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError, LeaseTakenError
from gpuconsole.placement.elastic.wake import in_use
from gpuconsole.session.context import Context
from gpuconsole.state import new_nonce

PREFIX = "sleep-"
"""How the name of a claim begins that is no job's."""


class Falling:
    """Puts hosts to sleep."""

    def __init__(self, context: Context, power: Power) -> None:
        self._context = context
        self._power = power

    def claim_name(self) -> str:
        """Return a name for the claim on a host's devices, to be written down before it is made."""
        return f"{PREFIX}{new_nonce()}"

    async def leased(self, host: Host) -> bool:
        """Whether some console, perhaps another user's, has a job there; True if that is
        unknown."""
        try:
            engine = await self._context.hosts.engine(host.name)
            leases = await engine.leases()
        except ConsoleError:
            return True
        return any(not lease.job.startswith(PREFIX) for lease in leases)

    async def asleep(self, host: Host, lease: str) -> str:
        """Put a host to sleep; returns "" or why it was left awake, as a sentence."""
        try:
            fault = await self._claimed(host, lease)
            fault = fault or await self._used(host)
            if not fault:
                said = await self._power.switch(host.name, "sleep")
                fault = f"its sleep command failed: {said}." if said else ""
        except ConsoleError as error:
            fault = f"{error.title}: {error.message}"
        if fault:
            await self.release(host, lease)
        return clean(fault, 500)

    async def release(self, host: Host, lease: str) -> bool:
        """Give the claim back; whether that was possible. What stays goes stale."""
        try:
            engine = await self._context.hosts.engine(host.name)
            await engine.release(f"{lease}-1", [device.uuid for device in host.devices])
        except ConsoleError:
            return False
        return True

    async def _claimed(self, host: Host, lease: str) -> str:
        now, journal = self._context.clock.now(), self._context.journal.id
        wanted = [
            Lease(device.uuid, lease, f"{lease}-1", self._context.user, journal, now)
            for device in host.devices
            if not device.divided
        ]
        engine = await self._context.hosts.engine(host.name)
        try:
            await engine.claim(wanted)
        except LeaseTakenError as error:
            return f"a device is leased: {error.message}"
        return ""

    async def _used(self, host: Host) -> str:
        """Return what uses a host that is claimed, looked at once more."""
        engine = await self._context.hosts.engine(host.name)
        if not isinstance(engine, TellsRunning):
            return "its engine does not tell what runs there."
        running = await engine.running()
        if running:
            return f"containers run there: {', '.join(running[:5])}."
        present = self._context.hosts.snapshot().host(host.name)
        used = in_use(present) if present is not None else "it has left the inventory"
        return f"{used}." if used else ""
