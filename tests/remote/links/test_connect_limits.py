"""A live host is connected to soon, however many dead ones there are."""

from __future__ import annotations

import asyncio

import pytest

from gpuconsole.remote.links import connect_limits
from gpuconsole.remote.links.connect_limits import ConnectGate
from gpuconsole.waiting import within

PATIENCE_S = 120.0


async def test_dead_hosts_give_their_places_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_limits, "SLOW_S", 0.01)
    gate, never, up = ConnectGate(8), asyncio.Event(), []

    async def connect(name: int, alive: bool) -> None:
        async with gate.turn(0):
            if not alive:
                await never.wait()
            up.append(name)

    dead = [asyncio.ensure_future(connect(number, False)) for number in range(27)]
    live = [asyncio.ensure_future(connect(number, True)) for number in range(27, 30)]
    # The dead never answer here: without giving way they would hold all places for ever.
    await within(PATIENCE_S, asyncio.gather(*live))
    assert up == [27, 28, 29]
    assert not any(task.done() for task in dead)
    never.set()
    await within(PATIENCE_S, asyncio.gather(*dead))
    # All places are free again, and none twice.
    assert gate._free == 8


async def test_no_more_than_the_places_connect_at_once() -> None:
    gate, most, now = ConnectGate(3), 0, 0

    async def connect() -> None:
        nonlocal most, now
        async with gate.turn(0):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(connect() for _ in range(20)))
    assert most == 3


async def test_a_first_try_comes_before_the_second_of_another() -> None:
    gate, hold, order = ConnectGate(1), asyncio.Event(), []

    async def connect(name: str, failures: int) -> None:
        async with gate.turn(failures):
            if name == "first":
                await hold.wait()
            order.append(name)

    names = (("first", 0), ("failed twice", 2), ("failed once", 1), ("never tried", 0))
    tasks = [asyncio.ensure_future(connect(*one)) for one in names]
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(*tasks)
    assert order == ["first", "never tried", "failed once", "failed twice"]


async def test_a_place_given_to_one_that_was_cancelled_goes_on() -> None:
    gate, hold = ConnectGate(1), asyncio.Event()

    async def connect(wait: bool) -> None:
        async with gate.turn(0):
            if wait:
                await hold.wait()

    holder = asyncio.ensure_future(connect(True))
    await asyncio.sleep(0)
    waiter = asyncio.ensure_future(connect(False))
    await asyncio.sleep(0)
    hold.set()
    await holder
    # It has the place now, and has not run yet.
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    await within(PATIENCE_S, connect(False))
    assert gate._free == 1
