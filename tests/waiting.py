"""Waiting for conditions: no test waits for a time, and a busy machine fails none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

DEADLINE_S = 120.0
"""Seconds after which a condition is not expected to come true any more."""
BOUNDED_S = 30.0
"""CPU seconds that bounded work never takes, on no machine; what has no bound takes minutes."""
_LOOK_S = 0.005

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str = "") -> T:
    """Return what the condition returns once it is true."""
    end = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < end, f"not in time: {what or condition}"
        time.sleep(_LOOK_S)
    return found


async def until(condition: Callable[[], T | Awaitable[T]], what: str = "") -> T:
    """Return what the condition, or its coroutine, returns once it is true."""
    end = time.monotonic() + DEADLINE_S
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"not in time: {what or condition}"
        await asyncio.sleep(_LOOK_S)


def threads_work(loop: Any) -> bool:
    """Return whether a thread of `asyncio.to_thread` is at work, or work waits for one."""
    threads = loop._default_executor
    return threads is not None and (
        threads._work_queue.qsize() > 0 or threads._idle_semaphore._value < len(threads._threads)
    )
