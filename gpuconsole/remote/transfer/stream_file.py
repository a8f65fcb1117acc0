"""A stream of the event loop that a thread reads as a file, a few chunks ahead at most."""

from __future__ import annotations

import asyncio
import contextlib
import io
import queue
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

CHUNKS = 8
"""Chunks that wait for the thread; more are not taken from the stream."""


T = TypeVar("T")


class Feed(io.RawIOBase):
    """Passes to a thread what a coroutine receives; an error of the stream is raised there."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(CHUNKS)
        self._chunk = memoryview(b"")
        self._ended = False

    @classmethod
    async def through(cls, chunks: AsyncIterator[bytes], work: Callable[[Feed], T]) -> T:
        """Return what `work` makes of a stream, on a thread; it has ended when this has, also when
        this is cancelled."""
        feed = cls()
        working = asyncio.ensure_future(asyncio.to_thread(work, feed))
        try:
            async with feed.filled(chunks):
                return await asyncio.shield(working)
        finally:
            await asyncio.gather(working, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def filled(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[Feed, None]:
        """Fill it from a stream while the context lasts; a thread that reads on then finds an
        error."""
        filling = asyncio.ensure_future(self._fill(chunks))
        try:
            yield self
        finally:
            filling.cancel()
            self._waiting.put(EOFError("the stream was given up"))
            await asyncio.wait([filling])

    def read(self, size: int = -1) -> bytes:
        """Return up to so many bytes, as they come; none at the end."""
        while not self._chunk and not self._ended:
            item = self._waiting.get()
            if isinstance(item, Exception):
                self._ended = True
                raise item
            self._ended = not item
            self._chunk = memoryview(item)
            # The loop may have ended while the thread was still reading.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._room.release)
        size = len(self._chunk) if size < 0 else size
        piece, self._chunk = bytes(self._chunk[:size]), self._chunk[size:]
        return piece

    async def _fill(self, chunks: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in chunks:
                if chunk:
                    await self._room.acquire()
                    self._waiting.put(chunk)
            self._waiting.put(b"")
        except Exception as error:
            self._waiting.put(error)
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
