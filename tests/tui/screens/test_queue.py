"""The queue screen: order, reasons, and verbs that ask before harm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Button, Input

from gpuconsole.core.jobs import JobState
from gpuconsole.errors import EngineError, UsageError
from gpuconsole.placement.forecast.start_times import Expected
from gpuconsole.placement.forecast.what_if import Comparison, Moved
from gpuconsole.session.queue.forecast import Change
from gpuconsole.tui.screens.dialogs.base import AskScreen, ConfirmScreen
from gpuconsole.tui.widgets.row_list import Rows
from tests.tui.console import SIZES, Driven, opened
from tests.tui.fake import NOW, FakeSession, job, lab

JOBS = (
    job("vit", JobState.SUCCEEDED, 1),
    job("bert", JobState.QUEUED, 2, attempts=()),
    job("resnet", JobState.RUNNING, 3),
    job("gpt", JobState.OOM, 4, cause="Out of memory on the GPU: asked for 2.1 GiB."),
    job("held-one", JobState.HELD, 5),
)


def order(console: Driven) -> list[str]:
    return list(console.app.screen.query_one(Rows).keys)


async def queue(console: Driven, row: int = 0) -> None:
    """Go to the queue, onto a row: 0 running, 1 queued, 2 held, then the ended."""
    await console.press("2", *["down"] * row)
    await console.shows("queue  5 jobs")


@pytest.mark.parametrize("size", SIZES)
async def test_active_first_then_waiting_then_ended(size: tuple[int, int]) -> None:
    async with opened(FakeSession(jobs_now=JOBS), size) as console:
        await queue(console, row=1)
        assert order(console) == ["ana-0003", "ana-0002", "ana-0005", "ana-0001", "ana-0004"]
        await console.shows("resnet", "● running", "○ queued", "‖ held", "✓ succeeded", "! oom",
                            "why is bert queued?",
                            "3 in use by jobs", "resnet (ana) on a100-01", "in about 11m59s",
                            "option a", "Lower the batch size")  # fmt: skip
        assert all(len(line) == size[0] for line in console.text.splitlines())


async def test_figures_end_where_their_titles_end() -> None:
    async with opened(FakeSession(jobs_now=JOBS)) as console:
        await queue(console)
        lines = console.text.splitlines()
        head = next(line for line in lines if "mem/gpu" in line)
        row = next(line for line in lines if "resnet" in line and "running" in line)
        for title, figure in (("gpus", " 1"), ("mem/gpu", "17.6 GiB"), ("prio", " 5")):
            end = head.index(title) + len(title)
            assert row[:end].endswith(figure), title


async def test_a_running_job_says_why_there_as_a_list() -> None:
    async with opened(FakeSession(jobs_now=JOBS)) as console:
        await queue(console)
        await console.shows("why is resnet running?", "It runs on a100-01 gpu 0.",
                            "• gpu 0 has 19.5 GiB free.",
                            "• The larger card stays free.")  # fmt: skip


async def test_only_changed_rows_are_drawn() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        rows = console.app.screen.query_one(Rows)
        drawn: list[int] = []
        original = rows._line
        rows._line = lambda ink, row, *more: (drawn.append(row), original(ink, row, *more))[1]  # type: ignore[method-assign]
        session.time += 7
        changed = replace(JOBS[1], task=replace(JOBS[1].task, priority=6))
        session.jobs_now = (JOBS[0], changed, *JOBS[2:])
        await console.beat()
        await console.until(lambda: drawn)
        # The running and the waiting ones show their time; what has ended stays.
        assert set(drawn) == {0, 1, 2}


async def test_ten_thousand_jobs_are_walked_without_making_their_rows() -> None:
    many = tuple(job(f"job-{n}", JobState.QUEUED, n, attempts=()) for n in range(1, 10_001))
    session = FakeSession(jobs_now=many)
    asked: list[str] = []
    original = session.why_now
    session.why_now = lambda reference: (asked.append(reference), original(reference))[1]  # type: ignore[method-assign]
    async with opened(session) as console:
        await console.press("2")
        await console.shows("queue  10,000 jobs")
        await console.press("G")
        await console.shows("job-10000", "why is job-10000 queued?")
        await console.press("g")
        await console.shows("job-1 ", "why is job-1 queued?")
        assert len(set(asked)) < 200


async def test_the_cursor_stays_on_its_job_when_the_order_changes() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console, row=1)
        new = job("urgent", JobState.QUEUED, 9, attempts=())
        session.jobs_now = (*JOBS, replace(new, task=replace(new.task, priority=99)))
        await console.beat()
        await console.shows("urgent", "why is bert queued?")
        assert console.app.screen.query_one(Rows).current == "ana-0002"


async def test_cancel_asks_with_the_focus_on_cancel() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        await console.press("c")
        assert isinstance(console.app.screen, ConfirmScreen)
        assert isinstance(console.app.focused, Button)
        assert console.app.focused.id == "no"
        await console.shows("Cancel resnet?", "SIGTERM", "a100-01")
        await console.press("enter")
        assert not session.named("cancel")
        await console.press("c", "escape", "c", "n")
        assert not session.named("cancel")
        await console.press("c", "y")
        await console.until(lambda: session.named("cancel") == [("cancel", "ana-0003")])
        await console.toast("resnet is being cancelled.")


async def test_hold_retry_priority_reach_the_session() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console, row=1)
        await console.press("H")
        await console.until(lambda: session.named("hold") == [("hold", "ana-0002")])
        await console.press("P")
        assert isinstance(console.app.screen, AskScreen)
        await console.press("backspace", "x", "4", "2", "enter")
        await console.until(lambda: session.named("priority") == [("priority", "ana-0002", 42)])
        await console.press("r")
        await console.toast("only an ended job can be retried")
        await console.press("down", "down", "r")
        await console.until(lambda: session.named("retry") == [("retry", "ana-0001")])
        await console.press("H")
        await console.toast("only a waiting job can be held")


async def test_an_error_of_the_session_becomes_a_toast() -> None:
    session = FakeSession(jobs_now=JOBS)
    session.error = EngineError("Engine [b]down[/b]", "The engine on a100-01 is gone.", "Try it.")
    async with opened(session) as console:
        await queue(console, row=1)
        await console.press("H")
        await console.shows("Engine [b]down[/b]", "The engine on a100-01 is gone.", "Try it.")
        await console.press("H")
        await console.shows("(2 times)")


async def test_why_can_be_hidden_and_jobs_filtered() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console, row=1)
        await console.press("i")
        await console.until(lambda: "why is bert" not in console.text)
        await console.press("i")
        await console.shows("why is bert queued?")
        await console.press("slash")
        await console.type("state:oom")
        await console.shows("1 of 5 jobs")
        assert order(console) == ["ana-0004"]
        await console.press("enter", "escape")
        await console.shows("queue  5 jobs")
        await console.press("slash")
        await console.type("nothing-like-it")
        await console.shows("No jobs match")


async def test_read_only_takes_the_writing_keys_away() -> None:
    session = FakeSession(jobs_now=JOBS, read_only=True)
    async with opened(session) as console:
        await console.shows("READ-ONLY")
        await queue(console)
        footer = console.text.splitlines()[-1]
        assert "cancel" not in footer
        assert "open" in footer
        await console.press("c", "H", "r", "P", "s", "4")
        assert session.calls == []
        assert console.app.current_mode == "queue"


async def test_f9_locks_and_unlocks() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        await console.press("f9")
        await console.shows("READ-ONLY")
        await console.press("c")
        assert not isinstance(console.app.screen, ConfirmScreen)
        await console.press("f9", "c")
        assert isinstance(console.app.screen, ConfirmScreen)


async def test_marks_gather_jobs_for_one_verb() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        await console.press("space", "space")
        await console.shows("queue  5 jobs  2 marked", "•")
        await console.press("c")
        await console.shows("Cancel 2 jobs?", "SIGTERM")
        await console.press("y")
        await console.toast("2 of 2 jobs are being cancelled.")
        assert session.named("cancel") == [("cancel", "ana-0003"), ("cancel", "ana-0002")]
        await console.press("escape")
        await console.until(lambda: "marked" not in console.text)
        await console.press("A")
        await console.shows("5 marked")
        # The one that ran out of memory is offered a smaller batch size.
        await console.press("r")
        await console.toast("vit is queued again.")
        await console.shows("Try gpt again with batch size 32?")
        await console.press("y")
        await console.toast("gpt is queued again with batch size 32.")
        assert session.named("retry") == [("retry", "ana-0001"), ("retry", "ana-0004", 32)]
        await console.press("A", "g", "space", "slash")
        await console.type("state:oom")
        await console.until(lambda: "marked" not in console.text)


async def test_many_devices_are_given_up_only_by_a_typed_word() -> None:
    attempt = JOBS[2].attempt
    assert attempt is not None
    wide = replace(attempt, device_uuids=tuple(f"GPU-{n}" for n in range(9)))
    session = FakeSession(jobs_now=(replace(JOBS[2], attempts=(wide,), user="eve"),))
    async with opened(session) as console:
        await console.press("2")
        await console.shows("queue  1 job")
        await console.press("c")
        await console.shows("belongs to eve", "Type resnet to do it")
        await console.press("y", "enter")
        await console.shows("That is not what is asked for.")
        assert not session.named("cancel")
        await console.press("backspace", *"resnet", "enter")
        await console.until(lambda: session.named("cancel") == [("cancel", "ana-0003")])


async def test_a_waiting_job_is_brought_before_another() -> None:
    jobs = (
        job(name, JobState.QUEUED, number, attempts=())
        for number, name in enumerate(("first", "second", "third"), start=1)
    )
    waiting = tuple(replace(each, submitted_at=at) for at, each in enumerate(jobs))
    session = FakeSession(jobs_now=waiting)
    async with opened(session) as console:
        await console.press("2", "down", "shift+up")
        await console.toast("second is before first now")
        await console.press("shift+down")
        await console.toast("second is behind third now")
        assert session.named("priority") == [
            ("priority", "ana-0002", 6),
            ("priority", "ana-0002", 4),
        ]
        await console.press("g", "shift+up")
        await console.toast("first is the first that waits.")
        await console.press("o")
        await console.shows("by newest")
        assert order(console) == ["ana-0003", "ana-0002", "ana-0001"]
        await console.press("shift+up")
        await console.toast("in the queue's own order")


async def test_starts_are_seen_at_every_size() -> None:
    session = FakeSession(jobs_now=JOBS)
    session.foresight.known = {"ana-0002": Expected(session.time + 600, ("a100-01",), guess=False)}
    async with opened(session) as console:
        async for _ in console.at_sizes(SIZES):
            await queue(console)
            await console.shows("where/start", "in ~10m", "a100-01:0")


async def test_what_other_queues_hold_is_told() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        assert "other queues" not in console.text
        session.held_elsewhere = 3
        session.revision += 1
        await console.beat()
        await console.shows("3 devices held by other queues")
        session.held_elsewhere = 1
        session.revision += 1
        await console.beat()
        await console.shows("1 device held by other queues")


async def test_no_jobs() -> None:
    session = FakeSession()
    async with opened(session) as console:
        async for _ in console.at_sizes(SIZES):
            await console.press("2")
            await console.shows("No jobs yet.", "s opens the form")
            await console.press("enter", "c", "H", "r", "P", "i", "y")
            assert session.calls == []


async def test_enter_opens_the_job_and_copy_takes_its_id() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        await console.press("y")
        assert console.app.clipboard == "ana-0003"
        await console.press("enter")
        await console.shows("Queue > resnet")
        await console.press("escape")
        await console.shows("queue  5 jobs")


# -- looking ahead -------------------------------------------------------------------------------


async def test_waiting_jobs_stand_in_the_order_of_their_expected_starts() -> None:
    waiting = tuple(
        job(name, JobState.QUEUED, number, attempts=())
        for number, name in enumerate(("slow", "soon", "never"), start=1)
    )
    session = FakeSession(jobs_now=waiting)
    session.foresight.known = {
        "ana-0001": Expected(session.time + 7200, ("a100-01",), guess=True),
        "ana-0002": Expected(session.time + 600, ("a100-01",), guess=False),
    }
    async with opened(session) as console:
        await console.press("2")
        await console.shows("queue  3 jobs", "in ~10m", "in ~2h00m?")
        assert order(console) == ["ana-0002", "ana-0001", "ana-0003"]


@pytest.mark.parametrize("size", SIZES)
async def test_what_if_shows_which_jobs_would_move(size: tuple[int, int]) -> None:
    session = FakeSession(jobs_now=JOBS)
    now = session.time
    moved = Moved("ana-0002", "bert", "ana", now + 3600, now + 60)
    session.foresight.answer = Comparison((moved,), 2, 3600.0, 60.0, guess=True)
    async with opened(session, size) as console:
        await queue(console, row=1)
        await console.press("e")
        await console.shows("what if", "priority bert 10", "nothing is changed")
        await console.press("enter")
        await console.shows("priority bert 10: 2 jobs wait; 1 would start at another time.",
                            "from 1h00m to 1m00s", "these are guesses", "bert")  # fmt: skip
        assert session.foresight.asked == [Change("priority", "bert", 10)]
        await console.press("escape")
        await console.shows("why is bert queued?")


async def test_what_if_says_what_it_does_not_understand() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        await console.press("e")
        await console.shows("what if")
        assert console.app.screen.query_one("#answer", Input).placeholder.startswith("e.g. ")
        await console.press(*"drain", "enter")
        await console.shows("'drain' is not a change.")
        session.foresight.error = UsageError("No such host", "nowhere is not in the inventory.")
        await console.press("space", *"nowhere", "enter")
        await console.shows("nowhere is not in the inventory.")
        assert session.foresight.asked == [Change("drain", "nowhere")]


async def test_a_running_job_with_checkpoints_is_preempted_after_a_question() -> None:
    resumable = replace(JOBS[2], task=replace(JOBS[2].task, checkpoint_dir="ckpt"))
    session = FakeSession(jobs_now=(JOBS[0], JOBS[1], resumable, *JOBS[3:]))
    async with opened(session) as console:
        await queue(console)
        await console.press("E")
        await console.shows("Preempt resnet?", "after its last checkpoint")
        await console.press("y")
        await console.shows("resnet is queued again.")
        assert ("preempt", "ana-0003") in session.calls


async def test_a_job_that_could_not_go_on_is_not_preempted() -> None:
    session = FakeSession(jobs_now=JOBS)
    async with opened(session) as console:
        await queue(console)
        await console.press("E")
        await console.shows("resnet keeps no checkpoints")
        await console.press("down", "E")
        await console.shows("bert is queued")
        assert not [call for call in session.calls if call[0] == "preempt"]


async def test_a_priority_that_is_no_number_is_asked_for_again() -> None:
    session = FakeSession(jobs_now=(job("waiting", JobState.QUEUED),))
    async with opened(session) as console:
        await console.press("2", "P")
        await console.shows("Priority of waiting")
        for wrong in ("-", "--5", "9" * 40):
            console.app.screen.query_one("#answer", Input).value = wrong
            await console.press("enter")
            await console.shows("A whole number is needed.")
        console.app.screen.query_one("#answer", Input).value = "-5"
        await console.press("enter")
        await console.until(lambda: session.named("priority") == [("priority", "ana-0001", -5)])


@pytest.mark.parametrize(
    ("state", "acts", "not_now"),
    [
        (JobState.QUEUED, ("cancel", "hold"), ("retry",)),
        (JobState.RUNNING, ("cancel",), ("retry", "hold", "priority")),
        (JobState.FAILED, ("retry",), ("cancel", "hold", "priority")),
    ],
)
async def test_the_footer_shows_what_acts_on_the_job_and_usage(
    state: JobState, acts: tuple[str, ...], not_now: tuple[str, ...]
) -> None:
    async with opened(FakeSession(jobs_now=(job("resnet", state),)), (80, 24)) as console:
        await console.press("2")
        await console.shows("resnet")
        await console.until(lambda: all(word in footer(console) for word in acts), "its verbs")
        assert all(word in footer(console) for word in ("open", "u usage", "/ filter", "? help"))
        assert not any(word in footer(console) for word in not_now)


def footer(console: Driven) -> str:
    return console.text.splitlines()[-1]


# -- a large terminal -------------------------------------------------------------------------

LARGE = (200, 60)


async def test_a_large_terminal_shows_the_place_and_need_of_a_job_that_waits() -> None:
    ahead = job("first", JobState.QUEUED, 9, attempts=())
    soon = {
        ahead.id: Expected(NOW + 30.0, ("a100-01",), guess=False),
        "ana-0002": Expected(NOW + 90.0, ("ascend-01", "a100-01"), guess=True),
    }
    made = FakeSession(hosts_now=lab(), jobs_now=(*JOBS, ahead))
    made.foresight.known = soon
    async with opened(made, LARGE) as console:
        await console.press("2", "down", "down")
        await console.shows(
            "why is bert queued?", "need against the devices", "17.6 GiB",
            "place     2 of 2 that wait", "before it first", "submitted by ana",
            "on ascend-01, a100-01, a", "guess",
        )  # fmt: skip
        rows = {line.split("│")[3].split()[0]: line for line in console.text.splitlines()
                if "GiB" in line and "of" in line and line.count("│") > 4}  # fmt: skip
        assert "another back end" in rows["Ascend"]
        assert "0 of 4" in rows["A100-SXM4-40GB"]
        await console.press("i")
        await console.until(lambda: "need against" not in console.text, "i hides all of it")


async def test_a_large_terminal_shows_memory_curve_and_log_of_a_job_that_ran() -> None:
    made = FakeSession(hosts_now=lab(), jobs_now=JOBS)
    made.lines = [f"step={at}/40 loss={4.0 / at:.3f} [red]" for at in range(1, 31)]
    async with opened(made, LARGE) as console:
        await queue(console)
        await console.shows("device memory against", "loss", "best 0.133", "step=30/40",
                            "[red]", "started on a100-01 gpu 0")  # fmt: skip
        assert "need against" not in console.text
        await console.press("end")
        await console.shows("what happened to gpt?", "Out of memory on the GPU")
        assert {len(line) for line in console.text.splitlines()} == {200}


@pytest.mark.parametrize(("count", "heights"), [(5, range(30, 33)), (60, range(12, 13))])
async def test_what_is_below_the_list_takes_what_the_list_leaves(
    count: int, heights: range
) -> None:
    jobs = tuple(job(f"j{n}", JobState.QUEUED, n, attempts=()) for n in range(count))
    async with opened(FakeSession(hosts_now=lab(), jobs_now=jobs), LARGE) as console:
        await console.press("2")
        await console.shows("history")
        lower = console.app.screen.query_one("#queue-lower")
        await console.until(lambda: lower.size.height in heights)


async def test_a_terminal_that_is_not_large_shows_the_reasons_alone() -> None:
    async with opened(FakeSession(hosts_now=lab(), jobs_now=JOBS)) as console:
        await queue(console)
        await console.shows("why is")
        assert "history" not in console.text
