"""Submitting what reading does not tell: it is measured first, within limits, and then queued."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.estimate import Estimate, Report, Unknown
from gpuconsole.core.jobs import JobState
from gpuconsole.errors import HostBusyError, RefusedError
from gpuconsole.preflight.tiers.ladder import Site
from gpuconsole.session.session import Session
from gpuconsole.state.files.images import ImageNotes, Pin
from tests.session.test_session import FITS, Room, report_of

UNKNOWN = Report(
    Estimate("t.py", 8, None, "gpu", "unknown", 0.0, None, (Unknown("t.py", 3, "no model"),))
)
KNOWN = report_of(FITS)
MEASURED = replace(KNOWN, estimate=replace(KNOWN.estimate, tier="meta"))


class Bench(Room):
    """A room in which measuring tells the memory, once it may go on."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        self.report = UNKNOWN
        self.docker.facts["paddle"] = ImageFacts()
        self.runs: list[tuple[str, str, bool]] = []
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.goes_on.set()

    async def measure(
        self, task: Any, mode: Any, progress: Any, *, host: str, local: bool, **how: Any
    ) -> None:
        self.runs.append((mode, host, local))
        self.begun.set()
        await self.goes_on.wait()
        self.report = MEASURED

    def session(self, **options: Any) -> Session:
        session = super().session(dispatch=False, **options)
        session.estimates.measure = self.measure  # type: ignore[method-assign]
        return session


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_it_is_measured_on_a_host_before_it_is_queued(bench: Bench) -> None:
    async with bench.session() as session:
        job = await session.queue.submit(bench.task())
        assert job.state is JobState.QUEUED
        assert job.estimate_mib == FITS.high_mib
        assert bench.runs == [("meta", "a", False)]
        assert job.estimate is not None
        tiers = [(tier["tier"], tier["outcome"], tier["host"]) for tier in job.estimate["tiers"]]
        assert tiers == [("static", "unknown", ""), ("meta", "answered", "a")]


async def test_what_is_known_is_not_measured(bench: Bench) -> None:
    bench.report = KNOWN
    async with bench.session() as session:
        job = await session.queue.submit(bench.task())
    assert bench.runs == []
    assert job.estimate is not None
    assert [tier["tier"] for tier in job.estimate["tiers"]] == ["static"]


async def test_what_nearly_fills_its_device_is_run_before_it_is_believed(bench: Bench) -> None:
    bench.report = report_of(FITS, room=10000.0)
    async with bench.session() as session:
        job = await session.queue.submit(bench.task())
    assert [mode for mode, *_ in bench.runs] == ["meta"]
    assert job.estimate is not None
    assert job.estimate["tier"] == "meta"
    assert [tier["outcome"] for tier in job.estimate["tiers"]] == ["answered", "answered"]


async def test_a_task_that_is_never_to_be_measured_is_queued_as_unknown(bench: Bench) -> None:
    async with bench.session() as session:
        job = await session.queue.submit(bench.task(measure="never"))
        assert job.estimate_mib is None
        assert "waits for an empty device" in session.warnings(job.id)[0]
    assert bench.runs == []


async def test_a_task_cannot_be_measured_where_the_lab_says_never(bench: Bench) -> None:
    bench.settings = LabSettings(measure="never")
    async with bench.session() as session:
        await session.queue.submit(bench.task(measure="auto"))
        await session.estimates.climb(bench.task(measure="auto"), insist=True)
    assert bench.runs == []


async def test_a_lab_may_refuse_what_no_tier_can_tell(bench: Bench) -> None:
    bench.settings = LabSettings(unknown_memory="refuse", measure="never")
    async with bench.session() as session:
        with pytest.raises(RefusedError, match="no model") as refused:
            await session.queue.submit(bench.task())
        assert "measure: never" in refused.value.message
        assert (await session.queue.submit(bench.task("forced"), force=True)).estimate_mib is None


async def test_cancelling_queues_it_as_unknown_and_is_remembered(bench: Bench) -> None:
    bench.goes_on.clear()
    async with bench.session() as session:
        work = asyncio.ensure_future(session.queue.submit(bench.task()))
        await bench.begun.wait()
        session.estimates.stop_measuring()
        assert (await work).estimate_mib is None
        assert (await session.queue.submit(bench.task("again"))).estimate_mib is None
        assert len(bench.runs) == 1
        bench.goes_on.set()
        found = await session.estimates.climb(bench.task(), insist=True)
        assert found.estimate.tier == "meta"


async def test_of_two_at_once_the_second_uses_what_the_first_measured(bench: Bench) -> None:
    bench.goes_on.clear()
    async with bench.session() as session:
        both = [
            asyncio.ensure_future(session.queue.submit(bench.task(name))) for name in ("x", "y")
        ]
        await bench.begun.wait()
        await bench.until(lambda: len(session.estimates._climbs) == 2)
        bench.goes_on.set()
        jobs = await asyncio.gather(*both)
    assert len(bench.runs) == 1
    assert {job.estimate_mib for job in jobs} == {FITS.high_mib}


async def test_read_only_measures_nothing(bench: Bench) -> None:
    async with bench.session():
        pass
    async with bench.session(read_only=True) as session:
        found = await session.estimates.climb(bench.task())
    assert bench.runs == []
    assert found.estimate.memory is None
    assert {trial.outcome for trial in found.trials} == {"unknown", "impossible"}


@pytest.mark.parametrize("busy", ["ab", "a"])
async def test_a_host_that_measures_for_others_is_passed_by_and_the_last_one_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    asked: list[tuple[str, bool]] = []

    async def sites(*args: Any) -> tuple[tuple[Site, ...], str]:
        return (Site("a"), Site("b")), ""

    async def spot(*args: Any, patient: bool) -> Any:
        return SimpleNamespace(host=args[2], patient=patient)

    async def on_host(*args: Any, at: Any, **more: Any) -> None:
        asked.append((at.host, at.patient))
        if at.host in busy:
            raise HostBusyError("Another measurement is under way", f"On {at.host}.")

    monkeypatch.setattr("gpuconsole.session.estimate.service.host_sites", sites)
    room = Room(tmp_path)
    async with room.session(dispatch=False) as session:
        monkeypatch.setattr(session.estimates, "_spot", spot)
        monkeypatch.setattr(session.estimates._measurements, "on_host", on_host)
        work = session.estimates.measure(room.task(), "meta", lambda share, stage: None)
        if "b" in busy:
            with pytest.raises(HostBusyError):
                await work
        else:
            await work
    assert asked == [("a", False), ("b", True)]


async def test_recordings_are_asked_for_the_images_that_the_job_may_get(bench: Bench) -> None:
    async with bench.session() as session:
        images = session.estimates._images
        assert images(bench.task()) == {"paddle"}
        assert images(bench.task(image="own:1")) == {"own:1"}
        pin = Pin("own:1", "own@sha256:" + "0" * 64)
        ImageNotes(bench.state).pin(pin)
        assert images(bench.task(image="own:1")) == {pin.reference}
