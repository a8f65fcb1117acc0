"""Posting incidents to a web address: aside, in order, with time limits; a failure is told once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from gpuconsole.core.text import clean

TIMEOUT_S = 5.0
WAITING = 100
"""Documents that may wait; where the receiver is slower than that the oldest are given up."""


class Webhook:
    """Posts JSON documents to one address. `told` gets a sentence when it stops to work."""

    def __init__(self, url: str, told: Callable[[str], None]) -> None:
        self._url = url
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
                self._told(f"Incidents cannot be posted to {clean(self._url, 200)}: {trouble}")
            self._failing = bool(trouble)


def _posted(url: str, body: bytes) -> str:
    """Post once; return what went wrong as words, or ""."""
    # Only who has a webhook pays for the import.
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """A redirect could lead the document anywhere."""

        def redirect_request(self, *args: object, **more: object) -> None:
            """Follow none."""

    request = urllib.request.Request(
        url, body, {"Content-Type": "application/json", "User-Agent": "gpuconsole"}, method="POST"
    )
    if request.type not in ("http", "https"):
        return "it is no web address"
    try:
        opener = urllib.request.build_opener(NoRedirect)
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        with error:
            return f"it answered {error.code} {clean(str(error.reason), 200)}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return clean(str(reason), 200) or type(error).__name__
    return ""
