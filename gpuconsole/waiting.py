"""Waiting: with a limit of time, and so that many are woken at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
BEAT_S = 0.5
"""Who waits for so long or longer is woken when others are."""


async def aligned_sleep(seconds: float) -> None:
    """Return after that many seconds; after half a second or more, at the nearest half second of
    the clock.

    Who looks for something again and again waits so: to be woken a dozen times a second, each time
    for little, costs more than what is looked for.
    """
    if seconds >= BEAT_S:
        now = time.time()
        seconds = round((now + seconds) / BEAT_S) * BEAT_S - now
    await asyncio.sleep(seconds)


async def within(
    seconds: float | None, doing: Awaitable[T], *, lost: Callable[[T], object] | None = None
) -> T:
    """Return what is awaited; asyncio.TimeoutError when that takes longer, and then it is ended.

    `asyncio.wait_for` of Python 3.10 and 3.11 loses a cancellation that comes in the same turn of
    the event loop as the result, and the task that was cancelled runs on. This one never does:
    the result is lost instead, and `lost` is called with it to close what it represents.
    """
    task = asyncio.ensure_future(doing)
    try:
        done, _ = await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await _end(task)
        if lost is not None and not task.cancelled() and task.exception() is None:
            lost(task.result())
        raise
    if not done:
        await _end(task)
        if task.cancelled():
            raise asyncio.TimeoutError
    return task.result()


async def _end(task: asyncio.Future[T]) -> None:
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        # Looked at, so that it is not reported as an error that was never retrieved.
        task.exception()
