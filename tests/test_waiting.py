"""Waiting with a limit: the result, the limit, and a cancellation at every moment."""

from __future__ import annotations

import asyncio
import time

import pytest

from gpuconsole.waiting import aligned_sleep, within


async def test_the_result_or_the_error_comes_through() -> None:
    async def result() -> int:
        return 7

    async def error() -> int:
        raise OSError("gone")

    assert await within(60, result()) == 7
    assert await within(None, result()) == 7
    with pytest.raises(OSError, match="gone"):
        await within(60, error())


async def test_what_takes_too_long_is_ended() -> None:
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, endless())
    assert ended.is_set()


async def test_a_result_that_comes_while_the_limit_ends_it_is_not_lost() -> None:
    async def stubborn() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 7
        return 0

    assert await within(0.01, stubborn()) == 7


async def test_a_cancellation_ends_what_is_awaited() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.ensure_future(within(60, endless()))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()


@pytest.mark.parametrize("error", [None, OSError("gone")])
async def test_a_cancellation_together_with_the_result_is_not_lost(error: Exception | None) -> None:
    """asyncio.wait_for fails this until Python 3.12: the task would run on, cancelled by nobody."""
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(within(60, result))
    await asyncio.sleep(0)
    if error is None:
        result.set_result(7)
    else:
        result.set_exception(error)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_result_that_nobody_gets_is_closed() -> None:
    result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    closed: list[str] = []
    waiting = asyncio.ensure_future(within(60, result, lost=closed.append))
    await asyncio.sleep(0)
    result.set_result("session")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert closed == ["session"]


@pytest.mark.parametrize(
    ("now", "seconds", "slept"),
    [(100.1, 1.0, 0.9), (100.4, 1.0, 1.1), (100.49, 0.5, 0.51), (100.1, 0.2, 0.2)],
)
async def test_who_looks_again_and_again_is_woken_at_a_half_second(
    now: float, seconds: float, slept: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    await aligned_sleep(seconds)
    assert waits == [pytest.approx(slept)]
