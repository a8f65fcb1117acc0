"""Container images as data: what a name says, what a host has, and the port to its image store."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import field
from typing import Protocol, runtime_checkable

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

DEFAULT_IMAGE = "paddlepaddle/paddle:3.0.0-gpu-cuda11.8-cudnn8.9-trt8.6"
"""The image of hosts for which the inventory names none."""
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REGISTRY = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_REGISTRY}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
"""Names as the distribution project's reference grammar has them; of digests only SHA-256."""
_ID = re.compile(r"sha256:[0-9a-f]{64}")
_LENGTH_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Reference:
    """An image's name taken apart. An image named by its id alone has no `name`."""

    name: str = ""
    tag: str = ""
    digest: str = ""
    """`sha256:` and 64 digits: of the manifest in a registry."""
    id: str = ""
    """`sha256:` and 64 digits: of the image itself, the same on every host that has it."""

    @property
    def pinned(self) -> bool:
        """Whether it can only ever mean one image."""
        return bool(self.digest or self.id)


def parse_reference(text: str) -> Reference:
    """Take an image's name apart; UsageError when it is none, or its digest is wrong."""
    if _ID.fullmatch(text):
        return Reference(id=text)
    match = _REFERENCE.fullmatch(text) if len(text) <= _LENGTH_LIMIT else None
    if match is not None:
        return Reference(match["name"], match["tag"] or "", match["digest"] or "")
    said = clean(text, 200)
    if "@" in text:
        raise UsageError(
            "Wrong digest",
            msg("{said}: after @ come `sha256:` and 64 digits of 0-9 and a-f.", said=said),
            "`docker images --digests` and `gpuconsole image list` show whole digests.",
        )
    raise UsageError(
        "Not an image's name",
        msg("{said} is no name of an image.", said=f"{said!r}"),
        "Names look like registry.example/team/train:7; they are written small.",
    )


def floating_note(image: str) -> str:
    """Return why a name may mean another image tomorrow, as a sentence; "" when it will not or is
    no name."""
    try:
        reference = parse_reference(image)
    except UsageError:
        return ""
    if reference.pinned or reference.tag not in ("", "latest"):
        return ""
    what = "is tagged latest" if reference.tag else "has no tag, which means latest"
    return (
        f"The image {clean(image, 200)} {what}: hosts may hold different ones, and a later pull"
        " another again. Name a version, or pin it: gpuconsole image pin."
    )


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """An image that a host has, as its engine reports it."""

    id: str
    """`sha256:` and 64 digits; its configuration's hash, which covers its layers."""
    names: tuple[str, ...] = ()
    """Names with tags."""
    digests: tuple[str, ...] = ()
    """`name@sha256:…` of the registries it came from; none for one that was built or loaded."""
    size_mib: float = 0.0
    created_at: float | None = None
    architecture: str = ""
    layers: tuple[str, ...] = ()
    """Hashes of its unpacked layers; only where one image was asked for."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of its variables those that name tools and versions; others may be secret."""

    def digest_of(self, name: str) -> str:
        """Return the digest by which a registry knows it under a name without tag, or ""."""
        wanted = familiar(name)
        for reference in self.digests:
            owner, _, digest = reference.rpartition("@")
            if familiar(owner) == wanted:
                return digest
        return ""


def familiar(name: str) -> str:
    """Return a name as Docker shows it: without the registry that it assumes."""
    for prefix in ("docker.io/library/", "docker.io/", "index.docker.io/library/"):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


class ImageStore(Protocol):
    """The images of one host. Every method may raise UnreachableError or EngineError."""

    @property
    def road(self) -> str:
        """Hosts of the same road share a link, over which one at a time is to be sent much."""
        ...

    async def list(self) -> tuple[ImageRecord, ...]:
        """List the images that have a name, the largest first."""
        ...

    async def find(self, image: str) -> ImageRecord | None:
        """Look at one image by name, digest or id; None where the host does not have it."""
        ...

    async def registry_digest(self, image: str) -> str:
        """Ask the image's registry, over the host, which digest a name has there; ImageError."""
        ...

    def save(self, image: str) -> AsyncIterator[bytes]:
        """Give the image as a tar stream; ImageError when the host does not have it."""
        ...

    async def load(self, chunks: AsyncIterator[bytes]) -> None:
        """Take an image from a tar stream; EngineError when the engine cannot."""
        ...

    async def tag(self, image: str, name: str) -> None:
        """Give an image one more name."""
        ...


@runtime_checkable
class KeepsImages(Protocol):
    """An engine that has an image store of its own."""

    @property
    def images(self) -> ImageStore:
        """Its images."""
        ...


Progress = Callable[[str], None]
"""Hears sentences."""
