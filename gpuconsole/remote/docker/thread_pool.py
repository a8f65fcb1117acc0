"""Blocking calls of the Docker SDK on threads of their own, for one engine.

The SDK blocks; the event loop must not. Short calls share a small pool; a stream that may last
for days (a log, a pull) gets its own thread and a bounded buffer, so that neither can starve the
others, and a slow reader slows the engine down instead of filling memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

import requests
from docker.types import CancellableStream

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UnreachableError
from gpuconsole.remote.docker.errors import (
    BROKEN_CONNECTION,
    is_broken,
    translate,
    unreachable,
)
from gpuconsole.remote.docker.transport import BoundedClient, Wires
from gpuconsole.remote.links.protocol import Link
from gpuconsole.waiting import within

_LOG = logging.getLogger(__name__)
CALL_TIMEOUT_S = 60
"""For one answer of the engine: creating a container on a slow disk takes tens of seconds."""
THREADS = 8
"""Stopping a container holds one for its whole grace time."""
PING_S = 3.0
"""An engine that owes the smallest answer for so long does not answer at all."""
BUFFER_LIMIT = 256 * 1024
CHUNK = 16 * 1024

# Only what is built into a shell, as the account's PATH may lead nowhere. A socket that is not seen
# is absent if the nearest folder above it can be entered, else that is unknown.
_ABSENT, _NO_RIGHTS, _NO_SOCKET, _SHUT = 3, 4, 5, 6
_LOOK = (
    f'if test -S "$1"; then test -w "$1" && exit 0; exit {_NO_RIGHTS}; fi; '
    f'test -e "$1" && exit {_NO_SOCKET}; d=${{1%/*}}; '
    f'while test -n "$d"; do '
    f'if test -d "$d"; then test -x "$d" && exit {_ABSENT}; exit {_SHUT}; fi; d=${{d%/*}}; done; '
    f"exit {_ABSENT}"
)

T = TypeVar("T")
P = ParamSpec("P")


class DockerCalls:
    """The way to one host's engine: connects when first needed, and again after a break."""

    def __init__(self, link: Link, host: str, socket_path: str) -> None:
        self.host = host
        self._link = link
        self._socket_path = socket_path
        self._client: BoundedClient | None = None
        self._path = ""
        self._forwarding = asyncio.Lock()
        self._opening: asyncio.Task[BoundedClient] | None = None
        self._wires = Wires()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"engine-{host}")
        self._pulse = ThreadPoolExecutor(1, thread_name_prefix=f"engine-{host}-pulse")
        self._pumps: set[_Pump] = set()

    async def run(
        self,
        doing: str,
        function: Callable[Concatenate[BoundedClient, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return `function(client, ...)`, run on a thread.

        UnreachableError or EngineError; ConsoleErrors of the function itself pass through.
        """
        client = await self._connected(doing)
        try:
            return await self._on_thread(function, client, *args, **kwargs)
        except ConsoleError:
            raise
        except Exception as error:
            raise await self._explained(error, doing) from error

    async def stream(
        self, doing: str, opening: Callable[[BoundedClient], requests.Response]
    ) -> AsyncGenerator[bytes, None]:
        """Give the body of a response in chunks as they come."""
        client = await self._connected(doing)
        try:
            response = await self._on_thread(opening, client)
        except ConsoleError:
            raise
        except Exception as error:
            raise await self._explained(error, doing) from error
        pump = _Pump(response, asyncio.get_running_loop(), f"engine-{self.host}-stream")
        self._pumps.add(pump)
        try:
            async for chunk in pump.chunks():
                yield chunk
        except BROKEN_CONNECTION as error:
            raise unreachable(self.host, doing, error) from error
        finally:
            self._pumps.discard(pump)
            pump.close()

    async def connection(self, doing: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection of its own to the engine, for what is no request and answer."""
        async with self._forwarding:
            path = await self._link.forward_socket(self._socket_path)
        try:
            return await asyncio.open_unix_connection(path)
        except OSError as error:
            raise await self._fault() or unreachable(self.host, doing, error) from error

    async def ping(self) -> None:
        """Ask for a sign of life, past every other call; UnreachableError after PING_S without."""
        doing = "asking for a sign of life"
        try:
            await within(PING_S, self._ping(doing))
        except ConsoleError:
            raise
        except (asyncio.TimeoutError, requests.Timeout) as error:
            # A frozen engine is no reason to connect again.
            raise unreachable(self.host, doing, asyncio.TimeoutError()) from error
        except Exception as error:
            raise await self._explained(error, doing) from error

    async def close(self) -> None:
        """Let go of the engine; what runs there runs on."""
        for pump in tuple(self._pumps):
            pump.close()
        # A call that hangs must not keep the console from leaving.
        self._wires.cut()
        if self._client is not None:
            self._client.close()
            self._client = None
        for threads in (self._threads, self._pulse):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _ping(self, doing: str) -> None:
        client = await self._connected(doing)
        ask = functools.partial(client.get, f"{client.base_url}/_ping", timeout=PING_S)
        await asyncio.get_running_loop().run_in_executor(self._pulse, ask)

    async def _on_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _connected(self, doing: str) -> BoundedClient:
        async with self._forwarding:
            # Asked each time: a link that was lost forwards again, perhaps from elsewhere.
            path = await self._link.forward_socket(self._socket_path)
        if self._client is not None and path == self._path:
            return self._client
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open(path))
            self._opening.add_done_callback(_retrieved)
        try:
            # One for all who wait: a frozen engine must not get a thread for each.
            return await asyncio.shield(self._opening)
        except Exception as error:
            raise await self._explained(error, doing) from error

    async def _open(self, path: str) -> BoundedClient:
        client = await self._on_thread(BoundedClient, path, CALL_TIMEOUT_S, self._wires)
        self._client, self._path = client, path
        return client

    async def _explained(self, error: Exception, doing: str) -> Exception:
        """Return the console's error; a broken way is forgotten and its far end looked at."""
        _LOG.info("%s, while %s: %r", self.host, doing, error)
        if not is_broken(error):
            return translate(error, self.host, doing)
        self._client = None
        return await self._fault() or unreachable(self.host, doing, error)

    async def _fault(self) -> UnreachableError | None:
        """Say what is wrong with the socket at the host's end, as far as one can see there."""
        done = await self._link.run(["/bin/sh", "-c", _LOOK, "sh", self._socket_path])
        if done.exit_status == 0:
            return None
        said = clean(done.stderr.decode(errors="replace").strip(), 200)
        return socket_fault(self.host, self._socket_path, done.exit_status, said)


def socket_fault(host: str, path: str, status: int, said: str) -> UnreachableError:
    """Return the error for a look at a socket (`_LOOK`) that ended with a status other than 0."""
    if status == _ABSENT:
        return UnreachableError(
            "Docker is not there",
            msg("{host} has no Docker socket at {path}.", host=host, path=path),
            "Start Docker there (`sudo systemctl start docker`), or name another "
            "`docker_socket` in the inventory.",
        )
    if status == _NO_SOCKET:
        return UnreachableError(
            "Docker is not there",
            msg("{path} on {host} is no socket.", path=path, host=host),
            "Name the engine's socket as `docker_socket` in the inventory.",
        )
    if status in (_NO_RIGHTS, _SHUT):
        may_not = "write to" if status == _NO_RIGHTS else "enter the folder of"
        return UnreachableError(
            "Docker refuses this account",
            msg(
                "The account used on {host} may not {may_not} {path}.",
                host=host,
                may_not=may_not,
                path=path,
            ),
            "Add it to the group that owns the socket (`sudo usermod -aG docker NAME`), "
            "then connect again.",
        )
    return UnreachableError(
        "Docker does not answer",
        msg(
            "{host}: its socket {path} could not be looked at either: {value}.",
            host=host,
            path=path,
            value=said or f"exit status {status}",
        ),
        "Log in there as this account and try `docker info`.",
    )


def _retrieved(opening: asyncio.Task[BoundedClient]) -> None:
    """Wake the tasks that still wait."""
    if not opening.cancelled():
        opening.exception()


class _Pump:
    """A thread that reads a response into a bounded buffer, which the event loop empties."""

    def __init__(
        self, response: requests.Response, loop: asyncio.AbstractEventLoop, name: str
    ) -> None:
        self._loop = loop
        self._response = response
        self._buffer = bytearray()
        self._room = threading.Condition()
        self._news = asyncio.Event()
        self._ended = False
        self._closed = False
        self._error: Exception | None = None
        # A daemon: a hung engine must not keep the console from leaving.
        threading.Thread(target=self._read, name=name, daemon=True).start()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Give what has been read so far, then wait for more, until the end."""
        while True:
            await self._news.wait()
            self._news.clear()
            with self._room:
                chunk, ended = bytes(self._buffer), self._ended
                self._buffer.clear()
                self._room.notify()
            if chunk:
                yield chunk
            if ended:
                if self._error is not None:
                    raise self._error
                return

    def close(self) -> None:
        """End the reading; safe to call twice."""
        # Closing the response would wait for the read in progress: shut the socket down under it.
        with self._room:
            already, self._closed = self._closed, True
            self._room.notify()
        if not already:
            with contextlib.suppress(OSError, AttributeError, ValueError):
                CancellableStream(iter(()), self._response).close()

    def _read(self) -> None:
        try:
            for chunk in self._response.iter_content(CHUNK):
                with self._room:
                    self._room.wait_for(lambda: len(self._buffer) < BUFFER_LIMIT or self._closed)
                    if self._closed:
                        return
                    self._buffer += chunk
                self._tell()
        except BROKEN_CONNECTION as error:
            self._error = error
        finally:
            self._ended = True
            self._tell()

    def _tell(self) -> None:
        # News not taken yet covers this too: the reader clears it before it takes the buffer.
        if self._news.is_set():
            return
        # The loop may have ended while the thread was still reading.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.set)
