"""The job screen: facts, progress, the log and what one can do with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.containers import ResultFile
from gpuconsole.core.engines.transfers import LeftOut
from gpuconsole.core.jobs import JobState, Member
from gpuconsole.errors import RefusedError, UnreachableError
from gpuconsole.tui.screens.dialogs.base import AskScreen, ConfirmScreen
from gpuconsole.tui.screens.dialogs.retry_oom import AgainScreen
from gpuconsole.tui.widgets.log_view import LogLines
from tests.tui.console import NARROW, SIZES, Driven, opened
from tests.tui.fake import FakeSession, job

LINES = tuple(f"INFO step={at}/500 loss={3 - at / 100:.3f}" for at in range(1, 201))


def log_of(console: Driven) -> LogLines:
    return console.app.screen.query_one(LogLines)


def count(console: Driven) -> int:
    source = log_of(console).source
    return len(source) if source is not None else -1


async def job_screen(console: Driven, lines: int = 200) -> None:
    await console.press("3")
    await console.until(lambda: count(console) == lines, "the log")


@pytest.mark.parametrize("size", SIZES)
async def test_progress_memory_and_log(size: tuple[int, int]) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session, size) as console:
        await job_screen(console)
        await console.shows("running", "a100-01 gpu 0", "40%", "step=200/500", "follow ON", "left")
        if size == NARROW:
            await console.shows("step 200/500", "mem 114%")
            assert console.text.splitlines()[3].startswith("╭─ log"), "a line of head, then the log"
            await console.press("i")
            await console.shows("ana-0001", "device memory against the prediction")
            await console.press(
                "right_parenthesis",
                "right_parenthesis",
                "right_parenthesis",
                "right_parenthesis",
                "right_parenthesis",
            )
            await console.shows("docker run")
        else:
            await console.shows("step 200 of 500", "1.9 s a step", "predicted up to 17.6 GiB",
                                "job peak 20.0 GiB", "gpu 0 has 19.5 GiB free.")  # fmt: skip
            await console.press("right_parenthesis", "right_parenthesis", "right_parenthesis")
            await console.shows("docker run")
            await console.press("left_parenthesis", "left_parenthesis", "left_parenthesis")
        assert all(len(line) == size[0] for line in console.text.splitlines())


async def test_a_waiting_job_says_why() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.QUEUED),))
    async with opened(session) as console:
        async for _ in console.at_sizes(SIZES):
            await console.press("3")
            await console.shows("3 devices could do it: 3 in use by jobs.", "2 shows why it waits.")


async def test_a_failure_says_its_cause_in_words() -> None:
    cause = "Out of memory on the GPU: asked for 2.1 GiB, 0.4 GiB were available."
    session = FakeSession(jobs_now=(job("gpt", JobState.OOM, cause=cause),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.shows("oom", cause)


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
        await console.press("W")
        await console.shows("END", "wrap ON")
        body = "".join(line[:76] for line in console.text.splitlines())
        assert body.count("x") >= 300
        await console.press("W")
        await console.shows("wrap off")


async def test_hostile_lines_are_shown_harmlessly() -> None:
    lines = ("\x1b]0;owned\x07[red]boo[/red] \x1b[2J", "y" * 100_000, "ERROR \u202eevil")
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=lines)
    async with opened(session) as console:
        await job_screen(console, lines=3)
        await console.shows("[red]boo[/red]", "ERROR evil")
        assert "\x1b" not in console.text


async def test_what_an_ended_job_left_is_listed_once() -> None:
    left = tuple(ResultFile(f"model-{at}.pdparams", (at + 1) << 20) for at in range(30))
    done = job("vit", JobState.SUCCEEDED)
    session = FakeSession(jobs_now=(done,), lines=LINES, left=left)
    async with opened(session, (120, 60)) as console:
        await job_screen(console)
        await console.shows(
            "model-0.pdparams  1.0 MiB", "more", "F copies them into results/ana-0001"
        )
        await console.beat()
        assert session.named("results") == [("results", "ana-0001")]


async def test_results_out_of_sight_are_told_beside_the_log() -> None:
    session = FakeSession(jobs_now=(job("vit", JobState.FAILED),), lines=LINES)
    session.error = UnreachableError("Out of sight", "a100-01 does not answer.")
    async with opened(session, (120, 60)) as console:
        await job_screen(console)
        await console.shows("a100-01 does not answer.")


async def test_verbs_reach_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    running, done = job("resnet", JobState.RUNNING), job("vit", JobState.SUCCEEDED, 2)
    session = FakeSession(jobs_now=(running, done), lines=LINES)
    session.left_out = replace(LeftOut().add("pipe", "is a named pipe"), count=3)
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
        await console.toast("The results are in")
        # Toasts stand at the bottom right, on the facts.
        console.app.clear_notifications()
        await console.shows("left out: pipe is a named pipe", "and 2 more")
        assert session.named("fetch") == [("fetch", "ana-0002", tmp_path / "results")]
        await console.until(lambda: count(console) == 200)
        await console.press("S")
        await console.toast("200 lines are in")
        assert (tmp_path / "ana-0002.log").read_text().splitlines() == list(LINES)
        await console.press("Y")
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


async def test_a_retry_begins_a_new_log_and_the_old_one_is_kept() -> None:
    first = job("resnet", JobState.FAILED)
    session = FakeSession(jobs_now=(first,), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("T")
        await console.toast("There is no other attempt.")
        assert first.attempt is not None
        again = replace(first.attempt, number=2, ended_at=None, exit_code=None)
        session.jobs_now = (
            replace(first, state=JobState.RUNNING, attempts=(first.attempt, again)),
        )
        session.lines = ("second try",)
        await console.beat()
        await console.shows("second try", "attempt 2", "T shows another log")
        assert count(console) == 1
        await console.press("T")
        await console.shows("step=200/500", "log, attempt 1 of 2")
        await console.press("T")
        await console.shows("second try")


async def test_a_log_is_followed_as_it_grows_and_begins_anew_when_it_is_replaced() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        path = session.log_path("ana-0001")
        with path.open("a") as file:
            file.write("step=201/500 loss=0.9\nno end yet")
        await console.shows("step 201 of 500", "no end yet", "line 202 of 202")
        await console.press("g")
        with path.open("a") as file:
            file.write(" but now\n")
        await console.press("G")
        await console.shows("no end yet but now")
        path.write_text("another\n")
        await console.shows("line 1 of 1", "another")


async def test_the_warning_of_a_time_limit_stands_in_the_log() -> None:
    runs = job("resnet", JobState.RUNNING)
    assert runs.attempt is not None
    runs = replace(runs, task=replace(runs.task, time_limit_s=7200.0))
    session = FakeSession(jobs_now=(runs,), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        before = count(console)
        path = session.log_path("ana-0001")
        was = path.read_bytes()
        started = runs.attempt.started_at or 0.0
        warned = replace(runs.attempt, started_at=started, warned_at=started + 6600.0)
        session.jobs_now = (replace(runs, attempts=(warned,)),)
        await console.beat()
        await console.shows("--- gpuconsole, ", "the job's limit of 2h00m ends it in 10m")
        with path.open("a") as file:
            file.write("written later\n")
        await console.shows("written later")
        assert count(console) == before + 2
        assert path.read_bytes() == was + b"written later\n"


def gang(*hosts: str) -> FakeSession:
    alone = job("gang", JobState.RUNNING)
    assert alone.attempt is not None
    members = tuple(
        Member(host, (f"GPU-m{at}",), (at,), f"gpuconsole-gang-{at}", "d" * 64)
        for at, host in enumerate(hosts, start=1)
    )
    attempt = replace(alone.attempt, members=members)
    session = FakeSession(jobs_now=(replace(alone, attempts=(attempt,)),))
    for rank in range(len(members) + 1):
        path = session.folder / f"ana-0001-1-{rank}.log"
        path.write_text("".join(f"rank {rank} step={at}/9\n" for at in range(1, 4)))
    return session


async def test_ranks_are_merged_or_shown_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(gang("rtx-01")) as console:
        await job_screen(console, lines=6)
        await console.shows("log: all 2 ranks merged", "r0 rank 0 step=1/9", "r1 rank 1 step=3/9",
                            "rtx-01         gpu 1", "R rank")  # fmt: skip
        await console.press("S")
        await console.toast("6 lines are in")
        assert (tmp_path / "ana-0001.log").read_text().count("rank 0") == 3
        assert (tmp_path / "ana-0001-rank-1.log").read_text().count("rank 1") == 3
        await console.press("R")
        await console.shows("log: rank 0 of 2", "line 3 of 3")
        assert "rank 1 step" not in console.text
        await console.press("R")
        await console.shows("log: rank 1 of 2", "rank 1 step=1/9")
        await console.press("R")
        await console.shows("all 2 ranks merged")


async def test_a_gang_too_wide_for_the_line_is_counted() -> None:
    async with opened(gang(*(f"a-host-with-a-long-name-{at:02}" for at in range(20)))) as console:
        await job_screen(console, lines=63)
        await console.shows("21 gpu on 21 hosts", "a-host-with-a… gpu 3")
        await console.press(
            "right_parenthesis", "right_parenthesis", "right_parenthesis", "right_parenthesis"
        )
        await console.shows("and 5 more")


async def test_one_host_has_one_log() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("R")
        await console.toast("one log")


async def test_only_the_lines_that_match() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("ampersand")
        await console.toast("/ searches the log")
        await console.press("g", "slash")
        await console.type("step=19|STEP=7/")
        await console.shows("12 lines match")
        await console.press("enter", "ampersand")
        await console.shows("only matches", "step=7/500", "step=19/500", "step=199/500")
        assert "step=18/500" not in console.text
        await console.press("n")
        await console.shows("match 2 of 12")
        await console.press("ampersand")
        await console.until(lambda: "only matches" not in console.text)
        await console.shows("step=18/500")
        await console.press("ampersand", "escape")
        await console.until(lambda: "match" not in console.text.splitlines()[8])
        await console.shows("step=18/500")


async def test_going_to_a_line_a_share_and_a_time() -> None:
    lines = tuple(f"{at // 60:02}:{at % 60:02}:00 step {at}" for at in range(600))
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=lines)
    async with opened(session) as console:
        await job_screen(console, lines=600)
        for typed, found in (("301", 300), ("50%", 300), ("02:14", 134), ("1,000,000", 599)):
            await console.press("number_sign")
            assert isinstance(console.app.screen, AskScreen)
            await console.type(typed)
            await console.press("enter")
            await console.until(lambda found=found: log_of(console).here == found, typed)
            await console.shows(f"step {found}")
        await console.press("number_sign")
        await console.type("noon")
        await console.press("enter")
        await console.toast("`noon` is no line, share or time.")


async def test_lines_without_times_cannot_be_gone_to_by_time() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("number_sign")
        await console.type("02:14")
        await console.press("enter")
        await console.toast("tell no times")


async def test_the_line_one_stands_on_is_copied() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("y")
        assert console.app.clipboard == LINES[-1], "the newest while following"
        await console.press("g", "y")
        assert console.app.clipboard == LINES[0], "else the one at the top"
        await console.pilot.click(LogLines, offset=(5, 4))
        await console.press("y")
        assert console.app.clipboard == LINES[3]


async def test_cut_lines_are_moved_sideways() -> None:
    line = "start " + "-" * 200 + " end"
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=(line,))
    async with opened(session) as console:
        await job_screen(console, lines=1)
        await console.press(*["l"] * 10, "right")
        await console.shows(" end")
        assert "start" not in console.text
        await console.press(*["h"] * 10, "left")
        await console.shows("start")


async def test_wrapped_lines_scroll_by_rows_and_end_at_the_bottom() -> None:
    lines = tuple(f"{at:03} " + "x" * 250 + f" end{at:03}" for at in range(60))
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=lines)
    async with opened(session, NARROW) as console:
        await job_screen(console, lines=60)
        await console.press("W")
        await console.shows("end059")
        top = log_of(console).top
        await console.press("k", "k")
        assert log_of(console).top < top
        await console.press("j", "j", "j", "j")
        assert log_of(console).top == top, "not beyond the end"
        await console.press("g")
        await console.shows("000 xx", "end000")
        await console.press("pagedown", "pagedown")
        assert log_of(console).top.row in (8, 9, 10)
        await console.press("pageup", "pageup")
        assert log_of(console).top == (0, 0)


async def test_running_out_of_memory_is_tried_again_with_what_fits() -> None:
    session = FakeSession(jobs_now=(job("gpt", JobState.OOM),), lines=LINES)
    async with opened(session) as console:
        await job_screen(console)
        await console.press("r")
        await console.until(lambda: isinstance(console.app.screen, AgainScreen))
        await console.shows("with batch size 32?", "batch size 64", "about twice as many steps")
        await console.press("n")
        assert not session.named("retry")
        await console.press("r")
        await console.until(lambda: isinstance(console.app.screen, AgainScreen))
        await console.press("y")
        await console.until(lambda: session.named("retry") == [("retry", "ana-0001", 32)])
        await console.press("r")
        await console.until(lambda: isinstance(console.app.screen, AgainScreen))
        await console.press("s")
        await console.until(lambda: session.named("retry")[1:] == [("retry", "ana-0001")])


async def test_where_nothing_smaller_is_known_it_is_tried_as_it_was() -> None:
    session = FakeSession(jobs_now=(job("gpt", JobState.OOM),), lines=LINES)
    session.retrying.error = RefusedError("Nothing smaller", "its batch size is 1 already.")
    async with opened(session) as console:
        await job_screen(console)
        await console.press("r")
        await console.toast("its batch size is 1 already.")
        await console.until(lambda: session.named("retry") == [("retry", "ana-0001")])


async def test_no_job_yet() -> None:
    async with opened(FakeSession()) as console:
        async for _ in console.at_sizes(SIZES):
            await console.press("3")
            await console.shows("No job to look at yet.", "4 submits a script.")
            await console.press("c", "r", "F", "S", "y", "Y", "n", "N", "f", "W", "i", "R", "T")
            await console.press("ampersand", "number_sign", "5", "enter")
            await console.toast("The log is empty.")


TRAINED = tuple(
    line
    for epoch in range(1, 6)
    for line in (
        *(f"epoch {epoch} step {at}/50 loss: {3 / (epoch * 50 + at):.4f} 20ms/step"
          for at in range(10, 51, 10)),
        f"epoch {epoch} val_loss: {0.5 / epoch:.3f} val_acc: {epoch / 10}",
    )
)  # fmt: skip


@pytest.mark.parametrize("size", [*SIZES, (200, 60)])
async def test_what_training_says_is_plotted_in_turn(size: tuple[int, int]) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=TRAINED)
    async with opened(session, size) as console:

        async def gone(words: str) -> None:
            await console.until(lambda: words not in console.text, f"{words} is gone")

        await job_screen(console, len(TRAINED))
        if size == NARROW:
            await gone("val_loss 0.1")
            await console.press("m")
            await console.shows("loss val_loss", "log")
        elif size[0] < 160:
            await console.shows("device memory against the prediction")
            await console.press("m")
            await gone("device memory against the prediction")
        else:
            await console.shows("device memory against the prediction")
        await console.shows("val_loss 0.1", "m next")
        assert any("\u2800" < letter < "\u2900" for letter in console.text), "dots of braille"
        await console.press("m")
        await console.shows("val_acc 0.5")
        await console.press("m")
        await console.shows("step_s 20 ms")
        while "use of the device" not in console.text:
            await console.press("m")
        await console.press("m")
        await gone("use of the device")
        assert all(len(line) == size[0] for line in console.text.splitlines())


async def test_a_log_without_reports_is_said_when_a_plot_is_asked_for() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), lines=("hello",) * 3)
    async with opened(session) as console:
        await job_screen(console, 3)
        await console.press("m")
        await console.shows("reports nothing of training")
