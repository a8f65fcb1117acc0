"""`dispatch --standby` and `takeover` say what they need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuconsole.cli import main

INVENTORY = "version: 1\nhosts:\n  - {name: gone, address: 127.0.0.1, port: 9, user: nobody}\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--standby"], "Add --lab."),
        (["--lab", "--take-over-after", "30s"], "Add --standby."),
    ],
)
def test_an_option_that_says_nothing_alone_is_refused(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dispatch", *words]) == 2
    assert hint in capsys.readouterr().err


def test_a_time_is_read_as_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dispatch", "--lab", "--standby", "--take-over-after", "soon"]) == 2
    assert "expected a duration such as" in capsys.readouterr().err


def test_a_standby_needs_to_know_another_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(INVENTORY)
    words = ["--inventory", str(inventory), "--state", str(tmp_path / "state")]
    socket = ["--socket", str(tmp_path / "queue.sock")]
    assert main([*words, "dispatch", "--lab", "--standby", *socket]) == 2
    assert "No other head is known" in capsys.readouterr().err
    # It has never led, and no start makes it.
    assert json.loads((tmp_path / "state" / "head.json").read_text())["leads"] is False
    assert not (tmp_path / "state" / "journal.sqlite").exists()
