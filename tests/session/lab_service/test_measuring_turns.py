"""Whose measurement comes next."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gpuconsole.errors import HostBusyError
from gpuconsole.session.lab_service import measuring_turns as turns_module
from gpuconsole.session.lab_service.measuring_turns import MeasuringTurns
from tests.waiting import until

ADA, BOB, CY = 1, 2, 3


class Bench:
    """Measurements that run until they are asked to end, and the order in which they began."""

    def __init__(self) -> None:
        self.turns = MeasuringTurns()
        self.begun: list[str] = []
        self._tasks: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def ask(self, name: str, uid: int, host: str) -> None:
        ending = asyncio.Event()

        async def measure() -> None:
            async with self.turns.turn(uid, host):
                self.begun.append(name)
                await ending.wait()

        self._tasks[name] = asyncio.ensure_future(measure()), ending

    async def end(self, name: str) -> None:
        task, ending = self._tasks.pop(name)
        ending.set()
        await task

    async def give_up(self, name: str) -> None:
        task, _ = self._tasks.pop(name)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def close(self) -> None:
        for name in tuple(self._tasks):
            await self.give_up(name)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_account_has_all_hosts_while_nobody_else_waits(bench: Bench) -> None:
    for host in "xyz":
        bench.ask(f"ada-{host}", ADA, host)
    await _settle()
    assert bench.begun == ["ada-x", "ada-y", "ada-z"]


async def test_users_take_turns_whatever_the_order_in_which_they_asked(bench: Bench) -> None:
    for number in range(3):
        bench.ask(f"ada-{number}", ADA, "x")
    for number in range(2):
        bench.ask(f"bob-{number}", BOB, "x")
    bench.ask("cy-0", CY, "x")
    order = ["ada-0", "bob-0", "cy-0", "ada-1", "bob-1", "ada-2"]
    for number, name in enumerate(order):
        await until(lambda number=number: len(bench.begun) == number + 1)
        assert bench.begun[-1] == name
        await bench.end(name)


async def test_nobody_begins_a_second_measurement_while_another_waits(bench: Bench) -> None:
    bench.ask("ada-x", ADA, "x")
    await _settle()
    bench.ask("bob-x", BOB, "x")
    await _settle()
    # A host is free; bob waits for the one that ada measures on.
    bench.ask("ada-y", ADA, "y")
    await _settle()
    assert bench.begun == ["ada-x"]
    await bench.end("ada-x")
    await _settle()
    assert bench.begun == ["ada-x", "bob-x", "ada-y"]


async def test_who_gives_up_holds_nobody_up(bench: Bench) -> None:
    bench.ask("ada-x", ADA, "x")
    await _settle()
    bench.ask("bob-x", BOB, "x")
    bench.ask("ada-y", ADA, "y")
    await _settle()
    assert bench.begun == ["ada-x"]
    await bench.give_up("bob-x")
    await _settle()
    assert bench.begun == ["ada-x", "ada-y"]
    # What is called off while it runs releases its host too.
    await bench.give_up("ada-x")
    bench.ask("cy-x", CY, "x")
    await _settle()
    assert bench.begun[-1] == "cy-x"


async def test_who_does_not_wait_is_told_that_the_host_is_busy(bench: Bench) -> None:
    bench.ask("ada-x", ADA, "x")
    await _settle()
    with pytest.raises(HostBusyError, match="x runs a measurement"):
        async with bench.turns.turn(BOB, "x", patient=False):
            raise AssertionError("two measure on one host")
    await bench.end("ada-x")
    async with bench.turns.turn(BOB, "x", patient=False):
        pass


async def test_waiting_has_an_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "LONGEST_S", 0.01)
    bench.ask("ada-x", ADA, "x")
    await _settle()
    reported = []
    with pytest.raises(HostBusyError):
        async with bench.turns.turn(BOB, "x", on_wait=lambda: reported.append("waits")):
            raise AssertionError("two measure on one host")
    assert reported == ["waits"]
