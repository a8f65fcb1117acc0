"""Waiting for something with a limit of time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


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
