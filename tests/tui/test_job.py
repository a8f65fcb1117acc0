"""The job screen: facts, progress, the log and what one can do with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.errors import UnreachableError
from gpuconsole.tui.presentation.jobs import progress
from gpuconsole.tui.screens.dialogs import ConfirmScreen
from gpuconsole.tui.widgets import loglines
from gpuconsole.tui.widgets.loglines import LogLines
from tests.tui.console import SIZES, Driven, opened
from tests.tui.fake import FakeSession, job

LINES = tuple(f"INFO step={at}/500 loss={3 - at / 100:.3f}" for at in range(1, 201))


def log_of(console: Driven) -> LogLines:
    return console.app.screen.query_one(LogLines)


async def job_screen(console: Driven, lines: int = 200) -> None:
    await console.press("3")
    await console.until(lambda: len(log_of(console).lines) == lines, "the log")


@pytest.mark.parametrize("size", SIZES)
async def test_progress_memory_and_log(size: tuple[int, int]) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session, size) as console:
        await job_screen(console)
        await console.shows("running", "a100-01 gpu 0", "step 200 of 500", "40%",
                            "predicted up to 17.6 GiB", "peak 20.0 GiB", "step=200/500",
                            "follow ON", "left")  # fmt: skip
        if size == SIZES[0]:
            await console.shows("why there", "gpu 0 has 19.5 GiB free.", "docker run", "attempts")
        assert session.named("logs") == [("logs", "ana-0001", True)]
        assert all(len(line) == size[0] for line in console.text.splitlines())


async def test_a_failure_says_its_cause_in_words() -> None:
    cause = "Out of memory on the GPU: asked for 2.1 GiB, 0.4 GiB were available."
    session = FakeSession(jobs_now=(job("gpt", JobState.OOM, cause=cause),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.shows("oom", cause)
        assert session.named("logs") == [("logs", "ana-0001", False)]


async def test_follow_scroll_and_jump() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("g")
        await console.shows("step=1/500", "follow off")
        await console.press("j", "down", "k", "pagedown", "ctrl+d", "pageup", "ctrl+u", "up")
        assert not log_of(console).follow
        await console.press("f")
        await console.shows("step=200/500", "follow ON")
        await console.press("home")
        await console.shows("follow off")
        await console.press("G")
        await console.shows("step=200/500", "follow ON")


async def test_search_steps_through_matches_both_ways() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("g", "slash")
        await console.type("step=19")
        await console.shows("11 lines match")
        await console.press("enter")
        await console.shows("match 1 of 11", "step=19/500")
        await console.press("n")
        await console.shows("match 2 of 11", "step=190/500")
        await console.press("N", "N")
        await console.shows("match 11 of 11")
        await console.press("escape")
        await console.until(lambda: "lines match" not in console.text)


async def test_wrap_keeps_every_character() -> None:
    long = "x" * 300 + "数据" * 40 + "END"
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=(long, "short"))
    async with opened(session) as console:
        await job_screen(console, lines=2)
        assert "END" not in console.text
        await console.press("w")
        await console.shows("END", "wrap ON")
        body = "".join(line[:76] for line in console.text.splitlines())
        assert body.count("x") >= 300
        await console.press("w")
        await console.shows("wrap off")


async def test_the_ring_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loglines, "MOST_LINES", 1000)
    monkeypatch.setattr(loglines, "DROP", 100)
    session = FakeSession(
        jobs_now=(job("resnet", JobState.RUNNING),), lines=tuple(f"n={at}" for at in range(5000))
    )
    async with opened(session) as console:
        await console.press("3")
        await console.until(lambda: log_of(console).lines[-1:] == ["n=4999"])
        log = log_of(console)
        assert len(log.lines) <= 1000
        assert len(log.lines) + log.dropped == 5000
        await console.shows("line 5,000 of 5,000", "n=4999")


async def test_hostile_lines_are_shown_harmlessly() -> None:
    lines = ("\x1b]0;owned\x07[red]boo[/red] \x1b[2J", "y" * 100_000, "ERROR \u202eevil")
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=lines)
    async with opened(session) as console:
        await job_screen(console, lines=3)
        await console.shows("[red]boo[/red]", "ERROR evil")
        assert "\x1b" not in console.text


async def test_verbs_reach_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    running, done = job("resnet", JobState.RUNNING), job("vit", JobState.SUCCEEDED, 2)
    session = FakeSession(jobs_now=(running, done), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("c")
        assert isinstance(console.app.screen, ConfirmScreen)
        await console.press("y")
        await console.until(lambda: session.named("cancel") == [("cancel", "ana-0001")])
        await console.press("right_square_bracket")
        await console.shows("Queue > vit")
        await console.press("r")
        await console.until(lambda: session.named("retry") == [("retry", "ana-0002")])
        await console.press("F")
        await console.told("The results are in")
        assert session.named("fetch") == [("fetch", "ana-0002", tmp_path)]
        await console.until(lambda: len(log_of(console).lines) == 200)
        await console.press("S")
        await console.told("200 lines are in")
        assert (tmp_path / "ana-0002.log").read_text().splitlines() == list(LINES)
        await console.press("y")
        assert console.app.clipboard.startswith("docker run")
        await console.press("left_square_bracket")
        await console.shows("Queue > resnet")
        await console.press("i")
        await console.until(lambda: "attempts" not in console.text)


async def test_a_log_that_cannot_be_saved_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ana-0001.log").mkdir()
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("S")
        await console.shows("Log not saved")


async def test_a_fetch_that_fails_is_told() -> None:
    session = FakeSession(jobs_now=(job("vit", JobState.SUCCEEDED),), lines=LINES)
    session.error = UnreachableError("Host out of reach", "a100-01 does not answer.", "Wait.")
    async with opened(session) as console:
        await job_screen(console)
        await console.press("F")
        await console.shows("Host out of reach", "a100-01 does not answer.")


async def test_a_retry_begins_a_new_log() -> None:
    first = job("resnet", JobState.FAILED)
    session = FakeSession(jobs_now=(first,), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        assert first.attempt is not None
        again = replace(first.attempt, number=2, ended_at=None, exit_code=None)
        session.jobs_now = (
            replace(first, state=JobState.RUNNING, attempts=(first.attempt, again)),
        )
        session.lines = ("second try",)
        await console.beat()
        await console.shows("second try", "attempt 2")
        assert log_of(console).lines == ["second try"]


async def test_a_log_that_ended_with_its_host_out_of_sight_is_read_again() -> None:
    lost = job("resnet", JobState.UNKNOWN)
    session = FakeSession(jobs_now=(lost,), lines=("before",))
    session.ended.set()
    async with opened(session) as console:
        await job_screen(console, lines=1)
        session.lines = ("before", "meanwhile", "after")
        await console.beat()
        assert len(session.named("logs")) == 1, "nothing is new about the job"
        session.jobs_now = (replace(lost, state=JobState.SUCCEEDED),)
        await console.beat()
        await console.shows("after")
        assert log_of(console).lines == ["before", "meanwhile", "after"]
        await console.beat()
        assert len(session.named("logs")) == 2


async def test_a_log_that_was_read_to_its_end_is_not_read_again() -> None:
    running = job("resnet", JobState.RUNNING)
    session = FakeSession(jobs_now=(running,), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        session.jobs_now = (replace(running, state=JobState.SUCCEEDED),)
        session.ended.set()
        await console.until(lambda: not [w for w in console.app.workers if w.group == "log"])
        await console.beat()
        await console.shows("succeeded")
        assert len(session.named("logs")) == 1


@pytest.mark.parametrize("size", SIZES)
async def test_no_job_yet(size: tuple[int, int]) -> None:
    async with opened(FakeSession(), size) as console:
        await console.press("3")
        await console.shows("No job to look at yet.", "4 submits a script.")
        await console.press("c", "r", "F", "S", "y", "n", "N", "f", "w", "i")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], None),
        (["loss 3/4 of nothing"], None),
        (["step=3/500 loss=1"], ("step", 3, 500)),
        (["Epoch 1/10", "step 20/100 - loss"], ("step", 20, 100)),
        (["step 99/100", "Epoch 2/10"], ("step", 99, 100)),
        (["Epoch: 2/10"], ("epoch", 2, 10)),
        (["step=9/3", "iter [5/50]"], ("iter", 5, 50)),
        (["step=0/0"], None),
    ],
)
def test_progress_is_read_from_the_log(
    lines: list[str], expected: tuple[str, int, int] | None
) -> None:
    assert progress(lines) == expected
