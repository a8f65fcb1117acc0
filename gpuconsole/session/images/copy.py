"""An image from one host to another through the console, which keeps no more of it than is on its
way."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from gpuconsole.core.images import ImageRecord, ImageStore, Progress
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, ImageError, RefusedError
from gpuconsole.session.clock import Clock

TELL_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Copied:
    """An image that has arrived."""

    image: str
    id: str
    sent_mib: float
    seconds: float
    already: bool = False
    """Whether the host had it before, so that nothing was sent."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a copy."""

    host: str
    store: ImageStore


async def copy_image(
    image: str, source: End, target: End, clock: Clock, progress: Progress, *, replace: bool
) -> Copied:
    """Send an image and hold what arrived against what was sent.

    ImageError when the source does not have it or something else arrived, RefusedError when the
    target has another image of that name and `replace` is not set, EngineError when the target's
    disk is full, UnreachableError when an end goes away. After an error the target's engine has
    dropped what came; after a wrong arrival the image is there, under the name.
    """
    sent = await source.store.find(image)
    if sent is None:
        raise ImageError(
            "Image is not there",
            msg("{host} does not have {image}.", host=source.host, image=image),
            msg("See what it has: gpuconsole image list --host {host}", host=source.host),
        )
    names = (image,) if image in sent.names else sent.names
    if await _has(target, sent, names, replace=replace):
        await _name(target, sent, names)
        return Copied(image, sent.id, 0.0, 0.0, already=True)
    counter = _Counter(image, sent.size_mib, clock, progress)
    began = clock.now()
    # By a name, so that it arrives with it; by its id it would come without.
    chunks = source.store.save(names[0] if names else sent.id)
    async with contextlib.aclosing(chunks) as stream:  # type: ignore[type-var]
        await target.store.load(counter.counted(stream))
    progress(f"sent {format_mib(counter.mib)}; looking at what arrived")
    await _verify(target, sent)
    await _name(target, sent, names)
    return Copied(image, sent.id, counter.mib, clock.now() - began)


async def _has(target: End, sent: ImageRecord, names: tuple[str, ...], *, replace: bool) -> bool:
    """Tell whether the target has the very image already; refuse to take a name from another."""
    for name in names if not replace else ():
        there = await target.store.find(name)
        if there is not None and there.id != sent.id:
            raise RefusedError(
                "Another image has that name",
                msg(
                    "On {host} {name} is {value}, here it is {value2}.",
                    host=target.host,
                    name=name,
                    value=_short(there.id),
                    value2=_short(sent.id),
                ),
                "With --replace the name goes to the copy; the other image stays without it.",
            )
    return await target.store.find(sent.id) is not None


async def _verify(target: End, sent: ImageRecord) -> None:
    arrived = await target.store.find(sent.id)
    if arrived is not None and arrived.layers == sent.layers:
        return
    raise ImageError(
        "Something else arrived",
        msg(
            "{host} has no image {value} with the same layers after the copy.",
            host=target.host,
            value=_short(sent.id),
        ),
        "Try again; if it stays so, compare `docker version` of both hosts: engines with another "
        "image store give other ids.",
    )


async def _name(target: End, sent: ImageRecord, names: tuple[str, ...]) -> None:
    arrived = await target.store.find(sent.id)
    for name in names:
        if arrived is not None and name not in arrived.names:
            try:
                await target.store.tag(sent.id, name)
            except EngineError as error:
                raise ImageError(
                    error.title,
                    msg("{name}: {message}", name=name, message=error.message),
                    error.hint,
                ) from error


class _Counter:
    """Counts what passes, and tells how far it is."""

    def __init__(self, image: str, total_mib: float, clock: Clock, progress: Progress) -> None:
        self._image = image
        self._total = total_mib
        self._clock = clock
        self._progress = progress
        self._told_at = clock.now()
        self._bytes = 0

    @property
    def mib(self) -> float:
        return self._bytes / MIB

    async def counted(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        began = self._clock.now()
        async for chunk in chunks:
            self._bytes += len(chunk)
            now = self._clock.now()
            if now - self._told_at >= TELL_EVERY_S:
                self._told_at = now
                self._progress(self._sentence(now - began))
            yield chunk

    def _sentence(self, seconds: float) -> str:
        # A stream has the layers' own bookkeeping too: it may be a little more than the image.
        share = min(99, int(100 * self.mib / self._total)) if self._total else 0
        rate = f", {self.mib / seconds:.0f} MiB/s" if seconds > 0 else ""
        sizes = f"{format_mib(self.mib)} of {format_mib(self._total)}"
        return f"copying {self._image} {share} % ({sizes}{rate})"


def _short(image_id: str) -> str:
    return image_id[:19]
