"""The images of the lab's hosts, as far as the lab's policy shows them to callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import HostState
from gpuconsole.core.images import ImageRecord, ImageStore, KeepsImages, parse_reference
from gpuconsole.core.lab_service.rights import Caller, Policy, Rights, require_image
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, RefusedError, UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

MOST_LISTED = 2000
"""Most images of one host that are sent."""


class LabImages:
    """Looks at images for callers."""

    def __init__(self, session: Session, rights: Rights, policy: Policy) -> None:
        self._session = session
        self._rights = rights
        self._policy = policy

    async def facts(self, host: str, image: str) -> ImageFacts | None:
        """Return what is known of an image on a host; None where the host has it not."""
        self.require_up(host)
        self.require_image(image)
        engine = await self._session.hosts.engine(host)
        return await engine.image_facts(image)

    async def listed(self, caller: Caller, host: str) -> tuple[ImageRecord, ...]:
        """Return the images of a host: all for an operator, for others those that they may run."""
        store = await self._store(host)
        records = (await store.list())[:MOST_LISTED]
        if self._rights.is_operator(caller):
            return records
        return tuple(record for record in records if self._is_shown(record))

    async def found(self, host: str, image: str) -> tuple[ImageRecord, ...]:
        """Return one image of a host, or none where the host has it not."""
        self.require_image(image)
        record = await (await self._store(host)).find(image)
        return () if record is None else (record,)

    async def digest(self, host: str, image: str) -> str:
        """Return which digest an image's registry knows, asked over a host."""
        self.require_image(image)
        return await (await self._store(host)).registry_digest(image)

    def require_up(self, name: str) -> None:
        """Raise UsageError for a host that cannot be asked for containers now."""
        host = self._session.snapshot().host(name)
        if host is None or host.state is not HostState.UP or host.cluster:
            raise UsageError(
                "Not on that host",
                msg(
                    "{value} is no host that is up and has an engine.", value=f"{clean(name, 80)!r}"
                ),
            )

    def require_image(self, image: str) -> None:
        """Raise UsageError for what is no name of an image, RefusedError for one that is neither
        within the lab's policy nor the default of a host."""
        parse_reference(image)
        if image not in self._defaults():
            require_image(image, self._policy)

    def _defaults(self) -> set[str]:
        hosts = self._session.snapshot().hosts
        return {self._session._context.default_image(host.name) for host in hosts}

    def _is_shown(self, record: ImageRecord) -> bool:
        for name in (*record.names, *record.digests):
            try:
                self.require_image(name)
            except (RefusedError, UsageError):
                continue
            return True
        return False

    async def _store(self, host: str) -> ImageStore:
        self.require_up(host)
        engine = await self._session.hosts.engine(host)
        if isinstance(engine, KeepsImages):
            return engine.images
        raise EngineError(
            "No images", msg("{host} has no container engine that keeps images.", host=host)
        )
