"""One measurement at a time for a state folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpuconsole.state.files.consent import LocalConsent
from gpuconsole.state.files.measurement_turn import free_turn, left_on, measuring_turn


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


def test_consent_holds_for_what_was_agreed_to_and_for_more(tmp_path: Path) -> None:
    consent = LocalConsent(tmp_path / "state")
    assert not consent.covers("bubblewrap")
    consent.give("bubblewrap")
    later = LocalConsent(tmp_path / "state")
    assert later.covers("bubblewrap")
    assert not later.covers("files-open")
    consent.give("files-open")
    consent.give("files-open")
    assert later.covers("files-open")
    assert (tmp_path / "state" / "measured-here").read_text() == "files-open\n"


def test_consent_of_an_earlier_version_holds_under_bubblewrap_alone(tmp_path: Path) -> None:
    (tmp_path / "measured-here").touch()
    assert LocalConsent(tmp_path).covers("bubblewrap")
    assert not LocalConsent(tmp_path).covers("files-open")


async def test_a_note_outlives_its_process_and_names_nothing_while_another_measures(
    tmp_path: Path,
) -> None:
    assert left_on(tmp_path) == ""
    async with measuring_turn(tmp_path, asyncio.sleep, lambda: None) as turn:
        turn.note("gpu-01")
        # Its process may yet remove what it makes.
        assert left_on(tmp_path) == ""
        with free_turn(tmp_path) as other:
            assert other is None
    assert left_on(tmp_path) == "gpu-01"
    with free_turn(tmp_path) as heir:
        assert heir is not None
        assert heir.left_on == "gpu-01"
        heir.note("a")
    assert left_on(tmp_path) == "a"
    async with measuring_turn(tmp_path, asyncio.sleep, lambda: None) as turn:
        turn.note("")
    assert left_on(tmp_path) == ""
