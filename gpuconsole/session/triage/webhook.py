"""Posting incidents to a web address: in the background, in order, with time limits; a failure is
reported once.

Such an address is often itself a password: of a failure only its host is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from gpuconsole.core.text import clean
from gpuconsole.session.messages.webhooks import sent

TIMEOUT_S = 5.0
WAITING = 100
"""Documents that may wait; where the receiver is slower than that the oldest are given up."""


class Webhook:
    """Posts JSON documents to one address. `report` is called with a sentence when it stops
    working."""

    def __init__(self, url: str, report: Callable[[str], None]) -> None:
        self._url = url
        self._host = host_of(url)
        self._report = report
        self._documents: asyncio.Queue[Mapping[str, object]] = asyncio.Queue()
        self._failing = False

    def post(self, document: Mapping[str, object]) -> None:
        """Have a document posted; returns at once."""
        if not self._url:
            return
        while self._documents.qsize() >= WAITING:
            self._documents.get_nowait()
        self._documents.put_nowait(document)

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            document = await self._documents.get()
            reply = await sent(self._url, document, timeout_s=TIMEOUT_S)
            trouble = reply.trouble
            if not trouble and not 200 <= reply.status < 300:
                trouble = f"it answered {reply.status}"
            if trouble and not self._failing:
                self._report(f"Incidents cannot be posted to {self._host}: {trouble}")
            self._failing = bool(trouble)


def host_of(url: str) -> str:
    """Return the host of an address and its port, never a part that may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "its address", parts.port
    except ValueError:
        host, port = "its address", None
    return clean(host if port is None else f"{host}:{port}", 200)
