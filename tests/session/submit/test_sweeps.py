"""Sweeps through the session: all or none, preflighted once where memory is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.estimate import Estimate, Memory, Report, Verdict
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.sweeps import read_axes
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight import Calibration
from gpuconsole.session.estimate.preflight_runner import Preflights
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.session import Session
from tests.session.test_session import Room, opened

SCRIPT = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--learning-rate", dest="lr")
p.add_argument("--width", type=int)
"""


class ByWidth(Preflights):
    """Memory that depends on the width alone; counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(AsyncReader())
        self.asked: list[tuple[str, ...]] = []

    async def report(
        self,
        task: Task,
        snapshot: FleetSnapshot,
        settings: LabSettings,
        tier: str = "",
        *,
        empty: bool = False,
        remembered: Mapping[str, str] = MappingProxyType({}),
        calibration: Calibration | None = None,
        images: frozenset[str] | None = None,
    ) -> Report:
        self.asked.append(task.args)
        words = dict(zip(task.args[::2], task.args[1::2], strict=True))
        size = 100.0 * float(words.get("--width", 1))
        memory = Memory(total_mib=size, high_mib=size)
        word = "fits" if size < 34000 else "will-not-fit"
        estimate = Estimate("t.py", 8, None, "gpu", "static", 1.0, memory)
        verdict = Verdict("A100", "a", "gpu", word, 0.0, 4, None, limit_mib=34000.0)  # type: ignore[arg-type]
        return Report(estimate, (verdict,))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    made = Room(tmp_path)
    made.script.write_text(SCRIPT)
    return made


def sized(session: Session) -> ByWidth:
    answers = ByWidth()
    session.estimates._preflights = answers
    return answers


async def test_a_sweep_is_queued_with_names_arguments_and_one_project(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        answers = sized(session)
        axes = read_axes(["lr=1e-3,1e-4", "seed=0..3", "width=8,16"])
        jobs = await session.queue.sweep(room.task(), axes)
        assert len(jobs) == len({job.id for job in jobs}) == 16
        assert [job.task.name for job in jobs[:3]] == [
            "train[lr=1e-3,seed=0,width=8]",
            "train[lr=1e-3,seed=0,width=16]",
            "train[lr=1e-3,seed=1,width=8]",
        ]
        # The script's own spelling of lr; seed is not its own.
        assert jobs[0].task.args == ("--learning-rate", "1e-3", "--seed", "0", "--width", "8")
        assert {job.task.sweep for job in jobs} == {"train"}
        assert {job.estimate_mib for job in jobs} == {800.0, 1600.0}
        # 2 values of lr, 3 of the seeds, 2 widths, with the first combination in common.
        assert len(answers.asked) == 1 + 1 + 2 + 1
        for job in jobs:
            assert session._context.bundle(job.id).read_bytes() == SCRIPT.encode()
        reported = [event.message for _, event in session._journal.events_after(0)]
        doubt = "train.py declares no option --seed; it may refuse to start with it."
        assert [message for message in reported if "--" in message] == [f"train: {doubt}"]


async def test_the_whole_sweep_is_refused_when_one_of_it_can_never_fit(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        sized(session)
        with pytest.raises(RefusedError, match=r"train\[seed=0,width=4000\]"):
            await session.queue.sweep(room.task(), read_axes(["seed=0..1", "width=8,4000"]))
        assert session.jobs() == ()
        bundles = room.state / "bundles"
        assert not bundles.exists() or not list(bundles.iterdir())
        forced = await session.queue.sweep(
            room.task(), read_axes(["width=8,4000"]), force=True, hold=True
        )
        assert [job.state for job in forced] == [JobState.HELD] * 2


async def test_a_second_sweep_has_a_name_of_its_own_and_a_sweep_is_found_whole(
    room: Room,
) -> None:
    async with opened(room, dispatch=False) as session:
        sized(session)
        first = await session.queue.sweep(room.task(), read_axes(["seed=0..2"]))
        second = await session.queue.sweep(room.task(), read_axes(["seed=0..1"]))
        assert second[0].task.sweep == "train-2"
        assert [job.id for job in session.group("train")] == [job.id for job in first]
        assert session.group(first[0].id) == (first[0],)
        with pytest.raises(UsageError, match="no job"):
            session.group("nothing")


async def test_a_sweep_is_changed_in_one_write(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        jobs = await session.queue.sweep(room.task(), read_axes(["seed=0..9"]))
        ids = [job.id for job in jobs]
        statements: list[str] = []
        session._journal._database._connection.set_trace_callback(statements.append)
        for change in (
            session.queue.set_priority_all(ids, 3),
            session.queue.hold_all(ids),
            session.queue.release_all(ids),
            session.queue.cancel_all(ids),
        ):
            statements.clear()
            changed = await change
            assert [job.id for job in changed] == ids
            assert statements.count("COMMIT") == 1
        assert {job.state for job in session.jobs()} == {JobState.CANCELLED}


async def test_a_job_after_a_sweep_starts_when_all_of_it_ended_well(room: Room) -> None:
    async with opened(room) as session:
        sized(session)
        sweep = await session.queue.sweep(room.task(), read_axes(["seed=0..1"]))
        last = await session.queue.submit(room.task("last", after=("train", sweep[0].id)))
        assert last.task.after == ("train", sweep[0].id)
        for expected in ("0 of its 2 jobs have ended well", "1 of its 2 jobs"):
            await room.until(lambda: room.docker.running)
            why = session.why_now(last.id)
            assert expected in why.reason
            room.docker.finish(0)
            await room.until(lambda: not room.docker.running)
        await room.until(lambda: session.job(last.id).state is JobState.RUNNING)


async def test_a_job_after_a_sweep_that_failed_says_which(room: Room) -> None:
    async with opened(room) as session:
        sized(session)
        await session.queue.sweep(room.task(), read_axes(["seed=0..1"]))
        last = await session.queue.submit(room.task("last", after=("train",)))
        await room.until(lambda: room.docker.running)
        room.docker.finish(1)
        await room.until(lambda: any(job.state is JobState.FAILED for job in session.jobs()))
        why = session.why_now(last.id)
        assert "1 did not: train[seed=0] failed" in why.reason
        assert why.options[0].startswith("Retry ")


async def test_a_whole_sweep_is_held_released_and_cancelled(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        sized(session)
        jobs = await session.queue.sweep(room.task(), read_axes(["seed=0..2"]), hold=True)

        async def each(action: str) -> list[Job]:
            return await asyncio.gather(*(getattr(session.queue, action)(job.id) for job in jobs))

        assert {job.state for job in await each("release")} == {JobState.QUEUED}
        assert {job.state for job in await each("hold")} == {JobState.HELD}
        assert {job.state for job in await each("cancel")} == {JobState.CANCELLED}
        with pytest.raises(RefusedError, match="is cancelled"):
            await session.queue.release(jobs[0].id)


async def test_a_deadline_must_be_a_time_to_come(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        sized(session)
        with pytest.raises(UsageError, match="is past"):
            await session.queue.submit(room.task(deadline="2020-01-31T18:00:00.000Z"))
        job = await session.queue.submit(room.task(deadline="2090-01-31T18:00:00.000Z"))
        assert "deadline of 2090-01-31 18:00 UTC" in session.why_now(job.id).reason


async def test_an_argument_that_is_no_number_is_tried_with_each_of_its_values(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        answers = sized(session)
        jobs = await session.queue.sweep(room.task(), read_axes(["net=a,b,c,d,e", "seed=0..9"]))
        assert len(jobs) == 50
        # Five nets, and two more seeds: the first combination is in both.
        assert len(answers.asked) == 7
