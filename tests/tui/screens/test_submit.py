"""The submit screen: live preflight beside the form, suggestions, and the typed name."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from textual.widgets import Input

from gpuconsole.core.estimate import Ask, BatchSource, ScriptFault, Suggestion, Unknown
from gpuconsole.core.jobs import JobState, Task
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.placement.model import Rejection
from gpuconsole.tui.render.job import Beside, Going, fact_lines
from gpuconsole.tui.render.placement import refusals
from gpuconsole.tui.screens.dialogs.base import AskScreen
from gpuconsole.tui.screens.submit import screen as submit_screen
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN
from tests.tui.console import NARROW, SIZES, Driven, opened
from tests.tui.fake import FakeSession, failing_report, job, report, unknown_report


async def form(console: Driven, script: str = "train.py") -> None:
    await console.press("4")
    await console.type(script)
    await console.until(lambda: answered(console, script))


def answered(console: Driven, script: str) -> bool:
    screen = console.app.screen
    assert isinstance(screen, submit_screen.SubmitScreen)
    calls = cast("FakeSession", console.app.session).named("preflight")
    return bool(calls) and calls[-1][1].script == script and screen.answered


def value(console: Driven, field: str) -> str:
    return console.app.screen.query_one(f"#field-{field}", Input).value


def asked(session: FakeSession) -> Task:
    """Return what preflight was asked about last; a task without a name before that."""
    calls = session.named("preflight")
    task = calls[-1][1] if calls else Task("")
    assert isinstance(task, Task)
    return task


async def test_the_verdict_appears_as_one_types() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await console.press("4")
        await console.shows("Name a script", "run in a sandbox")
        await console.type("train.py")
        await console.shows("✓ FITS", "up to 14.8 GiB of 34.0 GiB", "static", "97% understood",
                            "train.py:12)", "limit 34.0 GiB", "activations", "9.4 GiB",
                            "13.6 GiB to 14.8 GiB", "A100-SXM4-40GB", "+19.2 GiB", "186",
                            "✗ will not fit", "F2", "Batch size 48")  # fmt: skip
        await console.shows("a100-01 gpu 0", "score 0.93", "It fits with 9.1 GiB to spare.",
                            "rtx-01 (RTX 3090): the device is lost.",
                            "rtx-01 (2 x RTX 3090): needs up to 14.8 GiB", "docker run",
                            "device=GPU-a0")  # fmt: skip
        await console.until(lambda: asked(session).script == "train.py")
        assert len(session.named("preflight")) < len("train.py"), "typing is debounced"
        assert all(len(line) == 120 for line in console.text.splitlines())


async def test_a_slow_estimate_never_blocks_typing_and_stale_is_marked() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await form(console)
        await console.shows("FITS")
        session.gate = asyncio.Event()
        await console.press("down", "down", "down")
        await console.type("128")
        await console.shows("stale, estimating")
        await console.until(lambda: asked(session).batch_size == 128)
        await console.press("backspace")
        assert value(console, "batch") == "12"
        session.answer = report(12)
        session.gate.set()
        await console.until(lambda: asked(session).batch_size == 12)
        await console.shows("batch 12", "(live, 38 ms)")


async def test_only_the_last_answer_counts() -> None:
    session = FakeSession()
    async with opened(session) as console:
        session.gate = asyncio.Event()
        await console.press("4")
        await console.type("a.py")
        await console.until(lambda: session.named("preflight"))
        await console.type("x")
        await console.until(lambda: asked(session).script == "a.pyx")
        session.gate.set()
        await console.shows("FITS")
        assert len(session.named("placements")) == 1
        assert session.named("placements")[0][1].script == "a.pyx"


async def test_function_keys_apply_suggestions() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await form(console)
        await console.shows("F2  ", "F2 apply")
        # What is for the script has no key: nothing is promised that does not act.
        assert any(one.kind != "batch-size" for one in session.answer.suggestions)
        assert "F3" not in console.text
        kept = len(console.app.messages)
        await console.press("f3", "f4")
        assert len(console.app.messages) == kept
        assert value(console, "batch") == ""
        await console.press("f2")
        assert value(console, "batch") == "48"
        await console.until(lambda: asked(session).batch_size == 48)
        await console.toast("change the batch size at train.py:12 too")


async def test_a_suggestion_is_applied_as_soon_as_its_answer_is_there() -> None:
    session = FakeSession()
    async with opened(session) as console:
        session.gate = asyncio.Event()
        await console.press("4")
        await console.type("train.py")
        await console.press("f2")
        assert value(console, "batch") == ""
        session.gate.set()
        await console.until(lambda: asked(session).batch_size == 48)
        assert value(console, "batch") == "48"


async def test_a_suggestion_waited_for_is_dropped_by_typing_on() -> None:
    session = FakeSession()
    async with opened(session) as console:
        session.gate = asyncio.Event()
        await console.press("4")
        await console.type("train.py")
        await console.press("f2")
        await console.type("x")
        session.gate.set()
        await console.until(lambda: answered(console, "train.pyx"))
        await console.press("f6", "f6", "f6")
        assert value(console, "batch") == ""


async def test_a_key_never_applies_what_was_suggested_for_another_script() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await form(console)
        session.gate = asyncio.Event()
        await console.type("x")
        await console.press("f2")
        assert value(console, "batch") == ""


async def test_a_suggestion_changes_the_shipped_copy_alone() -> None:
    edit = Edit("train.py", 12, "BATCH = 64", "BATCH = 48")
    smaller = Suggestion("batch-size", 48, "Reduce the batch size to 48.", 900.0, edits=(edit,))
    session = FakeSession(answer=replace(report(), suggestions=(smaller,)))
    async with opened(session) as console:
        await form(console)
        await console.shows("F2")
        await console.press("f2")
        await console.until(lambda: asked(session).edits == (edit,))
        assert asked(session).batch_size == 48
        await console.shows("shipped copy, train.py:12", "- BATCH = 64", "+ BATCH = 48")
        await console.press("ctrl+j")
        await console.until(lambda: session.named("submit"))
        assert session.named("submit")[0][1].edits == (edit,)


LOOP = (
    Edit("train.py", 20, "    loss.backward()\n    adam.step()",
         "    scaled.backward()\n    scaler.step(adam)\n    scaler.update()", "amp", "f" * 64),
    Edit("train.py", 17, "    loss = net(x)", "    with auto_cast():\n        loss = net(x)",
         "amp", "f" * 64),
)  # fmt: skip
MIXED = Suggestion(
    "amp", "O1", "Use automatic mixed precision (O1): this makes it fit.", 900.0, edits=LOOP
)


async def test_a_change_of_the_loop_is_shown_before_it_is_applied() -> None:
    session = FakeSession(answer=replace(report(), suggestions=(MIXED,)))
    async with opened(session) as console:
        await form(console)
        await console.shows("F2")
        await console.press("f2")
        await console.shows(
            "Change the shipped copy so?", "@@ -17 +17,2 @@", "-    loss = net(x)",
            "+        loss = net(x)", "+    scaler.update()", "Your file stays as it is.",
        )  # fmt: skip
        await console.press("escape")
        await console.until(lambda: "Change the shipped copy so?" not in console.text)
        assert asked(session).edits == ()
        await console.press("f2")
        await console.shows("Change the shipped copy so?")
        await console.press("enter")
        await console.until(lambda: asked(session).edits == LOOP)
        await console.toast("The shipped copy will be changed at train.py:17, train.py:20-21")
        await console.shows("shipped copy, mixed precision: train.py:17, train.py:20-21")
        await console.press("ctrl+j")
        await console.until(lambda: session.named("submit"))
        assert session.named("submit")[0][1].edits == LOOP


def test_a_job_tells_what_is_changed_in_its_copy() -> None:
    edits = (Edit("train.py", 3, "b = 8", "b = 4"), *LOOP)
    task = Task("mixed", "train.py", edits=edits)
    changed = replace(job("mixed", JobState.QUEUED), task=task)
    going = Going(changed, FakeSession().snapshot(), 0.0)
    lines = fact_lines(Ink(BUILT_IN), going, Beside(), 80)
    text = "\n".join("".join(words for words, _ in line) for line in lines)
    assert "changed   batch size, mixed precision" in text


async def test_a_change_of_the_copy_is_undone() -> None:
    session = FakeSession(answer=replace(report(), suggestions=(MIXED,)))
    async with opened(session) as console:
        await form(console)
        await console.shows("F2")
        await console.press("f2")
        await console.shows("Change the shipped copy so?")
        await console.press("y")
        await console.until(lambda: asked(session).edits == LOOP)
        await console.shows("ctrl+z undoes the last change")
        await console.press("ctrl+z")
        await console.until(lambda: asked(session).edits == ())
        await console.until(lambda: "ctrl+z undoes the last change" not in console.text)


async def test_accumulation_is_for_the_batch_size_that_it_was_made_for() -> None:
    loop = Edit("train.py", 20, "step()", "if last:\n    step()", "accumulate")
    parts = Suggestion("accumulate", 4, "Accumulate.", 900.0, edits=(loop,), batch=16)
    session = FakeSession(answer=replace(report(), suggestions=(parts,)))
    async with opened(session) as console:
        await form(console)
        await console.shows("F2")
        await console.press("f2")
        await console.shows("Change the shipped copy so?")
        await console.press("y")
        await console.until(lambda: asked(session).edits == (loop,))
        assert value(console, "batch") == "16"
        assert asked(session).batch_size == 16
        field = console.app.screen.query_one("#field-batch", Input)
        field.value = "32"
        await console.until(lambda: asked(session).batch_size == 32)
        assert asked(session).edits == ()
        await console.toast("Another batch size was typed")


async def test_changes_that_the_file_no_longer_is_for_are_left_out_with_f5() -> None:
    """With the batch size that they put in: nothing else does."""
    loop = Edit("train.py", 20, "step()", "if last:\n    step()", "accumulate")
    parts = Suggestion("accumulate", 4, "Accumulate.", 900.0, edits=(loop,), batch=16)
    session = FakeSession(answer=replace(report(), suggestions=(parts,)))
    async with opened(session) as console:
        await form(console)
        await console.shows("F2")
        session.error = UsageError("The script has changed", "Not as it was.", "Run it again.")
        await console.press("f2")
        await console.shows("Change the shipped copy so?")
        await console.press("y")
        await console.shows("The script has changed", "Not as it was.")
        assert value(console, "batch") == "16"
        session.error = None
        await console.press("f5")
        await console.toast("The changes of the shipped copy are undone.")
        await console.until(lambda: asked(session).edits == ())
        assert value(console, "batch") == ""


async def test_the_fourth_suggestion_has_a_key_too() -> None:
    smaller = Suggestion("batch-size", 48, "Reduce the batch size to 48.", 900.0)
    several = (smaller, smaller, smaller, MIXED)
    session = FakeSession(answer=replace(report(), suggestions=several))
    async with opened(session) as console:
        await form(console)
        await console.shows("F12 Use automatic mixed precision")
        await console.press("f12")
        await console.shows("Change the shipped copy so?")


async def test_what_is_written_by_hand_has_no_key() -> None:
    words = "By hand: at train.py:20 do it."
    by_hand = Suggestion("amp", "O1", "Use mixed precision.", 900.0, by_hand=words)
    session = FakeSession(answer=replace(report(), suggestions=(by_hand,)))
    async with opened(session) as console:
        await form(console)
        await console.shows("Use mixed precision", words)
        assert "F2" not in console.text


async def test_edits_go_with_the_script_that_they_are_for() -> None:
    edit = Edit("train.py", 12, "BATCH = 64", "BATCH = 48")
    smaller = Suggestion("batch-size", 48, "Reduce the batch size to 48.", 900.0, edits=(edit,))
    session = FakeSession(answer=replace(report(), suggestions=(smaller,)))
    async with opened(session) as console:
        await form(console)
        await console.press("f2")
        await console.until(lambda: asked(session).edits == (edit,))
        console.app.screen.query_one("#field-script", Input).value = "other.py"
        await console.until(lambda: asked(session).script == "other.py")
        assert asked(session).edits == ()


async def test_f7_begins_the_answer_to_a_question() -> None:
    answer = report()
    ask = Ask("vocab_size", "train.py", 40, "How large is the vocabulary?", "30000")
    answer = replace(answer, estimate=replace(answer.estimate, asks=(ask,)))
    session = FakeSession(answer=answer)
    async with opened(session, size=(160, 48)) as console:
        await form(console)
        await console.shows("How large is the vocabulary?", "vocab_size=30000")
        await console.press("f7")
        await console.type("30000")
        assert value(console, "answers") == "vocab_size=30000"
        await console.until(lambda: asked(session).assumptions == {"vocab_size": "30000"})


async def test_f7_without_a_question_says_so() -> None:
    async with opened(FakeSession()) as console:
        await form(console)
        await console.press("f7")
        await console.toast("Preflight asks nothing.")


async def test_f8_measures_with_progress_and_shows_what_that_gave() -> None:
    session = FakeSession(learned=report(512, "will-not-fit"))
    async with opened(session, size=(160, 48)) as console:
        await form(console)
        await console.press("f8")
        await console.shows("measuring 40%: batch 2, step 1")
        session.measuring.set()
        await console.toast("Measured")
        assert session.named("climb")[0][2:] == (True, "a100-01")
        await console.until(lambda: "measuring" not in console.text)
        await console.shows("WILL NOT FIT")


async def test_f8_again_cancels() -> None:
    session = FakeSession()
    async with opened(session, size=(160, 48)) as console:
        await form(console)
        await console.press("f8")
        await console.shows("measuring 40%")
        await console.press("f8")
        await console.toast("Not measured: measuring was cancelled")
        await console.until(lambda: "measuring 40%" not in console.text)
        assert len(session.named("climb")) == 1


async def test_what_reading_does_not_tell_is_measured_by_itself() -> None:
    session = FakeSession(answer=unknown_report(), learned=report())
    async with opened(session, size=(160, 48)) as console:
        await form(console)
        await console.shows("measuring 40%: batch 2, step 1")
        assert session.named("climb")[0][2:] == (False, "a100-01")
        session.measuring.set()
        await console.shows("FITS")
        await console.until(lambda: "measuring" not in console.text)


async def test_what_would_run_here_is_not_measured_by_itself() -> None:
    session = FakeSession(answer=unknown_report(), measures=False)
    async with opened(session, size=(160, 48)) as console:
        await form(console)
        await console.until(lambda: session.named("refused"))
        assert session.named("climb") == []


async def test_f8_ends_a_measurement_that_began_by_itself() -> None:
    session = FakeSession(answer=unknown_report())
    async with opened(session, size=(160, 48)) as console:
        await form(console)
        await console.shows("measuring 40%")
        await console.press("f8")
        await console.until(lambda: "measuring 40%" not in console.text)
        assert session.named("stop_measuring")


async def test_without_a_host_f8_asks_before_it_runs_the_script_here() -> None:
    session = FakeSession(measures=False)
    async with opened(session, size=(160, 48)) as console:
        await form(console)
        await console.press("f8")
        await console.shows("Run the script here?", "made for tests.")
        await console.press("n")
        assert session.named("climb") == []
        await console.press("f8")
        await console.shows("Run the script here?", "made for tests.")
        await console.press("y")
        await console.until(lambda: session.named("climb"))
        assert session.named("climb")[0][3] == ""
        session.measuring.set()
        await console.toast("Measured")


async def test_submit_sends_the_task_and_opens_the_job() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await form(console)
        await console.shows("FITS")
        await console.press("down")
        await console.type("--epochs 3")
        await console.press("enter")
        await console.type("my job")
        await console.press("ctrl+j")
        await console.until(lambda: session.named("submit"))
        _, task, force = session.named("submit")[0]
        assert (task.name, task.script, task.args, force) == (
            "my job", "train.py", ("--epochs", "3"), False,
        )  # fmt: skip
        await console.shows("Queue > my job", "queued as ana-0090")


async def test_what_will_not_fit_needs_the_name_typed() -> None:
    session = FakeSession(answer=report(512, "will-not-fit"))
    async with opened(session) as console:
        await form(console)
        await console.shows("✗ WILL NOT FIT")
        await console.press("ctrl+s")
        assert isinstance(console.app.screen, AskScreen)
        await console.shows("will not fit", "name: train")
        await console.type("trai")
        await console.press("enter")
        await console.shows("That is not what is asked for.")
        assert not session.named("submit")
        await console.type("n")
        await console.press("enter")
        await console.until(lambda: session.named("submit"))
        assert session.named("submit")[0][2] is True


async def test_a_refusal_by_the_session_asks_for_the_name_too() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await form(console)
        await console.shows("FITS")
        session.error = RefusedError("Will not fit", "Another job took the memory.")
        await console.press("ctrl+j")
        await console.shows("Another job took the memory.", "the job's name: train")
        session.error = None
        await console.press("escape")
        assert len(session.named("submit")) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (unknown_report(), ("? UNKNOWN", "train.py:40", "read from a file")),
        (failing_report(), ("✗ WILL FAIL", "train.py:31", "64x256")),
    ],
)
async def test_unknowns_and_faults_name_their_line(answer: object, words: tuple[str, ...]) -> None:
    session = FakeSession(answer=answer)  # type: ignore[arg-type]
    async with opened(session) as console:
        await form(console)
        await console.shows(*words)


async def test_files_are_named_beside_the_script() -> None:
    folder = "/home/ana/a/very/long/way/to/project"
    fault = ScriptFault(f"{folder}/models/net.py", 31, "Linear(512, 10) gets 256 features.")
    away = Unknown("/usr/lib/python3/site-packages/lib.py", 7, "It is not followed.")
    estimate = replace(report().estimate, script=f"{folder}/train.py", errors=(fault,),
                       unknowns=(away,),
                       batch_source=BatchSource(f"{folder}/train.py", 12, "default"))  # fmt: skip
    async with opened(FakeSession(answer=replace(report(), estimate=estimate))) as console:
        await form(console)
        await console.shows("train.py:12)", "models/net.py:31", "lib.py:7")
        assert "/home" not in console.text
        assert "/usr" not in console.text


def test_equal_refusals_are_one_sentence() -> None:
    def refused(host: str, model: str, reason: str) -> Rejection:
        return Rejection(host, "u", model, "memory", reason)

    words = "Needs up to 92.6 GiB, 34.0 GiB may be used."
    assert refusals(
        [*[refused("a-1", "NVIDIA A100", words)] * 8,
         refused("r-1", "NVIDIA GeForce RTX 3090", words),
         *[refused("a-2", "NVIDIA A100", words)] * 4, refused("a-3", "", "NVML is missing."),
         refused("", "", "9 more devices, for the same kind of reason.")]
    ) == (
        "a-1 and 1 more (12 x A100): needs up to 92.6 GiB, 34.0 GiB may be used.",
        "r-1 (RTX 3090): needs up to 92.6 GiB, 34.0 GiB may be used.",
        "a-3: NVML is missing.",
        "9 more devices, for the same kind of reason.",
    )  # fmt: skip


async def test_an_error_is_shown_in_place_not_as_a_toast_per_letter() -> None:
    session = FakeSession()
    session.error = UsageError("No such script", "[b]train.py[/b] is not a file.", "Check it.")
    async with opened(session) as console:
        await form(console)
        await console.shows("No such script", "[b]train.py[/b] is not a file.", "Check it.")
        assert not list(console.app._notifications)


async def test_a_field_that_is_wrong_is_named() -> None:
    async with opened(FakeSession()) as console:
        await form(console)
        await console.press("down", "down", "down")
        await console.type("abc")
        await console.shows("batch: `abc` is no whole number.")
        await console.press("ctrl+j")
        await console.shows("`abc` is no whole number")


@pytest.mark.parametrize("size", SIZES)
async def test_f6_walks_the_panes_of_a_narrow_terminal(size: tuple[int, int]) -> None:
    async with opened(FakeSession(), size) as console:
        await form(console)
        if size == NARROW:
            await console.shows("✓ fits", "F6 switches", "environment")
            await console.press("f6")
            await console.shows("activations", "limit 34.0 GiB")
            assert "environment" not in console.text
            await console.press("pagedown")
            await console.shows("Batch size 48")
            await console.press("pageup", "f6")
            await console.shows("score 0.93", "docker run")
            await console.press("f6")
            await console.shows("environment")
            assert all(len(line) == 80 for line in console.text.splitlines())
        else:
            await console.shows("environment", "activations", "score 0.93")


async def test_letters_and_digits_are_only_typed() -> None:
    async with opened(FakeSession()) as console:
        await form(console, "q1?:/.py")
        assert value(console, "script") == "q1?:/.py"
        assert console.app.current_mode == "submit"
        await console.press("f1")
        await console.shows("Help: Submit")
        await console.press("escape", "escape")
        await console.until(lambda: console.app.current_mode == "fleet")


async def test_the_draft_survives_a_look_elsewhere() -> None:
    async with opened(FakeSession()) as console:
        await form(console)
        await console.press("escape", "4")
        assert value(console, "script") == "train.py"


async def test_the_picker_fills_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train_me.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    async with opened(FakeSession()) as console:
        await console.press("4", "ctrl+l")
        await console.shows("find a script", "train_me.py")
        assert "notes.txt" not in console.text
        await console.press("down", "enter")
        await console.until(lambda: value(console, "script") == "train_me.py")


def test_reports_without_verdicts_or_limits_are_drawn() -> None:
    from gpuconsole.tui.render.preflight_report import report_lines
    from gpuconsole.tui.style.styles import Ink
    from gpuconsole.tui.style.themes import BUILT_IN

    full = report()
    bare = replace(full, verdicts=(), suggestions=())
    vague = replace(full.verdicts[0], limit_mib=None, headroom_mib=None, max_batch_size=None)
    limitless = replace(full, verdicts=(vague,))
    huge = report(100_000, "will-not-fit")
    for each in (full, bare, limitless, huge, unknown_report(), failing_report()):
        for width in (30, 58, 120):
            for line in report_lines(Ink(BUILT_IN, "ascii"), each, (), width):
                assert sum(len(text) for text, _ in line) <= max(width, 57), line


async def test_only_a_slow_answer_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit_screen, "PATIENCE_S", 3600.0)
    session = FakeSession()
    async with opened(session) as console:
        await form(console)
        await console.shows("FITS")
        session.gate = asyncio.Event()
        await console.press("backspace")
        await console.until(lambda: asked(session).script == "train.p")
        assert "estimating" not in console.text
        session.gate.set()
        await console.until(lambda: session.named("placements")[-1][1].script == "train.p")
