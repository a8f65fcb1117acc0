"""`gpuconsole learn` from the command line."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuconsole.cli import main, training
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.placement.learned import train
from gpuconsole.placement.learned.weights_file import FILE_NAME, SHIPPED, read
from gpuconsole.state import Journal

LAB = """version: 1
name: two cards
hosts:
  - {name: a, model: slow, devices: 2, memory: 32 GiB, backend: gpu, speed: 1}
  - {name: b, model: fast, devices: 2, memory: 32 GiB, backend: gpu, speed: 2}
"""


@pytest.fixture(autouse=True)
def _time_passes_by_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let half a second pass with each look at the clock, however long a look takes."""
    ticks = count(0.0, 0.5)
    clock = SimpleNamespace(monotonic=lambda: next(ticks), time=time.time)
    monkeypatch.setattr(training, "time", clock)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    dice = random.Random(1)
    rows = [
        f"{n * 1500 + dice.random() * 900:.0f},{dice.uniform(60, 4000):.0f},1" for n in range(300)
    ]
    trace = tmp_path / "past.csv"
    trace.write_text("\n".join(["submitted_s,run_time_s,devices", *rows]), encoding="utf-8")
    lab = tmp_path / "lab.yaml"
    lab.write_text(LAB, encoding="utf-8")
    state = str(tmp_path / "state")
    return ["learn", "--lab", str(lab), "--trace", str(trace), "--minutes", "0.1", "--state", state]


def test_it_tells_before_and_after_and_keeps_the_file(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == (0 if found["passed"] else 1)
    assert found["jobs"] == 300
    assert found["replays"] >= 4
    assert found["before"]["mean_jct_s"] > 0
    kept = read(tmp_path / "state" / FILE_NAME)
    assert found["file"] == str(tmp_path / "state" / FILE_NAME)
    assert kept.origin.lab == "two cards"
    assert kept.origin.models == ("fast", "slow")
    assert kept.verdict.passed == found["passed"]


def test_without_enough_jobs_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(LAB, encoding="utf-8")
    code = main(["learn", "--lab", str(lab), "--state", str(tmp_path / "state")])
    reported = capsys.readouterr().err
    assert code == 2
    assert "200 are the least" in reported
    assert "--trace" in reported


def test_it_writes_so_it_is_refused_read_only(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--read-only"]) == 2
    assert "Read-only" in capsys.readouterr().err


def test_the_queues_own_past_teaches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    journal = Journal(state, clock=lambda: 0.0)
    dice = random.Random(2)
    for number in range(220):
        at = 1500.0 * number + dice.uniform(0, 900)
        queued = journal.add(Job(f"j{number}", Task("t"), "ana", JobState.QUEUED, at))
        attempt = Attempt(1, "a", ("u",), (0,), created_at=at, started_at=at + 5)
        launching = replace(queued, state=JobState.LAUNCHING, attempts=(attempt,))
        running = replace(journal.save(queued, launching), state=JobState.RUNNING)
        running = journal.save(launching, running)
        over = replace(attempt, ended_at=at + 5 + dice.uniform(60, 4000))
        journal.save(running, replace(running, state=JobState.SUCCEEDED, attempts=(over,)))
    journal.close()
    lab = tmp_path / "lab.yaml"
    lab.write_text(LAB, encoding="utf-8")
    words = ["learn", "--lab", str(lab), "--minutes", "0.1", "--state", str(state), "--json"]
    main(words)
    found = json.loads(capsys.readouterr().out)
    assert found["trace"] == "the journal"
    assert found["jobs"] == 220
    assert read(state / FILE_NAME).origin.jobs == 220


def test_training_begins_at_the_weights_that_come_along(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A search of no rounds ends where it begins.
    monkeypatch.setattr(train, "search", lambda losses, start, *others: tuple(start))
    main([*words, "--json"])
    assert json.loads(capsys.readouterr().out)["rounds"] == 0
    kept = read(tmp_path / "state" / FILE_NAME).learned
    begun = read(SHIPPED).learned
    assert {name: value for name, value in kept.place.items() if value} == begun.place
    assert not any(kept.order.values())
