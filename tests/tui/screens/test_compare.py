"""The Compare screen: jobs of a sweep, or marked ones, ranked by a metric of their logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.tui.screens.compare import FOLLOW_S, CompareScreen
from gpuconsole.tui.screens.job import JobScreen
from gpuconsole.tui.widgets.row_list import Rows
from tests.tui.console import SIZES, Driven, opened
from tests.tui.fake import FakeSession, job


def swept(lr: str, number: int) -> Job:
    made = job(f"train[lr={lr}]", JobState.SUCCEEDED)
    task = replace(made.task, sweep="train", args=("--epochs", "3", "--lr", lr))
    return replace(made, id=f"ana-000{number}", task=task)


RATES = {"0.1": 4.0, "0.01": 1.0, "9": 2.0}


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    jobs = tuple(swept(lr, number) for number, lr in enumerate(RATES))
    made = FakeSession(jobs_now=(*jobs, replace(job("alone", JobState.SUCCEEDED), id="ana-0009")))
    for one, scale in zip(jobs, RATES.values(), strict=True):
        lines = [f"step {n} loss: {scale / n} acc: {n / 10} 20ms/step\n" for n in range(1, 6)]
        made.log_path(one.id).write_text("".join(lines))
    return made


async def compared(console: Driven) -> None:
    await console.press("2", "M")
    await console.until(lambda: isinstance(console.app.screen, CompareScreen), "Compare")
    await console.shows("3 jobs", "lr")


@pytest.mark.parametrize("size", [*SIZES, (200, 60)])
async def test_a_sweep_is_ranked_and_plotted(session: FakeSession, size: tuple[int, int]) -> None:
    async with opened(session, size) as console:
        await compared(console)
        await console.shows("0.2", "0.4", "0.8")
        lines = console.text.splitlines()
        order = [line for line in lines if "succeeded" in line]
        assert [next(lr for lr in line.split() if lr in RATES) for line in order] == [
            "0.01", "9", "0.1",
        ]  # fmt: skip
        assert any("\u2800" < letter < "\u2900" for letter in console.text)
        assert all(len(line) == size[0] for line in lines)


async def test_keys_change_the_metric_open_a_job_and_copy(session: FakeSession) -> None:
    async with opened(session) as console:
        await compared(console)
        await console.press("m")
        await console.shows("─ acc ─")
        await console.press("y")
        await console.toast("Copied the points of acc as CSV.")
        assert console.app.clipboard.splitlines()[0] == "job,name,metric,step,epoch,value"
        await console.press("enter")
        await console.until(lambda: isinstance(console.app.screen, JobScreen), "the job")


async def test_a_job_of_no_sweep_says_how_to_choose(session: FakeSession) -> None:
    alone = replace(session, jobs_now=session.jobs_now[-1:])
    async with opened(alone) as console:
        await console.press("2", "M")
        await console.toast("It is in no sweep")


async def test_the_curves_take_what_the_rows_leave(session: FakeSession) -> None:
    async with opened(session, (200, 60)) as console:
        await compared(console)
        rows = console.app.screen.query_one(Rows)
        await console.until(lambda: rows.size.height == len(RATES) + 1, "a line a job")
        assert console.app.screen.query_one("#compare-plot").size.height > 40


async def test_what_a_job_writes_is_followed_while_it_runs(session: FakeSession) -> None:
    first, *others = session.jobs_now
    session.jobs_now = (replace(first, state=JobState.RUNNING), *others)
    async with opened(session) as console:
        await compared(console)
        await console.shows("0.8")
        with session.log_path(first.id).open("a") as log:
            log.write("step 6 loss: 0.0625 acc: 0.6 20ms/step\n")
        session.time += FOLLOW_S
        await console.shows("0.0625")
        order = [line for line in console.text.splitlines() if "succeeded" in line]
        assert len(order) == 2, "the one that is best now runs"
        rows = console.app.screen.query_one(Rows)
        assert rows.keys[0] == first.id


async def test_how_a_job_ends_is_seen_while_it_is_compared(session: FakeSession) -> None:
    first, *others = session.jobs_now
    session.jobs_now = (replace(first, state=JobState.RUNNING), *others)
    async with opened(session) as console:
        await compared(console)
        await console.shows("running")
        session.jobs_now = (replace(first, state=JobState.FAILED), *others)
        session.time += FOLLOW_S
        await console.shows("failed")


async def test_jobs_that_have_ended_are_not_read_again(session: FakeSession) -> None:
    async with opened(session) as console:
        await compared(console)
        await console.shows("0.8")
        screen = console.app.screen
        assert isinstance(screen, CompareScreen)
        await console.until(lambda: not screen._stale and not screen._reading, "all is read")
        read_at = screen._read_at
        later = replace(console.app.picture, now=console.app.picture.now + 60.0)
        screen.show(later)
        assert screen._read_at == read_at
        screen.show(replace(later, jobs=tuple(session.jobs_now[:2])))
        assert screen._read_at == later.now, "one that is gone asks for a look"
