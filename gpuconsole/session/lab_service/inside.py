"""Connections into containers of the lab's jobs, carried by its service: a user of the lab need not
have an account on the hosts where jobs run.

A WebSocket: what is said goes in binary messages, both ways; a text message of the console says
that it says no more; the end of either ends the other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import WSMsgType, web

from gpuconsole.core.containers import ByteStream
from gpuconsole.core.engines.terminals import SESSION, SOCKET
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.lab_service.rights import Caller, Rights
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.lab_service.http.rates import Underway
from gpuconsole.session.lab_service.measuring import Record

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

MOST_AT_ONCE = 128
"""Connections of one account into containers at once."""
MESSAGE_BYTES = MIB
"""What an end takes as one message."""
SENT_BYTES = MIB // 8
"""What a console sends as one message. The service takes hardly more: of each connection it holds
what a container does not read."""
RECORD_AGAIN_S = 3600.0
"""A port that is used all the time is in the audit once in so long."""
NO_MORE = "eof"


class Inside:
    """Connects callers with what listens inside the containers of their own jobs."""

    def __init__(
        self, session: Session, rights: Rights, record: Record, clock: Callable[[], float]
    ) -> None:
        """`record` writes an act into the audit."""
        self._session = session
        self._rights = rights
        self._record = record
        self._clock = clock
        self._running = Underway()
        self._recorded: dict[tuple[int, str, str], float] = {}

    async def answer(self, caller: Caller, request: web.Request) -> web.StreamResponse:
        """Connect, and pass on bytes until either end closes. ConsoleError where it may not be, or
        nothing listens there."""
        query = request.query
        container, target = query.get("container", ""), query.get("target", "")
        job = self._running_job(container, query.get("host", ""))
        try:
            self._rights.require_own(caller, job)
            _require_target(job, target)
            if self._running.of(caller.uid) >= MOST_AT_ONCE:
                raise RefusedError(
                    "Too many connections at once",
                    msg(
                        "An account has {most_at_once} connections into containers at once.",
                        most_at_once=MOST_AT_ONCE,
                    ),
                    "Close a forward, or wait.",
                )
        except ConsoleError as error:
            self._record(caller, "connect", job.id, clean(target, 200), error.message)
            raise
        with self._running.one_more(caller.uid):
            engine = await self._session.hosts.engine(query.get("host", ""))
            stream = await engine.connect(container, target)
            try:
                self._note(caller, job, target)
                return await _passed_on(request, stream)
            finally:
                await stream.close()

    def _running_job(self, container: str, host: str) -> Job:
        for job in self._session.jobs():
            attempt = job.attempt if job.state is JobState.RUNNING else None
            for part in attempt.parts if attempt is not None else ():
                if container and (part.container_id, part.host) == (container, host):
                    return job
        raise UsageError("No such container", "No job of the lab's queue runs in it.")

    def _note(self, caller: Caller, job: Job, target: str) -> None:
        key, now = (caller.uid, job.id, target), self._clock()
        if now - self._recorded.get(key, float("-inf")) >= RECORD_AGAIN_S:
            self._record(caller, "connect", job.id, target, "")
            self._recorded = {
                key: at for key, at in self._recorded.items() if now - at < RECORD_AGAIN_S
            }
            self._recorded[key] = now


def _require_target(job: Job, target: str) -> None:
    """Raise UsageError for what is no port, nor the terminal of a session."""
    if target == SOCKET and job.task.kind == SESSION:
        return
    if not (target.isascii() and target.isdigit() and len(target) < 6 and 0 < int(target) < 65536):
        raise UsageError("No such port", msg("{value} is no port.", value=f"{clean(target, 40)!r}"))


async def _passed_on(request: web.Request, stream: ByteStream) -> web.StreamResponse:
    socket = web.WebSocketResponse(max_msg_size=2 * SENT_BYTES, compress=False)
    if not socket.can_prepare(request).ok:
        # Somebody asked only whether it can be: to learn why a WebSocket was refused.
        return web.Response()
    await socket.prepare(request)

    async def up() -> None:
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                await stream.write(message.data)
            elif message.type is WSMsgType.TEXT:
                await stream.write_eof()

    async def down() -> None:
        with contextlib.suppress(ConnectionError):
            while data := await stream.read():
                await socket.send_bytes(data)

    await first(up(), down())
    await socket.close()
    return socket


class CarriedStream:
    """A connection through the service, at the console. Implements `core.containers.ByteStream`."""

    def __init__(
        self, http: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse[Any]
    ) -> None:
        """Both are closed with it."""
        self._http, self._socket = http, socket

    async def read(self) -> bytes:
        """Return what came; b"" at the end."""
        while True:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return b""
            if message.data:
                data: bytes = message.data
                return data

    async def write(self, data: bytes) -> None:
        """Send bytes; dropped after the end."""
        with contextlib.suppress(ConnectionError):
            for begin in range(0, len(data), SENT_BYTES):
                await self._socket.send_bytes(data[begin : begin + SENT_BYTES])

    async def write_eof(self) -> None:
        """Say that nothing more comes."""
        with contextlib.suppress(ConnectionError):
            await self._socket.send_str(NO_MORE)

    async def close(self) -> None:
        """End the connection."""
        closing = asyncio.ensure_future(self._socket.close())
        try:
            await asyncio.wait((closing,), timeout=1.0)
        finally:
            await cancel_all([closing])
            await self._http.close()
