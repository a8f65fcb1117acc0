"""What a command prints, waiting for its reader: bounded whatever the sender does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gpuconsole.remote.links.wakeups import Wakeups

HIGH_WATER = 256
"""Waiting items at which the sender is paused."""
LOW_WATER = 64


class ChunkQueue:
    """Chunks as they arrive. `pause(True)` asks the transport to stop reading; with `wakeups` the
    reader is woken together with others."""

    def __init__(self, pause: Callable[[bool], None], wakeups: Wakeups | None = None) -> None:
        self._pause = pause
        self._wakeups = wakeups
        self._paused = False
        self._items: deque[bytes] = deque()
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        """Take a chunk."""
        self._items.append(data)
        self._arrived()

    def end(self) -> None:
        """No more chunks will come."""
        self._ended = True
        self._wake()

    async def next(self) -> bytes | None:
        """Return the next item, or None after the last one."""
        while not self._items:
            if self._ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._items.popleft()
        if self._paused and len(self._items) < LOW_WATER:
            self._paused = False
            if not self._ended:
                self._pause(False)
        return item

    def _arrived(self) -> None:
        if len(self._items) > HIGH_WATER and not self._paused and not self._ended:
            self._paused = True
            self._pause(True)
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if self._wakeups is not None:
            self._wakeups.wake(waiter)
        else:
            waiter.set_result(None)


class LineQueue(ChunkQueue):
    """Lines out of chunks.

    A line longer than `limit` comes cut, the rest of it is dropped as it arrives, so that an
    endless line costs no memory.
    """

    def __init__(
        self, limit: int, pause: Callable[[bool], None], wakeups: Wakeups | None = None
    ) -> None:
        super().__init__(pause, wakeups)
        self._limit = limit
        self._partial = b""
        self._cutting = False

    def feed(self, data: bytes) -> None:
        """Take a chunk."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if not self._cutting:
                self._items.append((self._partial + piece)[: self._limit])
            self._partial = b""
            self._cutting = False
        if not self._cutting:
            self._partial += rest
            if len(self._partial) > self._limit:
                # Hand the cut line over at once: an endless line must be noticed, not awaited.
                self._items.append(self._partial[: self._limit])
                self._partial = b""
                self._cutting = True
        if self._items:
            self._arrived()

    def end(self) -> None:
        """No more chunks will come; what is unfinished counts as a line."""
        if self._partial:
            self._items.append(self._partial)
            self._partial = b""
        super().end()
