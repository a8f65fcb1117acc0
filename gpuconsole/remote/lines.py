"""Lines out of chunks of bytes, bounded in length and in number whatever the sender does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

HIGH_WATER = 256
"""Waiting lines at which the sender is paused."""
LOW_WATER = 64


class LineQueue:
    """Split chunks into lines that a reader awaits.

    A line longer than `limit` comes cut, the rest of it is dropped as it arrives, so that an
    endless line costs no memory. `pause(True)` asks the transport to stop reading.
    """

    def __init__(self, limit: int, pause: Callable[[bool], None]) -> None:
        self._limit = limit
        self._pause = pause
        self._paused = False
        self._lines: deque[bytes] = deque()
        self._partial = b""
        self._cutting = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        """Take a chunk."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if not self._cutting:
                self._lines.append((self._partial + piece)[: self._limit])
            self._partial = b""
            self._cutting = False
        if not self._cutting:
            self._partial += rest
            if len(self._partial) > self._limit:
                # Hand the cut line over at once: an endless line must be noticed, not awaited.
                self._lines.append(self._partial[: self._limit])
                self._partial = b""
                self._cutting = True
        if len(self._lines) > HIGH_WATER and not self._paused:
            self._paused = True
            self._pause(True)
        self._wake()

    def end(self) -> None:
        """No more chunks will come; what is unfinished counts as a line."""
        if self._ended:
            return
        if self._partial:
            self._lines.append(self._partial)
            self._partial = b""
        self._ended = True
        self._wake()

    async def next(self) -> bytes | None:
        """Return the next line, or None after the last one."""
        while not self._lines:
            if self._ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        line = self._lines.popleft()
        if self._paused and len(self._lines) < LOW_WATER:
            self._paused = False
            if not self._ended:
                self._pause(False)
        return line

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
