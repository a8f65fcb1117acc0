"""`gpuconsole image` where no host is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli.entry import main


def answer(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert main(["image", *words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_a_pull_must_be_told_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "pull", status=2)["error"]["hint"] == "See: gpuconsole image --help"
    assert answer(capsys, "pull", "a:1", "--waiting", status=2)["error"]["title"] == "What?"
    wrong = answer(capsys, "pull", "a@sha256:1", status=2)
    assert wrong["error"]["title"] == "Wrong digest"


def test_a_dockerfile_is_written_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import yaml\n")
    target = tmp_path / "Dockerfile"
    made = answer(capsys, "dockerfile", str(script), "--base", "a:1", "-o", str(target))
    assert made["packages"] == ["PyYAML"]
    assert target.read_text() == made["dockerfile"]
    again = answer(capsys, "dockerfile", str(script), "-o", str(target), status=2)
    assert again["error"]["title"] == "File exists"
    assert main(["image", "dockerfile", str(script), "--base", "a:1"]) == 0
    assert capsys.readouterr().out == made["dockerfile"]


def test_a_pin_that_is_not_there_cannot_be_removed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("pin", "a:1", "--remove", "--state", str(tmp_path))
    assert answer(capsys, *words, status=1)["error"]["title"] == "It is not pinned"
    words = (*words, "--read-only")
    assert answer(capsys, *words, status=2)["error"]["title"] == "Read-only"
