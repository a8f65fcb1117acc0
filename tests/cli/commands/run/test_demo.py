"""The demo without a terminal: the main job from estimate to result."""

import json
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli import main
from gpuconsole.cli.commands.run.demo import followed
from gpuconsole.core.jobs import JobState
from tests.tui.fake import job


def test_the_main_job_runs_to_its_result_and_the_demo_ends_with_it(tmp_path: Path) -> None:
    # An hour bounds the run; that it is over in time shows that it ends with its job.
    done = subprocess.run(
        [sys.executable, "-m", "gpuconsole", "demo", "--headless", "--seconds", "3600", "--json"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["simulated"] is True
    assert document["gave_up"] is None
    assert document["estimate"]["memory"]["total_mib"] > 0
    assert {verdict["verdict"] for verdict in document["verdicts"]} == {"fits"}
    assert document["placement"]["host"]
    assert document["placement"]["reasons"]
    assert document["log_tail"][-2].startswith("step=120/120 loss=")
    assert document["result"]["state"] == "succeeded"
    assert document["result"]["summary"]["simulated"] is True
    assert [path.name for path in tmp_path.iterdir()] == [], "the demo leaves nothing behind"


def test_a_person_reads_that_it_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--headless", "--speed", "100"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("SIMULATED")
    assert "placed on" in out
    assert "succeeded" in out


@pytest.mark.parametrize("words", [["--json"], []], ids=["json", "text"])
def test_a_demo_that_gives_up_says_what_it_waited_for(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--headless", "--seconds", "1", "--speed", "0.1", *words]) == 1
    out, err = capsys.readouterr()
    said = err.splitlines()[-1]
    if words:
        document = json.loads(out)
        said = document["gave_up"]
        assert document["result"]["state"] in ("queued", "launching", "running")
    assert said.startswith("Gave up after 1 s: ")
    assert " has not ended, it is " in said


@pytest.mark.parametrize(("pause_s", "looks"), [(0.1, 10), (0.15, 7), (60.0, 5)])
async def test_a_busy_machine_does_not_use_up_the_time(pause_s: float, looks: int) -> None:
    running = job("mnist-cnn", JobState.RUNNING)
    seen: list[str] = []

    class Waiting:
        def job(self, reference: str) -> Any:
            seen.append(reference)
            return running

    ticks = count()
    # The clock is read twice a look: before it, and after.
    await followed(Waiting(), running, 0.999, lambda: (next(ticks) + 1) // 2 * pause_s)  # type: ignore[arg-type]
    assert len(seen) == looks


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
