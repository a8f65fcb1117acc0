"""A transfer that is given up leaves its source alone, whatever its thread was about to do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuconsole.remote.docker.image_store import Feed


async def test_a_thread_that_was_about_to_read_does_not_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread has passed on its request; before the loop reads it the transfer ends."""
    loop = asyncio.get_running_loop()
    requested, given = threading.Event(), 0
    soon = loop.call_soon_threadsafe

    def noted(*args: Any, **options: Any) -> asyncio.Handle:
        try:
            return soon(*args, **options)
        finally:
            requested.set()

    async def source() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            await asyncio.sleep(0)
            yield b"chunk"

    chunks = source()
    feed = Feed(chunks, loop)
    assert await asyncio.to_thread(next, feed) == b"chunk"
    monkeypatch.setattr(loop, "call_soon_threadsafe", noted)
    got: list[object] = []

    def read() -> None:
        try:
            got.append(next(feed))
        except OSError as error:
            got.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    # The loop is idle meanwhile.
    assert requested.wait(60)
    async with contextlib.aclosing(chunks):  # type: ignore[type-var]
        await feed.close()
        monkeypatch.undo()
        await asyncio.to_thread(thread.join, 60)
    assert got == ["the transfer was given up"]
    assert given == 1
