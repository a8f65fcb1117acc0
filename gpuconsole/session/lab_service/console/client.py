"""The console's end of the lab's service: one watch that is kept up, and requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from pydantic import ValidationError

from gpuconsole.core.containers import ImageFacts, ResultFile
from gpuconsole.core.images import ImageRecord
from gpuconsole.core.jobs import Job
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UnreachableError
from gpuconsole.session.estimate.measurement_run import Progress
from gpuconsole.session.lab_service.inside import MESSAGE_BYTES, CarriedStream
from gpuconsole.session.lab_service.protocol import (
    ACTS,
    ANSWER,
    DIGEST,
    FILES,
    HEAD,
    IMAGE,
    IMAGES,
    MEASUREMENT,
    MOST_THROUGH,
    NOTIFIED,
    NOTIFY,
    OPERATION,
    PICTURE_BYTES,
    REFUSAL,
    REPORT,
    REQUEST,
    REQUEST_BYTES,
    SUBMISSION,
    THROUGH,
    VERSION,
    HeadState,
    Hello,
    Measurement,
    Message,
    Notified,
    Notify,
    Operation,
    Request,
    Submission,
    error_of,
    outdated,
    unpacked,
)
from gpuconsole.session.lab_service.reports import words_of
from gpuconsole.session.report.model import Query, UsageReport
from gpuconsole.waiting import within

AGAIN_S = (1.0, 2.0, 5.0, 10.0)
"""Pauses before the service is tried again after it was lost; the last one repeats."""
SILENT_S = 60.0
"""A watch on which nothing came for so long, not even a heartbeat, has broken."""
CONNECT_S = 15.0
ANSWER_S = 120.0
"""How long an act may take: a job that is cancelled is waited for."""
LONGEST_S = 5 * 3600.0
"""How long a measurement or an operation may take with all that goes before it, such as those of
others; the service ends it before."""
MOST_IMAGES = 10_000
"""Images of a host that are read."""
ANSWER_BYTES = 64 * 2**20
CHUNK = 256 * 1024
NO_ANSWER = (
    ValueError, KeyError, TypeError, OverflowError, asyncio.IncompleteReadError,
    asyncio.LimitOverrunError, asyncio.TimeoutError,
)  # fmt: skip
"""What reading lines raises that no service of ours sends."""


def untold(share: float, stage: str) -> None:
    """Ignore progress."""


class Way(Protocol):
    """How the service's socket is reached: here, or through SSH."""

    name: str
    """The service's host, for a person."""

    async def socket(self) -> Path:
        """Return a local socket that reaches the service. UnreachableError where there is none."""
        ...

    def lost(self) -> None:
        """Called when the service did not answer there."""
        ...

    async def close(self) -> None:
        """Let go of what was opened."""
        ...


class LabClient:
    """Talks to the lab's service. ConsoleError where it refuses, UnreachableError where it is
    away."""

    def __init__(self, way: Way, through: Callable[[], str] = str) -> None:
        """`through` names the program through which the user acts, for the audit; "" for none."""
        self._way = way
        self._through = through
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
            self._way.lost()
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

    async def submit(
        self, submission: Submission, bundle: Path, sending: Progress = untold
    ) -> tuple[Job, ...]:
        """Queue jobs with their packed project; return them as they are queued. `sending` hears
        how much of the project is sent."""
        parts = _parts("submission", SUBMISSION.dump_json(submission), bundle, sending)
        answer = await self._ask("POST", "submit", data=parts, limit_s=None)
        return ANSWER.validate_json(answer).jobs

    async def image(self, host: str, image: str) -> ImageFacts | None:
        """Return what is known of an image on a host; None where the host has it not."""
        return IMAGE.validate_json(await self._ask("GET", "image", {"host": host, "image": image}))

    async def images(self, host: str, image: str = "") -> tuple[ImageRecord, ...]:
        """Return the images of a host that the caller may see, or the one that is named."""
        asked = {"host": host, "image": image} if image else {"host": host}
        records = IMAGES.validate_json(await self._ask("GET", "images", asked))
        return tuple(map(_shown_image, records[:MOST_IMAGES]))

    async def digest(self, host: str, image: str) -> str:
        """Return which digest an image's registry knows, asked over a host."""
        asked = {"host": host, "image": image}
        return clean(DIGEST.validate_json(await self._ask("GET", "digest", asked)), 200)

    async def operate(self, wanted: Operation, report: Callable[[str, str], None]) -> bytes:
        """Have the service do something on hosts, and return its document; `report` is
        called with a host's name and a sentence. Raises the service's errors."""
        data = OPERATION.dump_json(wanted)
        async with self._answered("POST", "operation", data=data, limit_s=None) as response:
            return await self._streamed(
                response, lambda said: report(clean(said["host"], 80), clean(said["said"], 500))
            )

    async def measure(self, wanted: Measurement, bundle: Path, progress: Progress) -> bytes:
        """Measure a packed project on a host and return the probe's document. The errors of
        `measurement_on_host.measure_on_host`, which the service raised."""
        parts = _parts(
            "measurement",
            MEASUREMENT.dump_json(wanted),
            bundle,
            # Nothing of the measurement itself is done yet.
            lambda share, stage: progress(0.0, stage),
        )
        async with self._answered("POST", "measure", data=parts, limit_s=None) as response:
            return await self._streamed(
                response, lambda said: progress(_share(said["progress"]), _stage(said["stage"]))
            )

    async def _streamed(
        self, response: aiohttp.ClientResponse, take: Callable[[Mapping[str, Any]], None]
    ) -> bytes:
        """Follow the lines of long work to its document; UnreachableError for lines that no
        service of ours sends, and where none comes for `SILENT_S`."""
        try:
            return await within(LONGEST_S, _streamed(response.content, take))
        except NO_ANSWER as error:
            raise self._away(error) from error

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

    async def connect(self, host: str, container: str, target: str) -> CarriedStream:
        """Connect to a port inside a container of one's own job, through the service."""
        path = await self._way.socket()
        query = {"host": host, "container": container, "target": target}
        http = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(path)))

        async def connected() -> CarriedStream:
            socket = await http.ws_connect(
                _url("inside"), params=query, max_msg_size=MESSAGE_BYTES, compress=0
            )
            return CarriedStream(http, socket)

        try:
            return await within(ANSWER_S, connected())
        except aiohttp.WSServerHandshakeError as error:
            await http.close()
            # Asked again as a plain request, it says why.
            await self._ask("GET", "inside", query)
            raise self._away(error) from error
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            await http.close()
            raise self._away(error) from error
        except BaseException:
            await http.close()
            raise

    async def audit(self, limit: int) -> tuple[Act, ...]:
        """Return the latest acts that the caller may see, the latest first."""
        return ACTS.validate_json(await self._ask("GET", "audit", {"limit": str(limit)}))

    async def notify(self, settings: str, *, test: bool) -> Notified:
        """Store at the service how its user wants to be notified of jobs; with `test` it sends a
        message at once, and RefusedError says why it cannot."""
        data = NOTIFY.dump_json(Notify(settings, test))
        notified = NOTIFIED.validate_json(await self._ask("POST", "notify", data=data))
        refused = tuple(clean(reason, 300) for reason in notified.refused[:20])
        return Notified(clean(notified.way, 200), refused)

    async def usage_report(self, query: Query) -> UsageReport:
        """Return device-hours, energy and cost of a time, of the jobs that the caller may see."""
        answer = await self._ask("GET", "report", words_of(query))
        return REPORT.validate_json(answer).made_safe()

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
            raise UnreachableError(
                "Too much at once", msg("{name} takes no such request.", name=self.name)
            )
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
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, headers=self._headers()
        ) as http:
            yield http

    def _headers(self) -> dict[str, str]:
        # A header is ASCII; the service cleans it once more.
        name = self._through().encode("ascii", "replace").decode()
        return {THROUGH: clean(name, MOST_THROUGH)} if name else {}

    def _away(self, error: BaseException) -> UnreachableError:
        self._way.lost()
        said = clean(str(error), 300) or type(error).__name__
        return UnreachableError(
            "The lab's queue does not answer",
            msg("{name}: {said}.", name=self.name, said=said),
            "Jobs that run go on. Nothing was queued here; ask for it again when it is back.",
        )


def _parts(name: str, document: bytes, bundle: Path, sending: Progress) -> aiohttp.MultipartWriter:
    """Return a request of a document and a packed project; `sending` hears how far it is."""
    parts = aiohttp.MultipartWriter("form-data")
    parts.append(document).set_content_disposition("form-data", name=name)
    parts.append(_read(bundle, sending)).set_content_disposition("form-data", name="bundle")
    return parts


async def _read(bundle: Path, sending: Progress) -> AsyncIterator[bytes]:
    """Give a packed project in pieces; the next one is asked for once the last one is sent."""
    sent = 0
    with bundle.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        whole = format_mib(size / MIB)
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            sending(sent / size, f"sending the project, {whole}")
            yield chunk
            sent += len(chunk)
    sending(1.0, "queueing")


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


async def _streamed(
    content: aiohttp.StreamReader, take: Callable[[Mapping[str, Any]], None]
) -> bytes:
    """Follow the lines of long work to its document; `take` hears those that say something. One of
    `NO_ANSWER` for lines that no service of ours sends."""
    while True:
        said = json.loads(await within(SILENT_S, content.readuntil()))
        if not isinstance(said, dict):
            raise ValueError("a line is no object")
        if "refusal" in said:
            raise error_of(REFUSAL.validate_python(said["refusal"]))
        if "document" in said:
            size = int(said["document"])
            if not 0 <= size <= ANSWER_BYTES:
                raise ValueError("a document without end")
            return await content.readexactly(size)
        if said:
            take(said)


def _share(value: Any) -> float:
    return min(1.0, max(0.0, float(value)))


def _stage(value: Any) -> str:
    return clean(str(value), 80)


def _shown_image(record: ImageRecord) -> ImageRecord:
    """Return an image record with text that is safe for a terminal."""
    return replace(
        record,
        id=clean(record.id, 80),
        names=tuple(clean(name, 500) for name in record.names),
        digests=tuple(clean(name, 600) for name in record.digests),
        architecture=clean(record.architecture, 40),
        env={clean(name, 200): clean(value, 2000) for name, value in record.env.items()},
    )


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
                msg("There is no {path}.", path=self._path),
                "Start it: gpuconsole dispatch --lab",
            )
        return self._path

    def lost(self) -> None:
        """Nothing to forget."""

    async def close(self) -> None:
        """Nothing was opened."""


class HeadsWay:
    """The service runs on one of several heads: whichever leads is asked."""

    def __init__(self, ways: Sequence[Way]) -> None:
        """`ways` are tried in their order."""
        self.name = " or ".join(way.name for way in ways)
        self._ways = ways
        self._leads: Way | None = None
        self._lock = asyncio.Lock()

    async def socket(self) -> Path:
        """Return a local socket that reaches the head that leads. UnreachableError that says why
        none of them is it."""
        async with self._lock:
            if self._leads is None:
                self._leads = await self._found()
            try:
                return await self._leads.socket()
            except UnreachableError:
                self._leads = None
                raise

    def lost(self) -> None:
        """Ask again which one leads, at the next use."""
        if self._leads is not None:
            self._leads.lost()
        self._leads = None

    async def close(self) -> None:
        """Let go of all ways."""
        for way in self._ways:
            await way.close()

    async def _found(self) -> Way:
        head, said = await leading(self._ways)
        if head is not None:
            return head
        raise UnreachableError(
            "The lab's queue does not answer",
            msg("{names}.", names="; ".join(said)),
            "Jobs that run go on. Nothing was queued here; ask for it again when it is back.",
        )


async def leading(ways: Sequence[Way]) -> tuple[Way | None, list[str]]:
    """Return the way to the head that leads, None where none does, and what the others said."""
    said = []
    for way in ways:
        try:
            state = await head_at(way)
        except ConsoleError as error:
            way.lost()
            said.append(error.message.rstrip("."))
            continue
        if state.leads:
            return way, said
        said.append(f"{way.name} is on standby")
    return None, said


async def head_at(way: Way) -> HeadState:
    """Return what the head at the end of a way says of itself. UnreachableError where it does not
    answer."""
    path = await way.socket()
    timeout = aiohttp.ClientTimeout(total=CONNECT_S)
    connector = aiohttp.UnixConnector(path=str(path))
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as http,
            http.get(_url("head")) as response,
        ):
            data = await _whole(response)
            if response.status != 200:
                # A service from before there were standbys knows no such request: it leads.
                return HeadState(True, way.name)
            return HEAD.validate_json(data)
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValidationError) as error:
        words = clean(str(error), 200) or type(error).__name__
        raise UnreachableError(
            "The head does not answer", msg("{name}: {words}.", name=way.name, words=words),
            "Ask whether `gpuconsole dispatch --lab` runs there.",
        ) from error  # fmt: skip


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
