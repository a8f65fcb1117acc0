"""Curves read from logs that grow, are replaced, and have ended."""

from __future__ import annotations

import json
from pathlib import Path

from gpuconsole.core.training.stop_rules import parse_rule
from gpuconsole.session.logs.training import CHUNK, TrainingLog, TrainingLogs


def whole(log: TrainingLog) -> None:
    while log.read_on():
        pass


def values(log: TrainingLog, name: str = "loss") -> list[float]:
    return [point.value for point in log.curves.curves[name].points]


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    log = TrainingLog(path)
    assert not log.read_on()
    path.write_bytes(b"step 1 loss: 0.5\nstep 2 lo")
    whole(log)
    assert values(log) == [0.5]
    assert log.size == 26
    with path.open("ab") as file:
        file.write(b"ss: 0.25\n")
    whole(log)
    assert values(log) == [0.5, 0.25]
    assert log.size == path.stat().st_size


def test_a_bar_that_is_written_over_itself_is_read_state_by_state(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    states = (f"step {n}/3 [==>......] - loss: {n / 10} - 5ms/step" for n in (1, 2, 3))
    path.write_text("\r".join(states))
    log = TrainingLog(path)
    whole(log)
    assert values(log) == [0.1, 0.2]
    log.close()
    assert values(log) == [0.1, 0.2, 0.3]


def test_a_line_without_end_takes_bounded_memory_and_what_follows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(b"x" * (3 * CHUNK) + b"\nstep 1 loss: 0.5\n")
    log = TrainingLog(path)
    reads = 1
    while log.read_on():
        reads += 1
        assert len(log._pending) < 10_000
    assert reads == 4
    assert values(log) == [0.5]


def test_a_log_that_begins_anew_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("step 1 loss: 0.5\nstep 2 loss: 0.4\n")
    log = TrainingLog(path)
    whole(log)
    path.write_text("step 1 loss: 9\n")
    whole(log)
    assert values(log) == [9.0]


def test_a_rule_is_held_against_each_line_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("step 1 loss: 0.5\n")
    log = TrainingLog(path, rules=[parse_rule("loss is nan"), parse_rule("loss > 5")])
    whole(log)
    assert log.broken is None
    path.write_text("step 1 loss: 0.5\nstep 2 loss: 6\nstep 3 loss: nan\n")
    whole(log)
    assert log.broken is not None
    assert log.broken.cause == "Stopped by the rule `loss > 5`: loss was 6 at step 2."


async def test_curves_of_an_ended_job_lie_beside_its_log(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("step 1 loss: 0.5\nstep 2 loss: nan\nstep 3 loss: 0.25")
    kept = path.with_suffix(".curves.json")
    logs = TrainingLogs(lambda: (), writable=True)
    running = await logs.curves("j1", 1, path, whole=False)
    assert running.curves["loss"].count == 2
    assert not kept.exists()
    ended = await logs.curves("j1", 1, path, whole=True)
    assert ended.curves["loss"].count == 3
    document = json.loads(kept.read_text())
    assert document["log_bytes"] == path.stat().st_size
    again = await TrainingLogs(lambda: (), writable=False).curves("j1", 1, path, whole=True)
    assert again.as_json() == ended.as_json()


async def test_a_stored_file_of_another_log_or_other_patterns_does_not_count(
    tmp_path: Path,
) -> None:
    path = tmp_path / "1.log"
    path.write_text("after 5 updates: energy 7\n")
    patterns: list[str] = []
    logs = TrainingLogs(lambda: patterns, writable=True)
    assert not await logs.curves("j1", 1, path, whole=True)
    patterns.append("after {step} updates: energy {energy}")
    found = await TrainingLogs(lambda: patterns, writable=True).curves("j1", 1, path, whole=True)
    assert found.curves["energy"].value("last") == 7
    path.with_suffix(".curves.json").write_text("[1, 2")
    found = await TrainingLogs(lambda: patterns, writable=True).curves("j1", 1, path, whole=True)
    assert found.curves["energy"].value("last") == 7
    path.write_text("after 5 updates: energy 8\n\n")
    found = await TrainingLogs(lambda: patterns, writable=True).curves("j1", 1, path, whole=True)
    assert found.curves["energy"].value("last") == 8


async def test_a_session_that_may_only_look_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("step 1 loss: 0.5\n")
    await TrainingLogs(lambda: (), writable=False).curves("j1", 1, path, whole=True)
    assert [one.name for one in tmp_path.iterdir()] == ["1.log"]
