"""The console's end of the lab's service: one watch that is kept up, and requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import aiohttp
from pydantic import ValidationError

from gpuconsole.core.acts import Act
from gpuconsole.core.containers import ResultFile
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError, UnreachableError
from gpuconsole.session.lab_service.protocol import (
    ACTS,
    ANSWER,
    FILES,
    PICTURE_BYTES,
    REFUSAL,
    REQUEST,
    REQUEST_BYTES,
    SUBMISSION,
    VERSION,
    Hello,
    Message,
    Request,
    Submission,
    error_of,
    outdated,
    unpacked,
)

AGAIN_S = (1.0, 2.0, 5.0, 10.0)
"""Pauses before the service is tried again after it was lost; the last one repeats."""
SILENT_S = 60.0
"""A watch on which nothing came for so long, not even a heartbeat, has broken."""
CONNECT_S = 15.0
ANSWER_S = 120.0
"""How long an act may take: a job that is cancelled is waited for."""
ANSWER_BYTES = 64 * 2**20
CHUNK = 256 * 1024


class Way(Protocol):
    """How the service's socket is reached: here, or through SSH."""

    name: str
    """The service's host, for a person."""

    async def socket(self) -> Path:
        """Return a local socket that reaches the service. UnreachableError where there is none."""
        ...

    async def close(self) -> None:
        """Let go of what was opened."""
        ...


class LabClient:
    """Talks to the lab's service. ConsoleError where it refuses, UnreachableError where it is
    away."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self.name = way.name
        self.lost = "it was not asked yet"
        """Why the service is not heard now; "" while it is."""
        self.failed = asyncio.Event()
        """Set once the service could not be heard."""

    async def watch(self, take: Callable[[Message], None]) -> None:
        """Give each message of the service to `take`, for ever: it is tried again after a loss."""
        failures = 0
        while True:
            try:
                async for message in self._messages():
                    take(message)
                    self.lost, failures = "", 0
                self.lost = "it has closed the connection"
            except ConsoleError as error:
                self.lost = f"{error.message} {error.hint}".strip()
            self.failed.set()
            await asyncio.sleep(AGAIN_S[min(failures, len(AGAIN_S) - 1)])
            failures += 1

    async def hello(self) -> Hello:
        """Return what the service says first."""
        messages = self._messages()
        try:
            async for message in messages:
                if message.hello is not None:
                    return message.hello
        finally:
            await messages.aclose()
        raise self._away(ConnectionError("it said nothing"))

    async def act(self, request: Request) -> tuple[Job, ...]:
        """Ask for an act; return the jobs as they are then."""
        body = REQUEST.dump_json(request)
        answer = await self._ask("POST", "act", data=body)
        return ANSWER.validate_json(answer).jobs

    async def submit(self, submission: Submission, bundle: Path) -> tuple[Job, ...]:
        """Queue jobs with their packed project; return them as they are queued."""
        with aiohttp.MultipartWriter("form-data") as parts, bundle.open("rb") as file:
            first = parts.append(SUBMISSION.dump_json(submission))
            first.set_content_disposition("form-data", name="submission")
            second = parts.append(file)
            second.set_content_disposition("form-data", name="bundle")
            answer = await self._ask("POST", "submit", data=parts, limit_s=None)
        return ANSWER.validate_json(answer).jobs

    async def log(
        self, job: str, attempt: int, rank: int, offset: int, *, wait: bool
    ) -> tuple[bytes, bool]:
        """Return what a log has from an offset on, and whether that was its end; with `wait` once
        there is more."""
        asked = {
            "job": job, "attempt": str(attempt), "rank": str(rank), "offset": str(offset),
            "wait": str(int(wait)),
        }  # fmt: skip
        async with self._answered("GET", "log", asked, limit_s=ANSWER_S) as response:
            data = await _whole(response)
            return data, response.headers.get("X-Over") == "1"

    async def files(self, job: str, host: str) -> tuple[ResultFile, ...]:
        """Return what a job has left on a host."""
        return FILES.validate_json(await self._ask("GET", "files", {"job": job, "host": host}))

    async def results(self, job: str, host: str, what: str) -> AsyncIterator[bytes]:
        """Give a job's results, or its checkpoint, on a host as a tar."""
        asked = {"job": job, "host": host, "what": what}
        async with self._answered("GET", "results", asked, limit_s=None) as response:
            try:
                async for chunk in response.content.iter_chunked(CHUNK):
                    yield chunk
            except aiohttp.ClientError as error:
                raise self._away(error) from error

    async def audit(self, limit: int) -> tuple[Act, ...]:
        """Return the latest acts that the caller may see, the latest first."""
        return ACTS.validate_json(await self._ask("GET", "audit", {"limit": str(limit)}))

    async def close(self) -> None:
        """Let go of the way."""
        await self._way.close()

    async def _messages(self) -> AsyncGenerator[Message, None]:
        async with self._opened(CONNECT_S) as http:
            try:
                async with http.ws_connect(
                    _url("watch"), max_msg_size=PICTURE_BYTES, heartbeat=SILENT_S / 2
                ) as socket:
                    async for received in socket:
                        if received.type is not aiohttp.WSMsgType.BINARY:
                            break
                        message = await asyncio.to_thread(unpacked, received.data)
                        if message.hello is not None and message.hello.version != VERSION:
                            raise outdated(VERSION)
                        yield message
            except aiohttp.WSServerHandshakeError as error:
                raise await self._refused_watch(http, error) from error
            except (aiohttp.ClientError, OSError, ValidationError, ValueError) as error:
                raise self._away(error) from error

    async def _refused_watch(
        self, http: aiohttp.ClientSession, error: aiohttp.WSServerHandshakeError
    ) -> ConsoleError:
        """Return why no watch was begun: asked again as a plain request, it says so."""
        with contextlib.suppress(aiohttp.ClientError, ValidationError):
            async with http.get(_url("watch")) as response:
                return error_of(REFUSAL.validate_json(await _whole(response)))
        return self._away(error)

    async def _ask(
        self,
        method: str,
        route: str,
        query: Mapping[str, str] | None = None,
        *,
        data: bytes | aiohttp.MultipartWriter | None = None,
        limit_s: float | None = ANSWER_S,
    ) -> bytes:
        async with self._answered(method, route, query, data=data, limit_s=limit_s) as response:
            return await _whole(response)

    @contextlib.asynccontextmanager
    async def _answered(
        self,
        method: str,
        route: str,
        query: Mapping[str, str] | None = None,
        *,
        data: bytes | aiohttp.MultipartWriter | None = None,
        limit_s: float | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give the answer to a request that succeeded; raise the error of another."""
        if isinstance(data, bytes) and len(data) > REQUEST_BYTES:
            raise UnreachableError("Too much at once", f"{self.name} takes no such request.")
        async with self._opened(limit_s) as http:
            try:
                async with http.request(method, _url(route), params=query, data=data) as response:
                    if response.status != 200:
                        refusal = REFUSAL.validate_json(await _whole(response))
                        raise error_of(refusal)
                    yield response
            except (aiohttp.ClientError, asyncio.TimeoutError, ValidationError) as error:
                raise self._away(error) from error

    @contextlib.asynccontextmanager
    async def _opened(self, limit_s: float | None) -> AsyncIterator[aiohttp.ClientSession]:
        path = await self._way.socket()
        connector = aiohttp.UnixConnector(path=str(path))
        timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=CONNECT_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            yield http

    def _away(self, error: BaseException) -> UnreachableError:
        said = clean(str(error), 300) or type(error).__name__
        return UnreachableError(
            "The lab's queue does not answer",
            f"{self.name}: {said}.",
            "Jobs that run go on. Nothing was queued here; ask for it again when it is back.",
        )


def _url(route: str) -> str:
    # The name decides nothing: the socket does.
    return f"http://lab/v{VERSION}/{route}"


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        data += chunk
        if len(data) > ANSWER_BYTES:
            raise aiohttp.ClientPayloadError("an answer without end")
    return bytes(data)


class LocalWay:
    """The service runs on this host."""

    def __init__(self, path: Path) -> None:
        self.name = "this host"
        self._path = path

    async def socket(self) -> Path:
        """Return the service's socket. UnreachableError where it is not there."""
        if not self._path.exists():
            raise UnreachableError(
                "The lab's queue does not answer",
                f"There is no {self._path}.",
                "Start it: gpuconsole dispatch --lab",
            )
        return self._path

    async def close(self) -> None:
        """Nothing was opened."""


def first_hello(way: Callable[[], Way]) -> Hello:
    """Ask the service who it is, before there is a session. ConsoleError where it does not say.

    On a thread of its own: the caller may stand in an event loop.
    """

    async def asked() -> Hello:
        client = LabClient(way())
        try:
            return await client.hello()
        finally:
            await client.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, asked()).result()
