"""A job from `submit` to its end, and journals and states that refuse."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from gpuconsole.cli.tasks import TaskValue
from tests.cli.command_line import SCRIPT, Lab, Run


def test_a_job_is_queued_held_released_cancelled_and_queued_again(
    run: Run, lab: Lab, script: Path
) -> None:
    queued = run("submit", script, *lab, "--name", "first", "--json")
    assert queued.code == 0
    job = queued.document["job"]
    assert queued.document["state"] == "queued"
    [listed] = run("jobs", *lab, "--json").document["jobs"]
    assert (listed["id"], listed["name"], listed["state"]) == (job, "first", "queued")
    assert listed["estimate_mib"] > 0
    why = run("why", "first", *lab, "--json")
    assert why.code == 0
    assert set(why.document) >= {"state", "reason", "blockers", "estimated_start", "options"}
    assert run("hold", job, *lab, "--json").document["state"] == "held"
    assert run("hold", job, *lab, "--json").document["state"] == "queued"
    assert run("cancel", job[:8], *lab, "--json").document["state"] == "cancelled"
    assert run("wait", job, *lab, "--json").code == 1
    assert run("cancel", job, *lab, "--json").code == 1
    assert run("retry", job, *lab, "--json").document["state"] == "queued"
    assert "first" in run("jobs", *lab).out


def test_submit_passes_every_option_on(run: Run, lab: Lab, script: Path) -> None:
    words = (
        "--name", "wide", "--image", "lab/paddle:3", "--env", "A=b=c", "--mount", "/d:/data:rw",
        "--shm-size", "2g", "--memory-limit", "512m", "--network", "full", "--priority", "-5",
        "--label", "pool=train", "--hold",
    )  # fmt: skip
    answer = run("submit", script, *lab, *words, "--json")
    assert answer.document["state"] == "held"
    text = run("render", "wide", "--to", "docker", *lab, "--json").document["text"]
    for part in (
        "lab/paddle:3", "A=b=c", "source=/d,target=/data", "--shm-size 2048m", "--memory 512m",
        "--network bridge",
    ):  # fmt: skip
        assert part in text


def test_a_script_that_will_fail_is_refused_unless_forced(
    run: Run, lab: Lab, tmp_path: Path
) -> None:
    wrong = tmp_path / "project" / "wrong.py"
    wrong.parent.mkdir()
    wrong.write_text(SCRIPT.replace("Linear(256, 10)", "Linear(200, 10)"))
    refused = run("submit", wrong, *lab, "--json")
    assert refused.code == 1
    assert "wrong.py:19" in refused.document["error"]["message"]
    assert run("jobs", *lab, "--json").document == {"jobs": []}
    assert run("submit", wrong, *lab, "--force", "--json").code == 0


def test_the_journal_answers_alone_without_inventory_and_gpu(
    run: Run, lab: Lab, script: Path
) -> None:
    job = run("submit", script, *lab, "--hold", "--json").document["job"]
    state = lab[2:]
    assert run("jobs", *state, "--json").document["jobs"][0]["id"] == job
    assert run("logs", job, *state, "--json").document == {"job": job, "lines": []}
    assert "held" in run("why", job, *state, "--json").document["reason"]
    assert "docker run" in run("render", job, "--to", "docker", *state).out
    assert run("hold", job, *state, "--json").document["state"] == "queued"
    # Why it waits is for the fleet to say, and there is none.
    answer = run("why", job, *state, "--json")
    assert answer.code == 2
    assert "demo" in answer.document["error"]["hint"]


def test_read_only_refuses_every_change(run: Run, lab: Lab, script: Path) -> None:
    job = run("submit", script, *lab, "--json").document["job"]
    for words in (
        ("submit", script), ("cancel", job), ("retry", job), ("hold", job), ("prune",),
    ):  # fmt: skip
        answer = run(*words, *lab, "--read-only", "--json")
        assert answer.code == 2, words
        assert "ead-only" in answer.document["error"]["title"]
    assert run("jobs", *lab, "--read-only", "--json").document["jobs"][0]["state"] == "queued"


def test_an_unknown_job_is_wrong_usage(run: Run, lab: Lab) -> None:
    for command in ("logs", "wait", "why", "cancel", "retry", "hold", "fetch"):
        answer = run(command, "nobody", *lab, "--json")
        assert answer.code == 2, command
        assert "nobody" in answer.document["error"]["message"]


def test_results_of_a_job_that_has_not_run_are_a_clear_no(run: Run, lab: Lab, script: Path) -> None:
    job = run("submit", script, *lab, "--json").document["job"]
    assert run("fetch", job, *lab, "--json").code == 1
    assert run("fetch", job, *lab, "--list", "--json").code == 1
    assert run("logs", job, *lab, "--json").document == {"job": job, "lines": []}


def test_prune_with_no_host_in_reach_is_code_3(run: Run, lab: Lab) -> None:
    assert run("prune", *lab, "--json").code == 3


def test_a_state_folder_that_cannot_be_is_code_2(run: Run, lab: Lab) -> None:
    answer = run("jobs", *lab[:2], "--state", "/proc/nowhere", "--json")
    assert answer.code == 2
    assert "/proc/nowhere" in answer.document["error"]["message"]


@pytest.mark.parametrize(
    ("said", "mib"), [("8g", 8192.0), ("512m", 512.0), ("4096", 4096.0), ("1.5GiB", 1536.0)]
)
def test_sizes_are_read_as_docker_writes_them(said: str, mib: float) -> None:
    assert TaskValue("shm_size", "size").convert(said, None, None) == mib


def test_a_journal_from_a_newer_version_is_left_alone(run: Run, lab: Lab) -> None:
    assert run("jobs", *lab).code == 0
    [journal] = [path for path in Path(lab[3]).iterdir() if path.read_bytes()[:6] == b"SQLite"]
    with contextlib.closing(sqlite3.connect(journal)) as database:
        database.execute("PRAGMA user_version = 9999")
    answer = run("jobs", *lab, "--json")
    assert answer.code == 2
    assert "newer" in " ".join(answer.document["error"].values())
