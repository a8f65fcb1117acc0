"""A bound on connections: no account can take all of them, and none is held without a request."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from typing import cast

from gpuconsole.session.lab_service.http.callers import caller_of

MOST = 256
"""Connections of one account at once: consoles, commands and logs that are followed."""
FIRST_S = 30.0
"""How long a connection may say nothing at first."""
_FILES = 65536
"""Open files that are enough for some hundred accounts."""


def make_room() -> None:
    """Let this process open as many files as the connections of many accounts need: by default a
    few accounts could use up all of them, those of links to hosts too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Gate:
    """Makes the protocol of each connection, as a server's factory."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        self.open: Counter[int] = Counter()

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Counted(self._make(), self.open)


class _Counted(asyncio.Protocol):
    """Passes everything on to a protocol, unless its account has too many already."""

    def __init__(self, inner: asyncio.Protocol, open_: Counter[int]) -> None:
        self._inner = inner
        self._open = open_
        self._uid: int | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        uid = caller_of(transport).uid
        link = cast(asyncio.Transport, transport)
        if self._open[uid] >= MOST:
            link.abort()
            return
        self._uid = uid
        self._open[uid] += 1
        self._patience = asyncio.get_running_loop().call_later(FIRST_S, link.abort)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._uid is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._uid is not None else None

    def pause_writing(self) -> None:
        if self._uid is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._uid is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._uid is not None:
            self._open[self._uid] -= 1
            if not self._open[self._uid]:
                del self._open[self._uid]
            self._inner.connection_lost(exc)
