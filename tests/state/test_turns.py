"""One measurement at a time for a state folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpuconsole.state.consent import LocalConsent
from gpuconsole.state.turns import measuring_turn


async def test_the_second_waits_until_the_first_is_over(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = asyncio.Event()

    async def soon(seconds: float) -> None:
        await asyncio.sleep(0)

    async def second() -> None:
        async with measuring_turn(tmp_path, soon, waiting.set):
            order.append("second")

    async with measuring_turn(tmp_path, soon, lambda: order.append("waited")):
        work = asyncio.ensure_future(second())
        await waiting.wait()
        order.append("first")
    await work
    assert order == ["first", "second"]


async def test_who_is_cancelled_while_waiting_takes_no_turn(tmp_path: Path) -> None:
    async def soon(seconds: float) -> None:
        await asyncio.sleep(0)

    async def take(waits: asyncio.Event) -> None:
        async with measuring_turn(tmp_path, soon, waits.set):
            raise AssertionError("it is not its turn")

    async with measuring_turn(tmp_path, soon, lambda: None):
        waits = asyncio.Event()
        work = asyncio.ensure_future(take(waits))
        await waits.wait()
        work.cancel()
        await asyncio.wait([work])
        assert work.cancelled()
    async with measuring_turn(tmp_path, soon, lambda: None):
        pass


def test_consent_is_kept(tmp_path: Path) -> None:
    consent = LocalConsent(tmp_path / "state")
    assert not consent.given
    consent.give()
    assert LocalConsent(tmp_path / "state").given
