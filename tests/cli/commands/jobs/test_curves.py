"""`gpuconsole curves` and `gpuconsole compare` on logs that lie in the state folder."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.session.logs.follow import log_file
from gpuconsole.state import Journal
from tests.cli.command_line import Run

NOW = 1_900_000_000.0


def trained(number: int, lr: str, state: JobState = JobState.SUCCEEDED) -> Job:
    task = Task(
        f"train[lr={lr}]", script="/p/train.py", args=("--epochs", "5", f"--lr={lr}"), sweep="train"
    )
    attempt = Attempt(
        1, "a", ("GPU-1",), started_at=NOW, ended_at=NOW + 60, peak_mib=2048.0, exit_code=0
    )
    return Job(f"j{number}", task, "ada", state, NOW, attempts=(attempt,))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    journal = Journal(folder, clock=lambda: NOW)
    logs = {
        "0.1": "".join(f"epoch {n} step {n * 10} loss: {1 / n} 20ms/step\n" for n in (1, 2, 4)),
        "0.01": "".join(f"epoch {n} step {n * 10} loss: {2 / n} 40ms/step\n" for n in (1, 2, 4)),
        "9": "epoch 1 step 10 loss: 5\nepoch 2 step 20 loss: nan\n",
        "7": "this one says nothing\n",
    }
    for number, (lr, log) in enumerate(logs.items()):
        job = trained(number, lr, JobState.FAILED if lr == "9" else JobState.SUCCEEDED)
        queued = journal.add(replace(job, state=JobState.QUEUED, attempts=()))
        begun = journal.save(queued, replace(job, state=JobState.LAUNCHING))
        journal.save(begun, replace(begun, state=job.state))
        path = log_file(folder, job.id, 1)
        path.parent.mkdir(parents=True)
        path.write_text(log)
    journal.close()
    return folder


def test_curves_of_a_job(run: Run, state: Path) -> None:
    answer = run("curves", "j0", "--state", state)
    assert answer.code == 0, answer.err
    assert "loss" in answer.out
    assert any("\u2800" < letter < "\u2900" for letter in answer.out)
    document = run("curves", "j0", "--metric", "loss", "--state", state, "--json").document
    assert (document["job"], document["axis"]) == ("j0", "step")
    (loss,) = document["metrics"]
    assert loss["points"] == [[10.0, 1.0, 1.0], [20.0, 0.5, 2.0], [40.0, 0.25, 4.0]]
    assert loss["best"] == [40.0, 0.25, 4.0]


def test_curves_of_a_demo_say_that_they_are_simulated(run: Run, state: Path) -> None:
    assert "SIMULATED" not in run("curves", "j0", "--state", state).out
    assert run("curves", "j0", "--state", state, "--json").document["simulated"] is False
    journal = Journal(state, clock=lambda: NOW)
    journal.mark_simulated()
    journal.close()
    assert run("curves", "j0", "--state", state).out.startswith("SIMULATED\n")
    assert run("compare", "train", "--state", state).out.startswith("SIMULATED\n")
    assert run("curves", "j0", "--state", state, "--json").document["simulated"] is True
    assert run("compare", "train", "--state", state, "--json").document["simulated"] is True


def test_curves_as_csv(run: Run, state: Path, tmp_path: Path) -> None:
    printed = run("curves", "j0", "--csv", "-", "--state", state).out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [(row["metric"], row["step"], row["value"]) for row in rows][:2] == [
        ("step_s", "10", "0.02"), ("step_s", "20", "0.02"),
    ]  # fmt: skip
    file = tmp_path / "loss.csv"
    answer = run("curves", "j0", "--metric", "loss", "--csv", file, "--state", state)
    assert "3 points are in" in answer.err
    assert file.read_text().count("loss") == 3
    assert run("curves", "j0", "--csv", tmp_path, "--state", state).code == 2


def test_a_log_that_reports_nothing_is_a_no(run: Run, state: Path) -> None:
    answer = run("curves", "j3", "--state", state)
    assert answer.code == 1
    assert "reports nothing" in answer.err
    assert run("curves", "j3", "--state", state, "--json").document["metrics"] == []


def test_a_metric_that_is_not_reported_names_those_that_are(run: Run, state: Path) -> None:
    answer = run("curves", "j0", "--metric", "acc", "--state", state)
    assert answer.code == 2
    assert "Reported are: loss, step_s." in answer.err


def test_a_sweep_side_by_side(run: Run, state: Path) -> None:
    document = run("compare", "train", "--state", state, "--json").document
    assert document["metric"] == "loss"
    rows = document["jobs"]
    assert [row["parameters"] for row in rows] == [{"lr": lr} for lr in ("0.1", "0.01", "9", "7")]
    assert [row["best"] for row in rows] == [0.25, 0.5, 5.0, None]
    assert [row["last"] for row in rows] == [0.25, 0.5, "nan", None]
    assert [row["step_s"] for row in rows] == [0.02, 0.04, None, None]
    assert {row["peak_mib"] for row in rows} == {2048.0}
    table = run("compare", "train", "--state", state).out
    lines = table.splitlines()
    assert lines[0].split()[:3] == ["JOB", "lr", "LAST"]
    assert lines[1].split()[1:3] == ["j0", "0.1"]
    assert "2.0 GiB" in lines[1]
    assert "failed" in lines[3]


def test_several_jobs_and_another_metric(run: Run, state: Path) -> None:
    rows = run("compare", "j1", "j0", "--metric", "step_s", "--state", state, "--json").document
    assert [row["job"] for row in rows["jobs"]] == ["j0", "j1"]
    text = run("compare", "j1", "j0", "--csv", "-", "--state", state).out
    assert {row["job"] for row in csv.DictReader(io.StringIO(text))} == {"j0", "j1"}
    assert run("compare", "j1", "--metric", "acc", "--state", state).code == 2
