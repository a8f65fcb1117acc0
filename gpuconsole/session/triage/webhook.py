"""Posting incidents to a web address: aside, in order, with time limits; a failure is told once.

Such an address is often itself a password: of a failure only its host is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from gpuconsole.core.secrets import masked
from gpuconsole.core.text import clean

TIMEOUT_S = 5.0
LONG_WORD = 12
"""Letters of a part of an address that may be a password by itself."""
WAITING = 100
"""Documents that may wait; where the receiver is slower than that the oldest are given up."""


class Webhook:
    """Posts JSON documents to one address. `told` gets a sentence when it stops to work."""

    def __init__(self, url: str, told: Callable[[str], None]) -> None:
        self._url = url
        self._host = host_of(url)
        self._told = told
        self._documents: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._failing = False

    def post(self, document: Mapping[str, Any]) -> None:
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
            trouble = await asyncio.to_thread(_posted, self._url, json.dumps(document).encode())
            if trouble and not self._failing:
                self._told(f"Incidents cannot be posted to {self._host}: {trouble}")
            self._failing = bool(trouble)


def host_of(url: str) -> str:
    """Return the host of an address and its port, never a part that may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "its address", parts.port
    except ValueError:
        host, port = "its address", None
    return clean(host if port is None else f"{host}:{port}", 200)


def _posted(url: str, body: bytes) -> str:
    """Post once; return what went wrong as words without the address, or ""."""
    trouble = _failure(url, body)
    return masked(clean(trouble, 200), _secret_parts(url))


def _secret_parts(url: str) -> Iterator[str]:
    """Give the parts of an address by which somebody could post to it."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        yield from (url, parts.path, parts.query, parts.username or "", parts.password or "")
        words = re.split(r"[/&=]", f"{parts.path}&{parts.query}")
        yield from (word for word in words if len(word) >= LONG_WORD)


def _failure(url: str, body: bytes) -> str:
    # Only who has a webhook pays for the import.
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """A redirect could lead the document anywhere."""

        def redirect_request(self, *args: object, **more: object) -> None:
            """Follow none."""

    kind = {"Content-Type": "application/json", "User-Agent": "gpuconsole"}
    try:
        request = urllib.request.Request(url, body, kind, method="POST")
        if request.type not in ("http", "https"):
            return "it is no web address"
        opener = urllib.request.build_opener(NoRedirect)
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        with error:
            return f"it answered {error.code} {error.reason}"
    except (ValueError, http.client.InvalidURL):
        return "it is no valid address"
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return str(reason) or type(error).__name__
    return ""
