"""Copies of the lab's logs on this console, for as long as somebody looks at them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpuconsole.core.file_trust import private
from gpuconsole.errors import ConsoleError, RefusedError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.lab_service.console.client import LabClient
from gpuconsole.session.logs.follow import log_file
from gpuconsole.state.filesystem import make_folder

AGAIN_S = 2.0
"""Pause before a log is asked for again after the service was away."""
PACE_S = 0.25
"""Pause between two requests for a log that is being written."""
_Key = tuple[str, int, int]
"""A job, an attempt, and a rank."""


class LogCopies:
    """Copies logs from the service into the files in which screens look for them."""

    def __init__(self, client: LabClient, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._running: dict[_Key, asyncio.Task[None]] = {}
        self._whole: set[_Key] = set()

    def want(self, job_id: str, attempt: int, rank: int) -> None:
        """Copy a log from now on, to its end."""
        key = (job_id, attempt, rank)
        if key not in self._whole and key not in self._running:
            task = self._running[key] = asyncio.ensure_future(self._follow(key))
            task.add_done_callback(lambda _: self._running.pop(key, None))

    async def now(self, job_id: str, attempt: int, rank: int) -> None:
        """Copy what there is of a log now. ConsoleError where it cannot be had."""
        key = (job_id, attempt, rank)
        if key in self._whole:
            return
        path, data, over = self._path(key), b"-", False
        while data and not over:
            data, over = await self._client.log(*key, _size(path), wait=False)
            await asyncio.to_thread(_append, path, data)
        if over:
            self._whole.add(key)

    def is_followed(self, job_id: str, attempt: int, rank: int) -> bool:
        """Tell whether a log is being copied as it grows."""
        return (job_id, attempt, rank) in self._running

    def is_whole(self, job_id: str, attempt: int, rank: int) -> bool:
        """Tell whether a log is here to its end, or never will be."""
        key = (job_id, attempt, rank)
        return key in self._whole

    async def close(self) -> None:
        """Copy no more."""
        await cancel_all(tuple(self._running.values()))

    async def _follow(self, key: _Key) -> None:
        path, over = self._path(key), False
        while not over:
            try:
                data, over = await self._client.log(*key, _size(path), wait=True)
                await asyncio.to_thread(_append, path, data)
                if not over:
                    await asyncio.sleep(PACE_S)
            except (RefusedError, UsageError):
                # It is somebody else's, or gone: nothing will come.
                break
            except (ConsoleError, OSError):
                await asyncio.sleep(AGAIN_S)
        self._whole.add(key)

    def _path(self, key: _Key) -> Path:
        return log_file(self._folder, *key)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _append(path: Path, data: bytes) -> None:
    make_folder(path.parent)
    with open(path, "ab", opener=private) as file:
        file.write(data)
