"""What keeps a head that does not lead any more from starting, stopping or removing containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gpuconsole.core.containers import Engine

if TYPE_CHECKING:
    from gpuconsole.session.standby.lead import Lead


class FencedEngine:
    """An engine that is asked only while its head leads.

    A container starts, and one that has run goes away, only once the standby has what was written
    before; so a head that takes over knows of all that has run. And each time the host itself is
    asked whether it has granted a later epoch to another head: it is a witness that cannot be
    bypassed.
    """

    def __init__(self, engine: Engine, host: str, lead: Lead) -> None:
        self._engine = engine
        self._host = host
        self._lead = lead

    async def start(self, container: str) -> None:
        """Start the container; starting a running one is no error."""
        await self._lead.copied()
        await self._lead.require(self._host, self._engine)
        await self._engine.start(container)

    async def stop(self, container: str, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after the grace time; a stopped container is no error."""
        await self._lead.require(self._host, self._engine)
        await self._engine.stop(container, grace_s)

    async def remove(self, container: str) -> None:
        """Remove the container; one that is gone is no error."""
        await self._lead.copied()
        await self._lead.require(self._host, self._engine)
        await self._engine.remove(container)

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)


def fenced(engine: Engine, host: str, lead: Lead) -> Engine:
    """Return the engine as a head uses it."""
    return cast(Engine, FencedEngine(engine, host, lead))
