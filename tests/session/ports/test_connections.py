"""In which pause of a connection its far end may leave."""

from __future__ import annotations

import asyncio

from gpuconsole.session.ports.connections import PAUSE_LOOK_S, Pauses


class HandClock:
    """A clock that a sleep moves on."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_only_between_two_requests_and_once_its_replica_is_to_leave() -> None:
    clock, least = HandClock(), None
    pauses = Pauses(clock)
    waiting = asyncio.ensure_future(pauses.until(lambda: least))
    await turns(50)
    assert not waiting.done(), "its replica stays"
    pauses.asked()
    least = 2.0
    await turns(50)
    assert not waiting.done(), "an answer is awaited"
    pauses.answered()
    answered_at = clock.now()
    await turns(50)
    assert waiting.done()
    assert 2.0 <= clock.now() - answered_at <= 2.0 + 2 * PAUSE_LOOK_S


async def test_one_over_which_nothing_was_said_goes_too() -> None:
    clock = HandClock()
    pauses = Pauses(clock)
    await asyncio.wait_for(pauses.until(lambda: 1.0), 5.0)
    assert clock.now() >= 101.0
