"""The SDK's client on a unix socket of ours: every answer is bounded in bytes and in time.

What answers at the far end of the socket is not ours to trust. The bound is at the socket, below
everything that parses, so that no header, chunk, redirect, error or body gets around it:

    head of an answer     HEAD_BYTES, within the request's timeout
    a whole answer        ANSWER_BYTES (an error: ERROR_BYTES), within the same timeout
    a stream              its head alone; its reader bounds what follows

A stream is what is asked for below `BoundedClient.streams` instead of `base_url`.
"""

from __future__ import annotations

import contextlib
import socket
import time
import weakref
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import docker
import requests
import urllib3
from docker.transport import UnixHTTPAdapter
from docker.transport.unixconn import UnixHTTPConnection, UnixHTTPConnectionPool

from gpuconsole.core.units import MIB
from gpuconsole.core.wording import msg

HEAD_BYTES = 256 * 1024
ERROR_BYTES = 64 * 1024
"""An engine's reason for a refusal is a sentence."""
ANSWER_BYTES = 16 * MIB
"""Thousands of containers are listed in so much."""
ANSWER_VALUES = 400_000
"""Objects and lists in an answer: each takes twenty times as much memory as it has letters."""
SLOW_HEAD_S = 1800
"""For the head of an answer that an engine begins only after hard work: an image is packed, or a
registry asked, before its first byte comes."""
_ANSWERS, _STREAMS = "http+docker://localhost", "http+docker://stream"


class UnboundedAnswerError(Exception):
    """An engine's answer is larger than any honest answer. The text says what the engine did."""


class Wires:
    """The connections to one engine, of all its clients."""

    def __init__(self) -> None:
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def add(self, sock: socket.socket) -> None:
        """Learn of a connection."""
        self._sockets.add(sock)

    def cut(self) -> None:
        """End every call in progress, on whatever threads: each fails as if the way broke."""
        for sock in tuple(self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class BoundedClient(docker.APIClient):
    """A client of the engine behind a unix socket, with bounded answers."""

    streams = _STREAMS
    """What takes the place of `base_url` for answers that may have no end."""

    def __init__(self, path: str, timeout: int, wires: Wires) -> None:
        """`timeout` is for one whole answer, in seconds; `wires` learn of each connection.
        DockerException when the engine does not answer as one."""
        self._wires = wires
        self._path, self._patience = path, timeout
        super().__init__(base_url=f"unix://{path}", timeout=timeout)
        # A proxy or .netrc of the console's user has no say on a unix socket.
        self.trust_env = False

    def mount(self, prefix: str | bytes, adapter: requests.adapters.BaseAdapter) -> None:
        """Put the bounded adapters where the SDK puts its own."""
        if prefix != "http+docker://":
            super().mount(prefix, adapter)
            return
        for url, endless in ((_ANSWERS, False), (_STREAMS, True)):
            pool = _Pool(self._path, self._patience, self._wires, endless=endless)
            super().mount(url, _Adapter(pool))
        self.max_redirects = 0
        # An engine sets no cookies; those of another would be kept for ever.
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request; UnboundedAnswerError also for what would take much memory once read."""
        response = super().send(request, **kwargs)
        if not kwargs.get("stream"):
            values = response.content.count(b"{") + response.content.count(b"[")
            if values > ANSWER_VALUES:
                raise UnboundedAnswerError(
                    msg(
                        "sent more than {answer_values} objects and lists",
                        answer_values=ANSWER_VALUES,
                    )
                )
        return response


class _Socket(socket.socket):
    """A unix socket that is read within a budget."""

    _size = 0
    _left: int | None = None
    _until: float | None = None

    def budget(self, size: int | None, until: float | None) -> None:
        """Allow so many bytes until a moment of the monotonic clock; None means any."""
        self._size, self._left, self._until = size or 0, size, until
        self.settimeout(None)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read; TimeoutError when the time is over, UnboundedAnswerError when the bytes are."""
        if self._until is not None:
            seconds = self._until - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("timed out")
            self.settimeout(seconds)
        count = super().recv_into(buffer, nbytes, flags)
        if self._left is not None:
            self._left -= count
            if self._left < 0:
                raise UnboundedAnswerError(
                    msg("sent more than {size} KiB", size=self._size // 1024)
                )
        return count


class _Connection(UnixHTTPConnection):
    """A connection over a `_Socket`, which is bounded while an answer is read."""

    def __init__(self, pool: _Pool) -> None:
        super().__init__(pool.base_url, pool.socket_path, pool.patience)
        # Not the pool: urllib3 keeps a pool's connections until it is closed or collected, and
        # they would keep it, with their sockets, when a client is forgotten.
        self._wires, self._endless = pool.wires, pool.endless

    def connect(self) -> None:
        """Connect to the socket."""
        sock = _Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self.unix_socket)
        except BaseException:
            sock.close()
            raise
        self._wires.add(sock)
        self.sock = sock

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]
        """Read the head of the answer, and bound what comes after it."""
        sock = self.sock
        assert isinstance(sock, _Socket)
        until = None if self.timeout is None else time.monotonic() + self.timeout
        sock.budget(HEAD_BYTES, until)
        response: urllib3.HTTPResponse = super().getresponse()
        # Never unpacked: an engine does not pack, and a few bytes may unpack to any number.
        response.headers.discard("Content-Encoding")
        if response.status >= 400:
            sock.budget(ERROR_BYTES, until)
        elif self._endless:
            sock.budget(None, None)
        else:
            sock.budget(ANSWER_BYTES, until)
        return response


class _Pool(UnixHTTPConnectionPool):
    """Connections to one unix socket; `endless` answers are bounded by those who read them."""

    def __init__(self, path: str, patience: int, wires: Wires, *, endless: bool) -> None:
        super().__init__("http+docker://localhost", path, timeout=patience)
        self.patience = patience
        self.wires = wires
        self.endless = endless

    def _new_conn(self) -> _Connection:  # type: ignore[override]
        return _Connection(self)


class _Adapter(UnixHTTPAdapter):
    """Sends requests over the connections of one pool."""

    def __init__(self, pool: _Pool) -> None:
        super().__init__(f"http+unix://{pool.socket_path}")
        self._pool = pool

    def get_connection(self, url: str | bytes, proxies: object = None) -> _Pool:
        """Return the pool."""
        return self._pool

    def build_response(
        self, req: requests.PreparedRequest, resp: urllib3.BaseHTTPResponse
    ) -> requests.Response:
        """Return the response. Its encoding is never guessed: that takes seconds for a large
        one."""
        response = super().build_response(req, resp)
        response.encoding = "utf-8"
        return response

    def close(self) -> None:
        """Close the connections that rest."""
        self._pool.close()
        super().close()
