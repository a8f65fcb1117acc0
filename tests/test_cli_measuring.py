"""Measuring for `preflight` where hosts or the journal cannot be used: there is an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import measuring
from gpuconsole.cli.entry import main
from gpuconsole.errors import JournalError

HIDDEN = "import ctypes\nimport paddle\nnet = paddle.nn.Linear(8, ctypes.c_long(4).value)\n"
INVENTORY = "version: 1\nhosts:\n  - {name: a, address: 192.0.2.1}\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("gpuconsole.session.sites.importlib.util.find_spec", lambda name: None)
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(HIDDEN)
    return path


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[dict[str, Any], str]:
    main(["--state", *map(str, words), "--offline", "--json"])
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_each_tier_says_why_it_was_not_possible(
    tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = asked(capsys, tmp_path / "state", "preflight", script)
    assert [(tier["tier"], tier["outcome"]) for tier in found["tiers"]] == [
        ("static", "unknown"), ("meta", "impossible"), ("traced", "impossible"),
    ]  # fmt: skip
    assert found["tiers"][1]["why"] == "Paddle is not installed on this machine"


def test_the_lab_may_say_that_nothing_is_measured(
    tmp_path: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "lab.yaml"
    inventory.write_text(INVENTORY + "lab: {measure: never}\n")
    state = tmp_path / "state"
    for words in ((), ("--measure", "auto")):
        found, _ = asked(capsys, state, "--inventory", inventory, "preflight", script, *words)
        assert "measure: never" in found["tiers"][1]["why"]


def test_without_a_session_this_machine_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(work: object) -> None:
        raise JournalError("Journal is too new", "It is of version 99.")

    monkeypatch.setattr("gpuconsole.cli.sessions.drive", broken)
    task: Any = None
    assert measuring._climb_there(task, task, task) is None
    assert "Journal is too new" in capsys.readouterr().err
