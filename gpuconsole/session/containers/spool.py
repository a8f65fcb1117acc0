"""A stream kept in a file of bounded size, for as long as somebody looks at it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

MOST = 128 * 2**20
"""Bytes after which the older half is dropped."""


class Spool:
    """A file in a folder of its own, which only this account can read."""

    def __init__(self, most: int = MOST) -> None:
        """Keep at most `most` bytes."""
        self._folder = Path(tempfile.mkdtemp(prefix="gpuconsole-log-"))
        self.path = self._folder / "log"
        self._most = most
        self._size = 0
        self.path.touch(0o600)

    async def fill(self, chunks: AsyncGenerator[bytes, None]) -> None:
        """Write what comes until its end; what it raises is raised. OSError where the disk takes
        no more."""
        async with aclosing(chunks):
            async for chunk in chunks:
                await asyncio.to_thread(self._write, chunk)

    def close(self) -> None:
        """Remove the file."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, chunk: bytes) -> None:
        with self.path.open("ab", buffering=0) as file:
            view = memoryview(chunk)
            while view:
                view = view[file.write(view) :]
        self._size += len(chunk)
        if self._size > self._most:
            self._drop_older()

    def _drop_older(self) -> None:
        """Keep the newer half, from the beginning of a line on where there is one."""
        with self.path.open("rb") as file:
            file.seek(self._size - self._most // 2)
            newest = file.read()
        at = newest.find(b"\n") + 1
        newest = newest[at:]
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(newest)
        os.replace(fresh, self.path)
        self._size = len(newest)
