"""Runs that are handed over together: each gets its own number, and none waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gpuconsole.core.engines.batch_job import Batch, Script
from gpuconsole.errors import EngineError, UnreachableError
from gpuconsole.remote.slurm import job_arrays
from gpuconsole.remote.slurm.job_arrays import Gatherer


def script(name: str, partition: str = "") -> Script:
    return Script(name, ("python", "train.py"), Batch(array="sweep", partition=partition))


async def numbered(scripts: Sequence[Script]) -> Sequence[str]:
    return [f"{one.name} of {len(scripts)}" for one in scripts]


async def test_companions_are_handed_over_together_and_others_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_arrays, "GATHER_S", 0.05)
    gatherer = Gatherer(numbered)
    adding = (gatherer.add(script("a")), gatherer.add(script("b")), gatherer.add(script("c", "x")))
    assert await asyncio.gather(*adding) == ["a of 2", "b of 2", "c of 1"]


async def test_what_goes_wrong_goes_wrong_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_arrays, "GATHER_S", 0.05)

    async def refused(scripts: Sequence[Script]) -> Sequence[str]:
        raise EngineError("Slurm refuses", "no such partition")

    gatherer = Gatherer(refused)
    adding = (gatherer.add(script("a")), gatherer.add(script("b")))
    found = await asyncio.gather(*adding, return_exceptions=True)
    assert [str(type(one).__name__) for one in found] == ["EngineError", "EngineError"]


async def test_a_first_one_that_is_stopped_does_not_stop_its_companions() -> None:
    gatherer = Gatherer(numbered)
    first = asyncio.ensure_future(gatherer.add(script("a")))
    second = asyncio.ensure_future(gatherer.add(script("b")))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(UnreachableError, match="was stopped"):
        await second
