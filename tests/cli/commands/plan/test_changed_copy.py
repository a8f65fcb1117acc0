"""Changes of the shipped copy on the command line: shown, estimated, shipped, or refused."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.cli.command_line import SCRIPT, Lab, Run


def copy_of(state: Path, name: str = "train.py") -> str:
    """Return a file as the only queued job has it packed."""
    (bundle,) = state.rglob("*.tar.gz")
    with tarfile.open(bundle) as tar:
        (member,) = (one for one in tar.getmembers() if one.name == name)
        file = tar.extractfile(member)
        assert file is not None
        return file.read().decode()


def test_preflight_estimates_the_changed_copy_and_shows_it(run: Run, script: Path) -> None:
    answer = run("preflight", script, "--offline", "--apply", "accumulate=4")
    assert answer.code == 0
    assert "batch 16" in answer.out
    assert "+    (loss / 4).backward()" in answer.out
    assert "-for images, labels in DataLoader(Samples(), batch_size=64):" in answer.out
    document = run(
        "preflight", script, "--offline", "--apply", "accumulate=4", "--json"
    ).document  # fmt: skip
    assert document["batch_size"] == 16
    assert document["edits"][0]["kind"] == "batch-size"
    assert script.read_text() == SCRIPT


def test_a_diff_of_a_suggestion_is_shown_when_asked_for(run: Run, script: Path) -> None:
    words = ("preflight", script, "--memory-mib", "4.7", "--measure", "never")
    brief, whole = run(*words), run(*words, "--diff")
    assert "--apply accumulate" in brief.out
    assert "enumerate(DataLoader" not in brief.out
    assert "enumerate(DataLoader(Samples()" in whole.out


def test_a_submitted_job_has_its_changes_and_ships_them(run: Run, lab: Lab, script: Path) -> None:
    answer = run("submit", script, *lab, "--hold", "--apply", "amp", "--apply", "accumulate=2")
    assert answer.code == 0
    assert "The shipped copy is changed at train.py:" in answer.err
    text = copy_of(Path(lab[3]))
    for part in ("batch_size=32", "paddle.amp.auto_cast():", "scaler.scale(loss / 2)",
                 "if (micro_step + 1) % 2 == 0:"):  # fmt: skip
        assert part in text
    assert script.read_text() == SCRIPT


def test_what_is_not_certain_is_refused_with_what_to_write(
    run: Run, lab: Lab, script: Path
) -> None:
    script.write_text(SCRIPT.replace("    adam.step()\n", "    decay(adam)\n    adam.step()\n"))
    answer = run("submit", script, *lab, "--apply", "amp", "--json")
    assert answer.code == 1
    said = answer.document["error"]["message"]
    assert "By hand: before train.py:" in said
    assert "something comes between backward and step (train.py:" in said
    assert run("jobs", *lab, "--json").document == {"jobs": []}


def test_mixed_precision_that_a_task_forbids_is_refused(
    run: Run, tmp_path: Path, script: Path
) -> None:
    task = tmp_path / "task.yaml"
    task.write_text(
        f"task:\n  name: t\n  script: {script}\n"
        "  resource_policy: {allow_mixed_precision: false}\n"
    )  # fmt: skip
    answer = run("preflight", "--task", task, "--offline", "--apply", "amp", "--json")
    assert answer.code == 2
    assert "allow_mixed_precision" in answer.document["error"]["message"]


@pytest.mark.parametrize("word", ["o3", "amp=2", "accumulate=", "accumulate=x"])
def test_an_unknown_change_is_wrong_usage(run: Run, script: Path, word: str) -> None:
    answer = run("preflight", script, "--offline", "--apply", word)
    assert answer.code == 2
    assert "accumulate=N" in answer.err


def test_how_many_steps_is_preflights_where_it_suggests_them(run: Run, script: Path) -> None:
    words = ("preflight", script, "--measure", "never", "--apply", "accumulate", "--json")
    fits = run(*words, "--offline")
    assert fits.code == 2
    assert "suggests no accumulation" in fits.document["error"]["message"]
    found = run(*words, "--memory-mib", "4.7").document
    assert 64 % found["batch_size"] == 0
    assert found["batch_size"] < 64
