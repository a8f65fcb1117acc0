"""The form of the submit screen: from what is typed to a task and back, and the past recalled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Suggestion
from gpuconsole.core.jobs import Job, JobState, Mount, Task
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.tui.task_form import FormError, apply, build_task, values_of
from gpuconsole.tui.widgets.form import completed
from tests.tui.console import opened
from tests.tui.fake import NOW, FakeSession, job, report
from tests.tui.screens.test_submit import asked, form, value


def test_completion(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text("")
    (tmp_path / "models" / "net.txt").write_text("")
    assert completed(f"{tmp_path}/mo") == f"{tmp_path}/models/"
    assert completed(f"{tmp_path}/models/n") == f"{tmp_path}/models/net.py"
    assert completed(f"{tmp_path}/nothing") is None
    assert completed(f"{tmp_path}/missing/x") is None
    assert completed("~nobody-of-that-name/x") is None


def test_a_task_from_the_form() -> None:
    values = {"script": "a/b.py", "args": "--x 'y z'", "devices": "auto", "batch": "8",
              "priority": "-3", "labels": "pool=train", "env": "A=1 B='2 3'",
              "mounts": "/data:/data /out:/out:rw",
              "prefer": "A100 RTX_3090", "image": "paddle"}  # fmt: skip
    task = build_task(values, {})
    assert task == Task("b", "a/b.py", ("--x", "y z"), image="paddle", devices=None, batch_size=8,
                        priority=-3, labels={"pool": "train"}, env={"A": "1", "B": "2 3"},
                        mounts=(Mount("/data", "/data"), Mount("/out", "/out", False)),
                        preferred_devices=("A100", "RTX_3090"))  # fmt: skip


@pytest.mark.parametrize(
    ("field", "typed"),
    [("script", " "), ("args", "'open"), ("devices", "0"), ("devices", "x"), ("batch", "0"),
     ("priority", "high"), ("mounts", "/data"), ("mounts", "data:/x"), ("env", "=A"),
     ("labels", "=x")],
)  # fmt: skip
def test_a_form_that_is_wrong_names_the_field(field: str, typed: str) -> None:
    with pytest.raises(FormError) as caught:
        build_task({"script": "a.py", field: typed}, {})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("--epochs 3 --batch-size 64", "--epochs 3 --batch-size 48"),
        ("--batch_size=64", "--batch_size=48"),
        ("-b 64", "-b 48"),
        ("--epochs 3", "--epochs 3"),
        ("--batch-size", "--batch-size"),
        ("'open", "'open"),
    ],
)
def test_a_batch_among_the_arguments_follows(args: str, expected: str) -> None:
    changed = apply({"args": args}, Suggestion("batch-size", 48, "smaller"))
    assert changed is not None
    assert (changed["batch"], changed["args"]) == ("48", expected)


def test_other_suggestions() -> None:
    assert apply({}, Suggestion("device", 24, "there")) is None
    assert apply({}, Suggestion("amp", "O1", "mixed")) is None


def past_jobs() -> tuple[Job, ...]:
    def submitted(number: int, args: tuple[str, ...], **more: object) -> Job:
        task = Task("train", "train.py", args, **more)  # type: ignore[arg-type]
        return replace(
            job("train", JobState.SUCCEEDED, number), task=task, submitted_at=NOW + number
        )

    return (
        submitted(1, ("--lr", "0.1"), batch_size=32, env={"A": "x y"}),
        submitted(2, ("--lr", "0.2")),
        submitted(3, ("--lr", "0.2")),
        replace(submitted(4, ("--lr", "9")), user="bo"),
    )


async def test_past_submissions_are_recalled_and_the_draft_is_kept() -> None:
    session = FakeSession(jobs_now=past_jobs())
    async with opened(session) as console:
        await console.press("4")
        await console.shows(
            "submitted before", "up in the script field recalls", "train.py --lr 0.1"
        )
        await console.type("dra")
        await console.press("up")
        assert value(console, "args") == "--lr 0.2"
        await console.shows("1 of 2 submitted before")
        await console.press("up")
        assert (value(console, "args"), value(console, "batch")) == ("--lr 0.1", "32")
        await console.until(lambda: asked(session).env == {"A": "x y"})
        await console.press("up")
        await console.toast("You submitted nothing before that.")
        await console.press("down")
        assert value(console, "args") == "--lr 0.2"
        await console.press("down")
        assert (value(console, "script"), value(console, "args")) == ("dra", "")
        await console.press("ctrl+r")
        assert value(console, "args") == "--lr 0.2"
        await console.type("x")
        await console.until(lambda: "submitted before" not in console.text)
        await console.press("down")
        assert console.app.focused is console.app.screen.query_one("#field-args")
        await console.press("up")
        assert console.app.focused is console.app.screen.query_one("#field-script")
        await console.press("up", "enter")
        assert console.app.focused is console.app.screen.query_one("#field-args")


async def test_a_recalled_job_brings_the_changes_of_its_copy() -> None:
    loop = Edit("train.py", 20, "step()", "scaler.step()", "amp")
    size = Edit("train.py", 3, "batch = 64", "batch = 16")
    older, newest = past_jobs()[:2]
    jobs = (
        replace(newest, task=replace(newest.task, edits=(loop,))),
        replace(newest, id="plain", submitted_at=NOW + 1.5),
        replace(older, task=replace(older.task, edits=(loop, size))),
    )
    session = FakeSession(jobs_now=jobs)
    async with opened(session) as console:
        await console.press("4")
        await console.type("train.py")
        await console.press("up")
        await console.until(lambda: asked(session).edits == (loop,))
        await console.shows("shipped copy, mixed precision", "ctrl+z undoes the last change")
        # The same was submitted without the change too.
        await console.press("up")
        await console.until(lambda: asked(session).edits == ())
        await console.press("up")
        await console.until(lambda: asked(session).edits == (loop, size))
        assert value(console, "batch") == "32"
        await console.press("ctrl+z")
        await console.until(lambda: asked(session).edits == ())
        assert value(console, "batch") == ""


async def test_the_draft_has_its_own_changes_back_after_a_recall() -> None:
    loop = Edit("train.py", 20, "step()", "scaler.step()", "amp")
    mixed = Suggestion("amp", "O1", "Use mixed precision.", 900.0, edits=(loop,))
    session = FakeSession(jobs_now=past_jobs(), answer=replace(report(), suggestions=(mixed,)))
    async with opened(session) as console:
        await form(console)
        await console.shows("F2")
        await console.press("f2")
        await console.shows("Change the shipped copy so?")
        await console.press("y")
        await console.until(lambda: asked(session).edits == (loop,))
        await console.press("ctrl+r")
        await console.until(lambda: asked(session).args == ("--lr", "0.2"))
        assert asked(session).edits == ()
        await console.press("down")
        await console.until(lambda: asked(session).edits == (loop,))


async def test_nothing_to_recall_says_so() -> None:
    async with opened(FakeSession()) as console:
        await console.press("4", "ctrl+r")
        await console.toast("No job of yours yet.")


def test_a_task_and_the_form_are_each_others_inverse() -> None:
    task = Task("b", "a/b.py", ("--x", "y z"), image="paddle", devices=None, batch_size=8,
                priority=-3, labels={"pool": "train"}, env={"A": "1", "B": "2 3"},
                mounts=(Mount("/data", "/data"), Mount("/out", "/out", False)),
                preferred_devices=("A100", "RTX_3090"), assumptions={"len(v)": "3"})  # fmt: skip
    assert build_task(values_of(task), {}) == task
    assert build_task(values_of(Task("other", "b.py")), {}) == Task("other", "b.py")


def test_a_variable_without_a_value_is_a_secret_of_ones_own() -> None:
    values = {"script": "a.py", "env": "LR=1 HF_TOKEN 'X=a b' UNSET"}
    task = build_task(values, {"HF_TOKEN": "hidden", "LR": "2"})
    assert task.env == {"LR": "1", "X": "a b"}
    assert task.secrets == {"HF_TOKEN": "hidden", "UNSET": ""}


def test_values_that_are_secret_are_not_shown_in_the_form() -> None:
    env = {"LR": "1", "API_KEY": "hidden-1", "DB": "http://u:hidden-2@h"}
    shown = values_of(Task("a", "a.py", env=env, secrets={"MINE": "hidden-3"}))
    assert shown["env"] == "LR=1 API_KEY DB MINE"
