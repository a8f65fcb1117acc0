"""Hosts that sleep, in the commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli.entry import main
from gpuconsole.placement.elastic.wake import Past
from gpuconsole.state.files.host_power import ElasticNotes

INVENTORY = """version: 1
hosts:
  - {name: a, address: 127.0.0.1, port: 1, wake: ["true"], interruptible: true}
  - {name: b, address: 127.0.0.1, port: 1}
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    path = tmp_path / "inventory.yaml"
    path.write_text(INVENTORY)
    ElasticNotes(tmp_path / "state").keep("a", Past("asleep", 1.0))
    return ["--inventory", str(path), "--state", str(tmp_path / "state")]


def test_a_sleeping_host_is_told_from_one_that_is_down(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "status", "--json"]) == 0
    document: Any = json.loads(capsys.readouterr().out)
    a, b = document["hosts"]
    assert (a["state"], a["power"], a["interruptible"]) == ("down", "asleep", True)
    assert a["error"] == "It sleeps, and is woken when a job needs it."
    assert (b["power"], b["interruptible"]) == (None, False)
    assert main([*words, "status"]) == 0
    assert "asleep" in capsys.readouterr().out


def test_an_inventory_that_others_may_write_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(words[1]).chmod(0o666)
    assert main([*words, "status", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert f"{words[1]} is writable by everybody" in error["message"]
    # Which group the file has, and whether others are in it, is the machine's.
    assert re.fullmatch(f"Run: chmod g?o-w {words[1]}", error["hint"])
