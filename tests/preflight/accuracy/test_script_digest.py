"""A script is the same one while what its memory depends on is the same."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole import preflight
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.preflight.accuracy.script_digest import (
    may_use_paddle,
    script_digest,
    settings_of,
    task_digest,
)
from gpuconsole.preflight.interpreter.domain import syntax
from gpuconsole.preflight.interpreter.frontend import source


@pytest.fixture
def script(tmp_path: Path) -> Path:
    files = {
        "train.py": "import model\nfrom parts.heads import Head\nopen('base.yaml')\n",
        "model.py": "from parts import blocks\nwidth = 8\n",
        "parts/__init__.py": "",
        "parts/heads.py": "from . import blocks\nclass Head: ...\n",
        "parts/blocks.py": "depth = 2\n",
        "base.yaml": "width: 8\n",
        "other.py": "unrelated = 1\n",
        "notes.txt": "x",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "train.py"


@pytest.mark.parametrize(
    "name", ["train.py", "model.py", "parts/__init__.py", "parts/blocks.py", "base.yaml"]
)
def test_a_change_of_what_it_is_made_of_makes_another_script(script: Path, name: str) -> None:
    before = script_digest(script)
    assert before == script_digest(script) != ""
    with (script.parent / name).open("a") as file:
        file.write("\n# changed")
    assert script_digest(script) != before


def test_what_it_does_not_use_does_not_count(script: Path) -> None:
    before = script_digest(script)
    (script.parent / "other.py").write_text("unrelated = 2\n")
    (script.parent / "notes.txt").write_text("y")
    assert script_digest(script) == before


def test_a_configuration_named_by_an_argument_counts(script: Path) -> None:
    (script.parent / "big.yaml").write_text("width: 64\n")
    named = script_digest(script, ("--config=big.yaml",))
    assert named != script_digest(script)
    (script.parent / "big.yaml").write_text("width: 65\n")
    assert script_digest(script, ("--config=big.yaml",)) != named


def test_it_is_the_same_wherever_it_is_called_from(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = script_digest(script)
    monkeypatch.chdir(script.parent)
    assert script_digest(Path("train.py")) == whole


@pytest.mark.parametrize(
    "text", ["import train", "from ... import x", "import a.b", "def (", "open('/etc/passwd.json')"]
)
def test_odd_scripts_have_a_digest_too(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    assert script_digest(path)


def test_a_script_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert script_digest(tmp_path / "no.py") == ""


def test_arguments_that_differ_in_the_batch_alone_are_of_one_kind() -> None:
    assert settings_of(("--batch-size", "8", "--depth", "8"), 8) == settings_of(
        ("--batch-size", "16", "--depth", "8"), 16
    )
    assert settings_of(("--batch_size=8",), 8) == settings_of(("--batch_size=64",), 64)
    assert settings_of(("--depth", "8"), 8) != settings_of(("--depth", "16"), 16)
    assert settings_of(("-b", "4"), None) == ("-b", "4")
    assert settings_of(("--eval-batch-size", "8"), 8) == ("--eval-batch-size", "8")
    assert settings_of(("--depth", "8", "--bs", "8"), 8) == ("--depth", "8")
    assert settings_of(("8", "--batch-size", "8", "--depth", "8"), 8) == ("8", "--depth", "8")


def test_a_script_without_paddle_is_told_from_one_whose_modules_use_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\nimport net\ntime.sleep(600)\n")
    assert not may_use_paddle(script)
    (tmp_path / "net.py").write_text("from paddle import nn\n")
    assert may_use_paddle(script)
    assert may_use_paddle(script, tmp_path)
    assert may_use_paddle(tmp_path / "none.py")


def test_a_task_is_told_by_its_script_and_by_what_it_runs_in(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\nWIDTH = 4\n")
    plain = Task("x", str(script))
    found = {
        task_digest(plain),
        task_digest(replace(plain, env={"WIDTH": "4"})),
        task_digest(replace(plain, env={"WIDTH": "8"})),
        task_digest(replace(plain, mounts=(Mount("/data/a", "/data"),))),
        task_digest(replace(plain, mounts=(Mount("/data/b", "/data"),))),
        task_digest(replace(plain, edits=(Edit(str(script), 2, "WIDTH = 4", "WIDTH = 8"),))),
    }
    assert len(found) == 6
    assert task_digest(plain) == script_digest(script)
    assert task_digest(Task("x", str(tmp_path / "no.py"), env={"WIDTH": "4"})) == ""


def test_the_line_that_sets_the_batch_size_is_no_other_task(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\n"
        "net = paddle.nn.Linear(64, 64)\n"
        "adam = paddle.optimizer.Adam(parameters=net.parameters())\n"
        "for step in range(3):\n"
        "    net(paddle.rand([16, 64])).mean().backward()\n"
        "    adam.step()\n"
    )
    analysis, plain = preflight.analyse(script), Task("x", str(script))
    edits = analysis.set_batch(8).edits
    assert edits
    smaller = replace(plain, edits=edits, batch_size=8)
    assert task_digest(smaller) == task_digest(plain)


def test_a_file_is_parsed_once_for_each_state_that_it_is_in(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    parse = source.parse

    def counted(path: Path) -> ast.Module:
        parsed.append(path.name)
        return parse(path)

    monkeypatch.setattr(source, "parse", counted)
    before = script_digest(script)
    assert len(parsed) == 5
    assert script_digest(script) == before
    assert len(parsed) == 5
    (script.parent / "model.py").write_text("import other\n")
    assert script_digest(script) != before
    assert parsed[5:] == ["model.py", "other.py"]


def test_a_file_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many modules import it: the digest is made again with each answer."""
    names = [f"m{one}" for one in range(20)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("from shared import width\n")
    (tmp_path / "shared.py").write_text("width = 64\n")
    script = tmp_path / "train.py"
    script.write_text("".join(f"import {name}\n" for name in names))
    asked: list[str] = []
    isfile = os.path.isfile

    def noted(path: str) -> bool:
        asked.append(path)
        return isfile(path)

    monkeypatch.setattr(source.os.path, "isfile", noted)
    assert script_digest(script)
    assert str(tmp_path / "shared.py") in asked
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize(
    "text",
    [
        'open("base.yaml")', "open('base.YAML'.lower() or 'base.yaml')", "f'base.yaml{1:}'",
        "x = {'a': [('''base.yaml''',)]}", "'base' '.yaml'", "lambda: 'base.yaml'",
    ],
)  # fmt: skip
def test_a_configuration_counts_however_it_is_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "base.yaml").write_text("width: 8\n")
    before = script_digest(tmp_path / "train.py")
    (tmp_path / "base.yaml").write_text("width: 9\n")
    assert script_digest(tmp_path / "train.py") != before


def test_expressions_are_looked_through_where_a_configuration_may_be(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[ast.AST] = []
    nodes = syntax.nodes

    def counted(roots: list[ast.AST]) -> object:
        walked.extend(roots)
        return nodes(roots)

    monkeypatch.setattr(syntax, "nodes", counted)
    (script.parent / "model.py").write_text("net.init(nn.initializer.Normal())\n")
    assert script_digest(script)
    assert len(walked) == 1


def test_whether_paddle_is_used_is_seen_in_the_script_first(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Path] = []
    monkeypatch.setattr(source, "parse", parsed.append)
    script.write_text("import paddle, model\n")
    assert may_use_paddle(script)
    assert parsed == []
