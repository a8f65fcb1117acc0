"""A task of what was said about it: names, paths, ranges, each at its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.tasks import absolute, require, require_rules, task_from_script, task_of
from gpuconsole.core.training.stop_rules import MOST_RULES
from gpuconsole.errors import UsageError


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("print(1)\n")
    return path


def refused(**options: Any) -> tuple[str, str, str]:
    with pytest.raises(UsageError) as caught:
        task_of({"name": "t"}, options, "task")
    return caught.value.title, caught.value.message, caught.value.hint


def test_a_script_alone_names_its_task_and_its_folder(script: Path) -> None:
    task = task_from_script(script, ["--lr", "1"], priority=3, devices=None)
    assert (task.name, task.script, task.project) == ("train", str(script), str(script.parent))
    # None leaves the default.
    assert (task.args, task.priority, task.devices) == (("--lr", "1"), 3, 1)
    assert task_from_script(script).args == ()


def test_paths_may_be_relative_to_the_working_folder(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent)
    task = task_of({}, {"script": Path("train.py"), "project": Path(".")}, "task")
    assert (task.script, task.project) == (str(script), str(script.parent))
    monkeypatch.setenv("HOME", str(script.parent))
    assert absolute(Path("~/a/../b")) == str(script.parent / "b")


@pytest.mark.parametrize(
    ("written", "changes", "name"),
    [
        ({"name": "a"}, {}, "a"), ({"name": "a"}, {"name": "b"}, "b"), ({}, {}, "task"),
        ({"name": ""}, {}, "task"), ({"model_name": "resnet"}, {}, "resnet"),
        ({"name": "n" * 128}, {}, "n" * 128), ({"name": "n" * 129}, {}, "n" * 127 + "…"),
    ],
)  # fmt: skip
def test_a_task_without_a_name_has_that_of_its_model(
    written: dict[str, Any], changes: dict[str, Any], name: str
) -> None:
    assert task_of(written, changes, "task").name == name


def test_the_name_of_a_script_comes_before_the_models(script: Path) -> None:
    task = task_of({"model_name": "resnet"}, {"script": script}, "task")
    assert task.name == "train"


@pytest.mark.parametrize(("written", "changes"), [({"oops": 1}, {}), ({}, {"oops": 1})])
def test_a_field_that_no_task_has_is_a_mistake_of_the_caller(
    written: dict[str, Any], changes: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=r"\Aa task has no oops\Z"):
        task_of(written, changes, "task")


@pytest.mark.parametrize(
    ("field", "what"), [("batch_size", "batch size"), ("devices", "number of devices")]
)
def test_there_is_at_least_one(field: str, what: str) -> None:
    assert getattr(task_of({"name": "t"}, {field: 1}, "task"), field) == 1
    for value in (0, -1):
        assert refused(**{field: value}) == (
            "Wrong number",
            f"The {what} is {value}; it must be at least 1.",
            "",
        )


@pytest.mark.parametrize(
    ("share", "valid"), [(0.0, False), (0.01, True), (1.0, True), (1.01, False)]
)
def test_a_memory_threshold_is_a_share(share: float, valid: bool) -> None:
    if valid:
        task = task_of({"name": "t"}, {"memory_threshold": share}, "task")
        assert task.memory_threshold == share
    else:
        assert refused(memory_threshold=share) == (
            "Wrong number",
            f"The memory threshold is {share:g}; it must be above 0 and at most 1.",
            "0.85 leaves room for what cannot be foreseen.",
        )


def test_a_task_has_so_many_rules_at_most() -> None:
    require_rules(["loss is nan"] * MOST_RULES)
    with pytest.raises(UsageError) as caught:
        require_rules(["loss is nan"] * (MOST_RULES + 1))
    assert caught.value.message == f"A task has at most {MOST_RULES} rules."
    title, message, _ = refused(stop_if=("loss",))
    assert title == "Wrong rule"
    assert message.startswith("'loss': expected `is`, <, >, <= or >= at column 5.")


def test_the_script_lies_in_the_project(script: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert refused(script=script, project=other) == (
        "Script outside the project",
        f"{script} is not in the project folder {other}.",
        "Name a folder that holds it.",
    )


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("script", "none", "{path} does not exist."), ("folder", "none", "{path} does not exist."),
        ("script", ".", "{path} is not a file."), ("folder", "train.py", "{path} is not a folder."),
        ("script", "train.py/x", "{path} does not exist."),
    ],
)  # fmt: skip
def test_a_path_is_what_it_has_to_be(kind: Any, name: str, message: str, script: Path) -> None:
    require(script, "script")
    require(script.parent, "folder")
    path = script.parent / name
    with pytest.raises(UsageError) as caught:
        require(path, kind)
    assert (caught.value.title, caught.value.message, caught.value.hint) == (
        f"No such {kind}",
        message.format(path=path),
        "Check the path.",
    )
