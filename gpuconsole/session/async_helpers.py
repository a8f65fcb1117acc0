"""Waiting for one of several things without leaving the others behind (Python 3.10 has no
TaskGroup)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
Work = Coroutine[Any, Any, T]
"""What a call of an `async def` returns: it begins to run once it is awaited, or made a task."""


async def first(*awaitables: Work[object]) -> set[int]:
    """Run all until one is done; cancel the others and wait for their end.

    Returns the places of those done. The exception of one that failed is raised here.
    """
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        places = {place for place, task in enumerate(tasks) if task in done}
    finally:
        await cancel_all(tasks)
    for place in places:
        tasks[place].result()
    return places


async def together(*awaitables: Work[object]) -> None:
    """Run all until each is done, or one fails: the others are cancelled then, and its exception
    is raised."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


async def to_its_end(work: Work[T], patience: Callable[[], Work[object]]) -> T:
    """Run work that a cancellation must not cut: it goes on to its end, or until `patience` is
    over, before the cancellation does."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await first(_settled(task), patience())
        raise
    finally:
        task.cancel()


async def _settled(task: asyncio.Future[T]) -> None:
    # How it ended is of no interest to those who were cancelled.
    await asyncio.gather(asyncio.shield(task), return_exceptions=True)


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until each has really ended; how they ended is theirs."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.gather(*waiting, return_exceptions=True)


def raise_faults(tasks: Iterable[asyncio.Future[None]]) -> None:
    """Raise what ended tasks that should have run until they were cancelled."""
    for task in tasks:
        if not task.cancelled():
            task.result()
