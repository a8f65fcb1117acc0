"""The demo without a terminal: the main job from estimate to result."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import main


def headless(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuconsole", "demo", "--headless", *words],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )


def test_the_main_job_runs_to_its_result_within_the_time_given(tmp_path: Path) -> None:
    began = time.monotonic()
    done = headless(tmp_path, "--seconds", "20", "--json")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 20.0
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["simulated"] is True
    assert document["estimate"]["memory"]["total_mib"] > 0
    assert {verdict["verdict"] for verdict in document["verdicts"]} == {"fits"}
    assert document["placement"]["host"]
    assert document["placement"]["reasons"]
    assert document["log_tail"][-2].startswith("step=120/120 loss=")
    assert document["result"]["state"] == "succeeded"
    assert document["result"]["summary"]["simulated"] is True
    assert [path.name for path in tmp_path.iterdir()] == [], "the demo leaves nothing behind"


def test_a_person_reads_that_it_is_simulated(tmp_path: Path) -> None:
    done = headless(tmp_path, "--seconds", "15")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SIMULATED")
    assert "placed on" in done.stdout
    assert "succeeded" in done.stdout


def test_a_job_that_cannot_end_in_time_is_told_and_code_1(tmp_path: Path) -> None:
    done = headless(tmp_path, "--seconds", "5", "--speed", "0.2", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["result"]["state"] in ("queued", "launching", "running")


@pytest.mark.parametrize(
    "words",
    [["--json"], ["--headless", "--read-only", "--json"], ["--headless", "--hosts", "0", "--json"]],
    ids=" ".join,
)
def test_what_a_demo_cannot_do_is_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *words]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"]
