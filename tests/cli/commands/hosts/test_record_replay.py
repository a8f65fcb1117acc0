"""`record` and `replay` without a terminal: documents, words and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import main
from gpuconsole.core.units import parse_time
from tests.tui.recorded import LOST, START, write_recording
from tests.waiting import DEADLINE_S

INVENTORY = "version: 1\nhosts:\n  - name: here\n    local: true\n"


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """A recorded file."""
    write_recording(tmp_path / "made")
    (path,) = (tmp_path / "made").iterdir()
    return path


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_what_happened_at_a_time(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime.fromtimestamp(START + LOST - 5).isoformat()
    assert main(["replay", str(night), "--json", "--at", at]) == 0
    before = document(capsys)
    assert before["simulated"] is True
    assert [host["state"] for host in before["hosts"]] == ["up", "up", "up", "down"]
    assert before["hosts"][0]["devices"][0]["utilization"] == 9
    assert {job["name"]: job["state"] for job in before["jobs"]} == {
        "early-bird": "running",
        "bert": "queued",
    }
    assert before["incidents"] == []
    assert parse_time(before["at"]) == pytest.approx(START + LOST - 5)

    assert main(["replay", str(night), "--json", "--at", "-8m"]) == 0
    after = document(capsys)
    assert after["hosts"][1]["state"] == "down"
    assert after["jobs"][0]["state"] == "failed"
    assert len(after["incidents"]) == 1


def test_without_a_time_it_is_the_end(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(night), "--json"]) == 0
    found = document(capsys)
    assert found["at"] == found["recorded"][-1]["last"]


def test_a_time_that_was_not_recorded_is_said(
    night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(night), "--json", "--at", "-5h"]) == 0
    out, err = capsys.readouterr()
    assert "Nothing was recorded at that time" in err
    assert json.loads(out)["at"] == json.loads(out)["recorded"][0]["first"]


def test_ones_own_recordings_need_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_recording(tmp_path / "state" / "recording")
    assert main(["replay", "--state", str(tmp_path / "state"), "--json"]) == 0
    assert len(document(capsys)["hosts"]) == 4


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["replay", "none.gpurec"], "No such file"),
        (["replay"], "holds no recorded moment"),
        (["replay", "{night}", "--at", "teatime"], "expected a time such as"),
        (["replay", "{inventory}"], "no recording of gpuconsole"),
        (["replay", "{night}"], "needs a terminal"),
        (["record", "--inventory", "{inventory}", "--out", "{night}"], "is there already"),
        (["record", "--inventory", "{inventory}", "--out", "no/where/x"], "no folder"),
    ],
)
def test_what_is_wrong_is_said(
    night: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    reported: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(INVENTORY)
    filled = [word.format(night=night, inventory=inventory) for word in words]
    assert main(filled) == 2
    out, err = capsys.readouterr()
    assert reported in err
    assert "Traceback" not in out + err


def test_a_damaged_file_is_an_error_document(
    night: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(night.read_bytes())
    data[600] ^= 255
    night.write_bytes(data)
    assert main(["replay", str(night), "--json", "--at", "-1s"]) == 2
    assert str(night) in document(capsys)["error"]["message"]


def test_a_recording_is_made_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inventory.yaml").write_text(INVENTORY)
    words = ["--inventory", "inventory.yaml", "--state", "state", "--seconds", "2", "--json"]
    assert main(["record", "--out", "a.gpurec", *words]) == 0
    made = document(capsys)
    assert made["file"] == "a.gpurec"
    assert made["bytes"] == Path("a.gpurec").stat().st_size
    assert Path("a.gpurec").stat().st_mode & 0o777 == 0o600
    assert main(["replay", "a.gpurec", "--json"]) == 0
    assert [host["name"] for host in document(capsys)["hosts"]] == ["here"]


def test_ctrl_c_ends_a_recording_well(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    words = ["record", "--inventory", "inventory.yaml", "--state", "state", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuconsole", *words, "--out", "a.gpurec"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "stop with Ctrl-C" in line
    # It has listened since before that line.
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    assert json.loads(out)["bytes"] == (tmp_path / "a.gpurec").stat().st_size
