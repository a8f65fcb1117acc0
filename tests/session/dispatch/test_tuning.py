"""Searches as the dispatcher leads them: handed out, given up, gone on with, and reported."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.tuning import Goal, Trial, read_space
from gpuconsole.errors import RefusedError
from gpuconsole.session.dispatch import optuna_study
from gpuconsole.session.dispatch.tuning import Tuning
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.queue import commands
from gpuconsole.session.queue.why import why_of
from gpuconsole.simulated_lab.jobs import example
from tests.core.training.test_visualdl import record
from tests.session.conftest import Desk, Lab

SPACE = read_space(["lr=0..10"])
TASK = Task(
    "train[trial]", script="/p/train.py", sweep="train", goal="min val_loss",
    space=tuple(one.text for one in SPACE), at_most=1,
)  # fmt: skip


def queued(lab: Lab, desk: Desk, count: int) -> list[str]:
    """Queue the trials of a search as they are submitted: held."""
    ids = []
    for number in range(count):
        job_id = lab.submit(desk, task=replace(TASK, name=f"train[trial {number}]"))
        job = desk.job(job_id)
        desk.journal.save(job, replace(job, state=JobState.HELD))
        ids.append(job_id)
    return ids


async def led(desk: Desk, tuning: Tuning) -> None:
    """Have one look be over."""
    tuning._next_look = 0.0
    tuning.look(desk.journal.role().epoch)
    if tuning._going is not None:
        await tuning._going


async def ran(lab: Lab, desk: Desk, value: float, code: int = 0) -> None:
    """Have the trial that was handed out run, report and end."""
    await lab.clock.until(lambda: lab.docker.running)
    lab.docker.finish(code, f"step 1 val_loss: {value}\n".encode())
    await lab.clock.until(
        lambda: (
            all(not job.state.active for job in desk.journal.jobs())
            and not any(job.state is JobState.QUEUED for job in desk.journal.jobs())
        )
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[Trial]]:
    """Optuna's place is taken by a counter: what it is asked is kept."""
    found: list[list[Trial]] = []

    def values(goal: Goal, space: Any, trials: list[Trial], seed: int) -> dict[str, str]:
        found.append(list(trials))
        return {"--lr": str(len(trials))}

    monkeypatch.setattr(optuna_study, "has_optuna", lambda: True)
    monkeypatch.setattr(optuna_study, "next_values", values)
    monkeypatch.setattr(optuna_study, "is_hopeless", lambda *_: False)
    return found


async def test_trials_are_handed_out_one_after_another_and_the_best_is_named(
    lab: Lab, asked: list[list[Trial]]
) -> None:
    desk = lab.desk()
    ids = queued(lab, desk, 3)
    desk.start()
    await lab.clock.until(lambda: desk.dispatcher.active)
    tuning = Tuning(desk.context)
    for number, value in enumerate((3.0, 1.0, 2.0)):
        await led(desk, tuning)
        states = [desk.job(one).state for one in ids]
        assert states.count(JobState.HELD) == 2 - number
        await ran(lab, desk, value)
        # A console that takes over goes on where the other was.
        tuning = Tuning(desk.context) if number == 0 else tuning
    assert [[trial.value for trial in trials] for trials in asked] == [[], [3.0], [3.0, 1.0]]
    args = [desk.job(one).task.args for one in ids]
    assert sorted(args) == [("--lr", "0"), ("--lr", "1"), ("--lr", "2")]
    await led(desk, tuning)
    reports = [event.message for _, event in desk.journal.events_after(0)]
    best = next(job for job in desk.journal.jobs() if job.task.args == ("--lr", "1"))
    assert f"train: the best trial is {best.id}, val_loss 1: train[lr=1]" in reports
    await led(desk, tuning)
    again = [event.message for _, event in desk.journal.events_after(0)]
    assert again == reports, "named once"


async def test_what_a_trial_writes_with_visualdl_counts_where_its_log_does_not_say_it(
    lab: Lab, asked: list[list[Trial]]
) -> None:
    desk = lab.desk()
    queued(lab, desk, 2)
    desk.start()
    await lab.clock.until(lambda: desk.dispatcher.active)
    tuning = Tuning(desk.context)
    for value in (3.0, 1.0):
        await led(desk, tuning)
        lab.docker.records = {
            "./vdl/vdlrecords.1.log": record("eval/loss", 1, 9.0) + record("eval/loss", 2, value)
        }
        await lab.clock.until(lambda: lab.docker.running)
        lab.docker.finish(0, b"trained\n")
        await lab.clock.until(lambda: not any(job.state.active for job in desk.journal.jobs()))
        # A console that takes over finds them again.
        tuning = Tuning(desk.context) if value == 3.0 else tuning
    await led(desk, tuning)
    assert [[trial.value for trial in trials] for trials in asked] == [[], [3.0]]
    assert asked[1][0].reported == ((1, 9.0), (2, 3.0))
    reports = [event.message for _, event in desk.journal.events_after(0)]
    assert any("val_loss 1: train[lr=1]" in words for words in reports)


async def test_a_trial_that_is_hopeless_is_ended_as_pruned(
    lab: Lab, asked: list[list[Trial]], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = lab.desk()
    queued(lab, desk, 2)
    desk.start()
    await lab.clock.until(lambda: desk.dispatcher.active)
    tuning = Tuning(desk.context)
    await led(desk, tuning)
    await lab.clock.until(lambda: lab.docker.running)
    lab.docker.write(b"step 1 val_loss: 9\n")
    running = next(job for job in desk.journal.jobs() if job.task.trial)
    await lab.clock.until(lambda: desk.job(running.id).state is JobState.RUNNING)
    path = lab.state / "logs" / running.id / "1.log"
    await lab.clock.until(lambda: path.exists() and path.stat().st_size)
    monkeypatch.setattr(optuna_study, "is_hopeless", lambda *_: True)
    await led(desk, tuning)
    await lab.clock.until(lambda: desk.job(running.id).state.ended)
    ended = desk.job(running.id)
    assert (ended.state, ended.state_word) == (JobState.CANCELLED, "stop rule")
    assert ended.cause.startswith("Pruned: val_loss was 9 at 1, worse than the median")
    await led(desk, tuning)
    assert asked[-1][0].state == "pruned"


async def test_without_optuna_it_waits_and_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = lab.desk()
    (job_id,) = queued(lab, desk, 1)
    desk.start()
    await lab.clock.until(lambda: desk.dispatcher.active)
    monkeypatch.setattr(optuna_study, "has_optuna", lambda: False)
    await led(desk, Tuning(desk.context))
    job = desk.job(job_id)
    assert job.state is JobState.HELD
    assert "Optuna is not installed" in why_of(job, {}).reason


def test_a_trial_to_come_is_released_by_the_search_alone(lab: Lab) -> None:
    desk = lab.desk()
    (job_id,) = queued(lab, desk, 1)
    job: Job = desk.job(job_id)
    with pytest.raises(RefusedError, match="trial of a search"):
        commands.release(desk.journal, job, 0.0)
    commands.require_not_held(job)


async def test_optuna_leads_to_the_lowest_value() -> None:
    pytest.importorskip("optuna")
    goal, space = Goal("val_loss", False), read_space(["lr=0..10", "width=64,128"])
    trials: list[Trial] = []
    for number in range(25):
        values = await asyncio.to_thread(optuna_study.next_values, goal, space, trials, number)
        worse = 0.0 if values["--width"] == "128" else 5.0
        value = (float(values["--lr"]) - 7.0) ** 2 + worse
        trials.append(Trial(values, "complete", value, ((1, value), (2, value))))
    best = min(trials, key=lambda trial: trial.value or 0.0)
    assert best.values == {"--lr": "7", "--width": "128"}
    late = trials[15:]
    assert sum(trial.values["--width"] == "128" for trial in late) > len(late) / 2
    bad = Trial({"--lr": "0", "--width": "64"}, "running", 99.0, ((1, 99.0), (2, 99.0)))
    good = Trial({"--lr": "7", "--width": "128"}, "running", 0.0, ((1, 0.0), (2, 0.0)))
    assert optuna_study.is_hopeless(goal, space, trials, bad)
    assert not optuna_study.is_hopeless(goal, space, trials, good)
    assert not optuna_study.is_hopeless(goal, space, trials[:2], bad), "too few have ended"


@pytest.mark.parametrize("reads", [True, False])
async def test_a_trial_is_placed_by_the_estimate_of_its_own_values_where_its_script_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(optuna_study, "has_optuna", lambda: True)
    monkeypatch.setattr(optuna_study, "is_hopeless", lambda *_: False)
    sizes = ("8", "64")
    monkeypatch.setattr(
        optuna_study,
        "next_values",
        lambda goal, space, trials, seed: {"--batch-size": sizes[len(trials)]},
    )
    async with open_session(None, tmp_path, demo=DemoOptions(hosts=1), dispatch=False) as session:
        task = Task("encoder", str(example("text_encoder.py")), at_most=2)
        jobs = await session.queue.search(
            task, ["batch-size=8,64"], "min loss", trials=2, force=True
        )
        largest = jobs[0].estimate_mib
        journal = session._journal
        epoch = journal.take_role("me")
        assert epoch is not None
        context = replace(session._context, reads_scripts=reads)
        tuning = Tuning(context, session.estimates)
        tuning.look(epoch)
        assert tuning._going is not None
        await tuning._going
        found = {job.task.trial["--batch-size"]: job for job in session.jobs()}
        assert {job.state for job in found.values()} == {JobState.QUEUED}
        assert found["64"].estimate_mib == largest
        assert largest is not None
        small = found["8"]
        if not reads:
            assert small.estimate_mib == largest
            return
        assert small.estimate_mib is not None
        assert small.estimate_mib < largest
        assert small.estimate is not None
        assert small.estimate["batch_size"] == 8
