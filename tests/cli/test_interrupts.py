"""Ctrl-C that ends a part of a command."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import interrupts, measurement
from gpuconsole.cli.entry import main
from gpuconsole.cli.interrupts import until_interrupted
from gpuconsole.preflight.tiers.ladder import Site
from tests.cli.commands.plan.test_measurement import HIDDEN, asked


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


async def interrupted() -> int:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()
    return 0


async def answer() -> int:
    return 5


async def twice() -> None:
    try:
        await interrupted()
    except asyncio.CancelledError:
        await interrupted()


def test_ctrl_c_ends_what_is_awaited_and_nothing_more() -> None:
    async def command() -> list[int | None]:
        return [await until_interrupted(one()) for one in (interrupted, answer)]

    before = signal.getsignal(signal.SIGINT)
    assert asyncio.run(command()) == [None, 5]
    assert signal.getsignal(signal.SIGINT) == before


def test_another_ctrl_c_ends_all() -> None:
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(until_interrupted(twice()))


def test_a_cancellation_from_elsewhere_goes_on() -> None:
    async def command() -> None:
        work = asyncio.ensure_future(until_interrupted(asyncio.Event().wait()))
        await asyncio.sleep(0)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(command())


def test_a_question_is_ended_by_it_all_the_same() -> None:
    async def question() -> None:
        with interrupts.asking():
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(until_interrupted(question()))


def test_where_measuring_is_ended_what_was_read_is_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measured(*_: Any) -> None:
        await interrupted()

    monkeypatch.setattr(measurement, "_here", measured)
    monkeypatch.setattr(
        "gpuconsole.session.estimate.measurement_sites.local_sites", lambda _: ((Site(),), "")
    )
    script = tmp_path / "train.py"
    script.write_text(HIDDEN)
    found, _ = asked(capsys, tmp_path / "state", "preflight", script)
    assert [(tier["tier"], tier["outcome"]) for tier in found["tiers"]] == [
        ("static", "unknown"), ("meta", "impossible"), ("traced", "impossible"),
    ]  # fmt: skip
    assert found["tiers"][1]["why"] == "measuring was cancelled"
    assert main(["--state", str(tmp_path), "preflight", str(script), "--offline"]) == 1
