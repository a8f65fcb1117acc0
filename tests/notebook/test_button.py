"""The Submit button below an answer in a notebook."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import RefusedError
from gpuconsole.notebook import display
from gpuconsole.notebook.commands import Cell, cell_words
from gpuconsole.notebook.display import Screen
from tests.tui.fake import report

SOURCE = "import paddle\n"


class Lab:
    """A session that queues what it is given."""

    simulated = True

    def __init__(self, *, read_only: bool = False) -> None:
        self.read_only = read_only
        self.queued: list[Task] = []

    def submit(self, task: Task, *, force: bool = False) -> Job:
        self.queued.append(task)
        return Job("7kq2mp4xwe", task, "ann", JobState.QUEUED, 1.0)


class DeskOf:
    """A kernel's desk on that session, or on none."""

    def __init__(self, lab: Lab | None, folder: Any) -> None:
        self._lab = lab
        self._folder = folder
        self.homeless = lab is None

    def lab(self) -> Lab:
        assert self._lab is not None
        return self._lab

    def preflight(self, task: Task) -> Report:
        return report()

    def script_of(self, source: str, name: str) -> Any:
        path = self._folder / f"{name}.py"
        path.write_text(source)
        return path


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Give what a front end is given."""
    found: list[Any] = []
    monkeypatch.setattr(
        display.front_end, "display", lambda one, **_: found.append(one), raising=True
    )
    return found


def answered(lab: Lab | None, folder: Any, *words: str) -> None:
    shell = SimpleNamespace(kernel=object())
    room = Cell(desk=DeskOf(lab, folder), screen=Screen(shell), source=SOURCE)  # type: ignore[arg-type]
    with cell_words.make_context("gpuconsole", list(words), obj=room) as context:
        cell_words.invoke(context)


def boxes(shown: list[Any]) -> list[Any]:
    return [one for one in shown if hasattr(one, "children")]


def test_the_answer_to_a_cell_has_a_button_that_queues_it_once(
    shown: list[Any], tmp_path: Any
) -> None:
    lab = Lab()
    answered(lab, tmp_path)
    assert lab.queued == []
    (box,) = boxes(shown)
    press, said = box.children
    assert press.description == "Submit"
    press.click()
    assert [task.name for task in lab.queued] == ["cell"]
    assert press.disabled
    assert "7kq2mp4xwe" in said.value
    assert "%gpuconsole follow 7kq2mp4xwe" in said.value


def test_what_cannot_be_queued_is_said_without_markup_and_may_be_tried_again(
    shown: list[Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab()

    def refuse(task: Task, *, force: bool = False) -> Job:
        raise RefusedError("It will not fit", "<script>alert(1)</script>", "Use less.")

    monkeypatch.setattr(lab, "submit", refuse)
    answered(lab, tmp_path)
    press, said = boxes(shown)[0].children
    press.click()
    assert "It will not fit: " in said.value
    assert "Use less." in said.value
    assert "<script>" not in said.value
    assert not press.disabled


def test_there_is_none_where_nothing_can_be_queued(
    shown: list[Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(None, tmp_path)
    answered(Lab(read_only=True), tmp_path)
    answered(Lab(), tmp_path, "--submit", "--no-follow")
    assert boxes(shown) == []
    monkeypatch.setattr(display, "find_spec", lambda name: None)
    answered(Lab(), tmp_path)
    assert boxes(shown) == []
