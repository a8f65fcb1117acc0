"""What answers inside a simulated container: a page on every port."""

from __future__ import annotations

import asyncio

HEAD_LIMIT = 64 * 1024


class SimulatedPort:
    """A connection to a port on which a small web server answers each request with one page.

    Implements `core.containers.ByteStream`.
    """

    def __init__(self, page: str) -> None:
        self._page = page.encode()
        self._asked = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        """Return an answer; b"" at the end."""
        return await self._answers.get()

    async def write(self, data: bytes) -> None:
        """Take requests; one of HTTP/1.0 or of an endless head ends the connection."""
        self._asked += data
        while b"\r\n\r\n" in self._asked:
            asked, _, self._asked = self._asked.partition(b"\r\n\r\n")
            head = (
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Content-Length: {len(self._page)}\r\n\r\n"
            )
            self._answers.put_nowait(head.encode() + self._page)
            if asked.split(b"\r\n", 1)[0].endswith(b" HTTP/1.0"):
                await self.close()
                return
        if len(self._asked) > HEAD_LIMIT:
            await self.close()

    async def write_eof(self) -> None:
        """End, as no more is asked."""
        await self.close()

    async def close(self) -> None:
        """End the connection."""
        self._answers.put_nowait(b"")
