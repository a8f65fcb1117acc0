"""`calibrate` and what history does to the commands, without any host."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli.entry import main
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.preflight.accuracy.script_digest import script_digest
from gpuconsole.state import Journal

SCRIPT = """
import paddle
model = paddle.nn.Linear(256, 256)
sgd = paddle.optimizer.SGD(parameters=model.parameters())
for step in range(4):
    loss = model(paddle.randn([16, 256])).mean()
    loss.backward()
    sgd.step()
    sgd.clear_grad()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def state(tmp_path: Path, script: Path) -> Path:
    folder = tmp_path / "state"
    journal = Journal(folder, clock=time.time)
    journal.observe(
        Observation("j", 1, 1_800_000_000.0, "ok", script_digest(script), str(script), batch=16,
                    device="Tesla T4", host="a", tier="static", predicted_reserved_mib=1.0,
                    reserved_mib=321.0, oom_probability=0.0)
    )  # fmt: skip
    journal.close()
    return folder


def answer(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert main([*words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_a_host_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "calibrate", status=2)["error"]["title"] == "No host"


def test_who_only_looks_calibrates_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("version: 1\nhosts:\n  - name: here\n    local: true\n")
    words = ("--inventory", str(inventory), "--state", str(tmp_path / "s"), "--read-only")
    error = answer(capsys, *words, "calibrate", "here", status=2)["error"]
    assert error["title"] == "Read-only"


def test_reliability_of_no_history_makes_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "none"
    assert main(["--state", str(folder), "calibrate", "--reliability"]) == 0
    assert "Too little history: 0 runs" in capsys.readouterr().out
    assert not folder.exists()


def test_reliability_counts_what_was_predicted(
    capsys: pytest.CaptureFixture[str], state: Path
) -> None:
    found = answer(capsys, "--state", str(state), "calibrate", "--reliability")
    assert (found["runs"], found["bins"][0]["runs"], found["bins"][0]["ran_out"]) == (1, 1, 0)
    assert found["memory"] == [{"predicted_mib": 1.0, "observed_mib": 321.0, "ran_out": False}]
    assert main(["--state", str(state), "calibrate", "--reliability"]) == 0
    shown = capsys.readouterr().out
    assert "0 of 1" in shown
    assert "321 MiB for 1.0 MiB" in shown


def test_preflight_knows_what_ran(
    capsys: pytest.CaptureFixture[str], state: Path, script: Path
) -> None:
    words = ("--state", str(state), "preflight", str(script), "--offline")
    known = answer(capsys, *words)
    assert (known["tier"], known["memory"]["reserved_mib"]) == ("history", 321.0)
    # Who asks for a method gets that method's answer.
    assert answer(capsys, *words, "--tier", "static")["tier"] == "static"


def test_preflight_makes_no_state_and_survives_a_damaged_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, script: Path
) -> None:
    folder = tmp_path / "none"
    words = ("--state", str(folder), "preflight", str(script), "--offline")
    assert answer(capsys, *words)["tier"] == "static"
    assert not (folder / "journal.sqlite").exists()
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "journal.sqlite").write_bytes(b"no database" * 200)
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["tier"] == "static"
    assert "History is not used" in err
