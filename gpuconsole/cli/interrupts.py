"""Ctrl-C where it ends a part of a command, not all of it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import TypeVar

Answer = TypeVar("Answer")
_Handler = Callable[[int, FrameType | None], object]


async def until_interrupted(work: Awaitable[Answer]) -> Answer | None:
    """Return what is awaited; None after Ctrl-C, which cancels it. Another Ctrl-C ends all."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    interrupted = False

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        held.close()
        loop.call_soon_threadsafe(task.cancel)

    with contextlib.ExitStack() as held:
        held.enter_context(_handled(hear))
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            raise
    return None if interrupted and task.cancelled() else task.result()


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Let Ctrl-C end a question, and with it the command, whatever it does otherwise."""
    with _handled(signal.default_int_handler):
        yield


@contextlib.contextmanager
def _handled(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's.
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def stopping(stop: asyncio.Event) -> Iterator[None]:
    """Set the event at a signal that asks to end, instead of being interrupted."""
    from gpuconsole.tui.runtime.signals import ending

    with ending(lambda _: stop.set()):
        yield
