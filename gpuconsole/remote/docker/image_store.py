"""`DockerImageStore`: the images of one engine, listed, looked at, sent and taken."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import docker
import requests

from gpuconsole.core.images import ImageRecord, parse_reference
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.errors import EngineError, ImageError
from gpuconsole.placement.rules.image_compatibility import READ
from gpuconsole.remote.docker.errors import answer_of, checked, image_error, translated
from gpuconsole.remote.docker.images import LINE_LIMIT, VALUE_LIMIT, login_header
from gpuconsole.remote.docker.marker_containers import IMAGE as LEASE_IMAGE
from gpuconsole.remote.docker.thread_pool import DockerCalls
from gpuconsole.remote.docker.transport import SLOW_HEAD_S, BoundedClient

LISTED = 500
"""Images of one host that are shown; what an engine answers is not ours to believe endless."""
GIVEN_UP = "the transfer was given up"
_NAMES = 50
_LAYERS = 256


class DockerImageStore:
    """Implements `core.images.ImageStore` over the Docker Engine API."""

    def __init__(self, calls: DockerCalls, host: str, road: str = "") -> None:
        """`road` names the link that the host shares with others; "" means its own."""
        self._calls = calls
        self._host = host
        self._road = road or host

    @property
    def road(self) -> str:
        """Hosts of the same road share a link."""
        return self._road

    async def list(self) -> tuple[ImageRecord, ...]:
        """List the images that have a name, the largest first."""
        return await self._calls.run("listing images", _list)

    async def find(self, image: str) -> ImageRecord | None:
        """Look at one image by name, digest or id; None where the host does not have it."""
        return await self._calls.run(f"looking for {image}", _find, image)

    async def registry_digest(self, image: str) -> str:
        """Ask the image's registry, over the host's engine, which digest a name has there."""
        try:
            return await self._calls.run(f"asking the registry of {image}", _registry_digest, image)
        except ImageError:
            raise
        except EngineError as error:
            raise image_error(image, self._host, answer_of(error)) from error

    async def save(self, image: str) -> AsyncGenerator[bytes, None]:
        """Give the image as a tar stream."""
        try:
            chunks = self._calls.stream(
                f"sending {image}", lambda client: _open_save(client, image)
            )
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
        except ImageError:
            raise
        except EngineError as error:
            raise image_error(image, self._host, answer_of(error)) from error

    async def load(self, chunks: AsyncIterator[bytes]) -> None:
        """Take an image from a tar stream; what was taken in part the engine drops."""
        feed = Feed(chunks, asyncio.get_running_loop())
        doing, answer = "taking an image", _Answer()
        try:
            async with contextlib.aclosing(
                self._calls.stream(doing, lambda client: _open_load(client, feed))
            ) as said:
                async for chunk in said:
                    answer.feed(chunk)
        except Exception as error:
            # The engine breaks off when its source does: that is the news, not the break.
            if feed.error is not None:
                raise feed.error from error
            raise
        finally:
            await feed.close()
        if answer.error:
            raise translated(answer.error, self._host, doing)

    async def tag(self, image: str, name: str) -> None:
        """Give an image one more name."""
        await self._calls.run(f"naming {name}", _tag, image, name)


class Feed:
    """Chunks of an async source for a thread that sends them: it asks for one at a time, so that
    no more is held than is on its way."""

    def __init__(self, chunks: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self._chunks = chunks
        self._loop = loop
        self._reading: asyncio.Task[bytes | None] | None = None
        self._closed = False
        self.error: Exception | None = None
        """Why the source ended, where it broke."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._closed:
            raise OSError(GIVEN_UP)
        chunk = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
        if chunk is None:
            raise StopIteration
        return chunk

    async def _next(self) -> bytes | None:
        if self._closed:
            # The end came between the thread's request and this turn of the loop: the source is not
            # ours any more, and may be closing.
            raise OSError(GIVEN_UP)
        self._reading = asyncio.current_task()
        try:
            # An empty chunk would end the transfer as the protocol has it.
            while not (chunk := await anext(self._chunks)):
                pass
        except StopAsyncIteration:
            return None
        except Exception as error:
            self.error = error
            raise
        return chunk

    async def close(self) -> None:
        """Let the thread go, wherever it waits, and the source with it."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])


class _Answer:
    """Reads the engine's JSON lines about a load for the one thing of interest: its error."""

    def __init__(self) -> None:
        self.error = ""
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[:LINE_LIMIT]
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict) and event.get("error"):
                    self.error = str(event["error"])


def _list(client: docker.APIClient) -> tuple[ImageRecord, ...]:
    listed: list[dict[str, object]] = client.images()
    records = (_record(item) for item in listed)
    # What leases are made of is the console's own affair, and empty.
    named = [
        record
        for record in records
        if (record.names or record.digests) and LEASE_IMAGE not in record.names
    ]
    return tuple(sorted(named, key=lambda record: -record.size_mib)[:LISTED])


def _find(client: docker.APIClient, image: str) -> ImageRecord | None:
    try:
        details: dict[str, object] = client.inspect_image(image)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return None
    return _record(details)


def _record(item: dict[str, Any]) -> ImageRecord:
    pairs = (
        str(variable).partition("=") for variable in (item.get("Config") or {}).get("Env") or ()
    )
    return ImageRecord(
        id=clean(str(item.get("Id", "")), 80),
        names=_texts(item.get("RepoTags"), _NAMES),
        digests=_texts(item.get("RepoDigests"), _NAMES),
        size_mib=max(0.0, _number(item.get("Size")) / MIB),
        created_at=_moment(item.get("Created")),
        architecture=clean(str(item.get("Architecture", "")), 40),
        layers=_texts((item.get("RootFS") or {}).get("Layers"), _LAYERS),
        env={name: clean(value, VALUE_LIMIT) for name, _, value in pairs if name in READ},
    )


def _texts(value: object, most: int) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    texts = (clean(str(text), 500) for text in listed[:most])
    return tuple(text for text in texts if "<none>" not in text)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _moment(value: object) -> float | None:
    """Return seconds since the epoch: lists of images have them so, a single image in ISO 8601."""
    if isinstance(value, (int, float)):
        return float(value)
    with contextlib.suppress(ValueError):
        # Nanoseconds are more digits than Python reads.
        whole = datetime.fromisoformat(str(value)[:19])
        return whole.replace(tzinfo=timezone.utc).timestamp()
    return None


def _registry_digest(client: docker.APIClient, image: str) -> str:
    response = client.get(
        _url(client, f"distribution/{quote(image, safe='/:@')}/json"),
        headers=login_header(client, image),
        timeout=client.timeout,
    )
    descriptor = checked(response).json().get("Descriptor") or {}
    digest = str(descriptor.get("digest", ""))
    # Whatever the registry said, only a digest is one.
    return parse_reference(f"{image.partition('@')[0]}@{digest}").digest


def _open_save(client: BoundedClient, image: str) -> requests.Response:
    url = _stream_url(client, f"images/{quote(image, safe='/:@')}/get")
    return checked(client.get(url, stream=True, timeout=(client.timeout, SLOW_HEAD_S)))


def _open_load(client: BoundedClient, feed: Feed) -> requests.Response:
    url = _stream_url(client, "images/load")
    kind = {"Content-Type": "application/x-tar"}
    return checked(
        client.post(
            url, data=feed, headers=kind, stream=True, timeout=(client.timeout, SLOW_HEAD_S)
        )
    )


def _tag(client: docker.APIClient, image: str, name: str) -> None:
    reference = parse_reference(name)
    client.tag(image, reference.name, tag=reference.tag or "latest")


def _url(client: docker.APIClient, path: str) -> str:
    return f"{client.base_url}/v{client.api_version}/{path}"


def _stream_url(client: BoundedClient, path: str) -> str:
    return f"{client.streams}/v{client.api_version}/{path}"
