"""The images of a simulated host: names that were pulled, with sizes made up from them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from gpuconsole.core.fleet import HostState
from gpuconsole.core.images import ImageRecord, parse_reference
from gpuconsole.core.wording import msg
from gpuconsole.errors import ImageError, UnreachableError
from gpuconsole.simulated_lab.host import SimulatedHost

_CHUNK = bytes(2**20)
_CHUNKS = 24
_SEND_S = 0.25
"""Lab seconds between two chunks of a copy."""
_BASE_MIB, _SPREAD_MIB = 6800, 5200
_ORDINARY = "paddlepaddle/paddle:3.3.1-gpu-cuda12.6-cudnn9.5"


class SimulatedImages:
    """Implements `core.images.ImageStore`; what is sent is empty."""

    def __init__(self, host: SimulatedHost) -> None:
        """Speak for one host."""
        self._host = host
        if host.site.kind.card.backend == "gpu":
            host.images.add(_ORDINARY)

    @property
    def road(self) -> str:
        """Every simulated host has a link of its own."""
        return self._host.site.name

    async def list(self) -> tuple[ImageRecord, ...]:
        """List what was pulled, and what the host was set up with."""
        self._reach()
        return tuple(map(_record, sorted(self._host.images)))

    async def find(self, image: str) -> ImageRecord | None:
        """Look at one image."""
        records = await self.list()
        return next(
            (record for record in records if image in (record.id, *record.names, *record.digests)),
            None,
        )

    async def registry_digest(self, image: str) -> str:
        """Make a digest up, the same each time."""
        self._reach()
        return _hash("registry", image)

    async def save(self, image: str) -> AsyncIterator[bytes]:
        """Give the name of an image, then nothing of any weight."""
        if await self.find(image) is None:
            raise ImageError(
                "Image is not there",
                msg("{name} lacks {image}.", name=self._host.site.name, image=image),
                "",
            )
        yield f"{image}\n".encode()
        for _ in range(_CHUNKS):
            await self._host.time.sleep(_SEND_S)
            yield _CHUNK

    async def load(self, chunks: AsyncIterator[bytes]) -> None:
        """Take the name of an image."""
        self._reach()
        name = (await anext(chunks)).decode().strip()
        async for _ in chunks:
            self._reach()
        self._host.images.add(name)

    async def tag(self, image: str, name: str) -> None:
        """Give an image one more name."""
        self._reach()
        self._host.images.add(name)

    def _reach(self) -> None:
        host = self._host
        if host.state_at(host.time.now()) is HostState.DOWN:
            name = host.site.name
            raise UnreachableError(
                "The host does not answer", msg("{name} is out of sight.", name=name)
            )


def _record(image: str) -> ImageRecord:
    reference = parse_reference(image)
    weight = int(_hash("size", image)[7:11], 16) / 0xFFFF
    return ImageRecord(
        id=reference.id or _hash("image", image),
        names=() if reference.pinned else (image,),
        digests=() if reference.id else (f"{reference.name}@{_hash('registry', image)}",),
        size_mib=round(_BASE_MIB + _SPREAD_MIB * weight, 1),
        architecture="amd64",
        layers=(_hash("layer", image),),
    )


def _hash(kind: str, text: str) -> str:
    return "sha256:" + hashlib.sha256(f"{kind}/{text}".encode()).hexdigest()
