"""Jobs ended by rules on what their logs report: by name, once, and across consoles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.session.dispatch.stop_rules import StopRules
from gpuconsole.session.logs.follow import log_file
from gpuconsole.session.logs.records import ASK_EVERY_S
from gpuconsole.session.logs.training import TrainingLog
from gpuconsole.session.queue.why import why_of
from tests.session.conftest import Desk, Lab

WRITTEN = (
    Path(__file__).parents[2] / "core" / "training" / "visualdl-2.5.3.vdlrecords"
).read_bytes()
"""By VisualDL's LogWriter: a loss that is NaN in the end, and `val_acc`."""
TASK = Task("train", script="/p/train.py", stop_if=("loss is nan", "loss > 10 after 100 steps"))


async def running(lab: Lab, desk: Desk, task: Task = TASK) -> Job:
    job_id = lab.submit(desk, task=task)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    return desk.job(job_id)


async def looked(lab: Lab, desk: Desk, job: Job, rules: StopRules, log: bytes) -> Job:
    """Have the container write, and the rules look at all of it."""
    lab.docker.write(log)
    path = log_file(lab.state, job.id, 1)
    whole = len(lab.docker.only().log)
    await lab.clock.until(lambda: path.exists() and path.stat().st_size == whole)
    for _ in range(2):
        rules.look(desk.journal.role().epoch)
        reading = rules._reading
        if reading is not None:
            await reading
    return desk.job(job.id)


async def test_a_job_whose_loss_is_no_number_is_cancelled_by_name(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    rules = StopRules(desk.context)
    job = await looked(lab, desk, job, rules, b"step 1 loss: 0.5\n")
    assert job.attempt is not None
    assert job.attempt.ended_by == ""
    await looked(lab, desk, job, rules, b"step 2 loss: nan\n")
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    job = desk.job(job.id)
    assert job.state is JobState.CANCELLED
    assert job.state_word == "stop rule"
    assert job.cause.startswith("Stopped by the rule `loss is nan`: loss was nan at step 2.")
    assert job.as_json()["ended_by"] == "rule"
    assert [attempt.ended_by for attempt in job.attempts] == ["rule"]
    assert why_of(job, {}).options[0] == f"See its curves: gpuconsole curves {job.id}"
    reported = [one for _, one in desk.journal.events_after(0) if one.what == "rule"]
    assert len(reported) == 1


async def test_it_is_not_tried_again_by_itself(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, retries=5))
    await looked(lab, desk, job, StopRules(desk.context), b"step 200 loss: 11\n")
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    await lab.clock.pass_time(120)
    assert desk.job(job.id).state is JobState.CANCELLED
    assert lab.docker.starts == 1


@pytest.mark.parametrize(
    "log",
    [
        b"loss is nan, so this batch is skipped\n",
        b"If loss: nan appears at step 5, lower the rate of the optimizer\n",
        b"step 5 loss: 0.5\nstep 6 val_loss: nan\n",
        b"step 5 loss: nan without an end of the line",
    ],
)
async def test_no_line_that_does_not_surely_say_so_ends_a_job(lab: Lab, log: bytes) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    job = await looked(lab, desk, job, StopRules(desk.context), log)
    assert job.attempt is not None
    assert job.attempt.ended_by == ""


async def test_a_console_that_takes_over_has_seen_what_was_before(lab: Lab) -> None:
    desk = lab.desk()
    task = replace(TASK, stop_if=("no better val_loss for 2 epochs",))
    job = await running(lab, desk, task)
    first = StopRules(desk.context)
    lines = b"epoch 1 val_loss: 0.5\nepoch 2 val_loss: 0.6\n"
    job = await looked(lab, desk, job, first, lines)
    assert job.attempt is not None
    assert job.attempt.ended_by == ""
    job = await looked(lab, desk, job, StopRules(desk.context), b"epoch 3 val_loss: 0.7\n")
    assert job.attempt is not None
    assert job.attempt.ended_by == "rule"
    assert "at best 0.5 at epoch 1" in job.attempt.cause


async def test_a_job_without_rules_is_not_read(lab: Lab) -> None:
    desk = lab.desk()
    await running(lab, desk, replace(TASK, stop_if=()))
    rules = StopRules(desk.context)
    rules.look(desk.journal.role().epoch)
    assert rules._reading is None


async def test_a_log_without_end_keeps_no_other_from_its_rules(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script may write faster than logs are read."""
    desk = lab.desk()
    job = await running(lab, desk)
    rules = StopRules(desk.context)
    rules.look(desk.journal.role().epoch)
    assert rules._reading is not None
    await rules._reading
    ((key, log),) = rules._watched.items()
    endless = TrainingLog(log.path)
    reads: list[None] = []

    def read_on() -> bool:
        reads.append(None)
        # A test that fails ends too.
        return len(reads) < 10_000

    monkeypatch.setattr(endless, "read_on", read_on)
    rules._watched = {("other", 1, "c"): endless, key: log}
    await looked(lab, desk, job, rules, b"step 2 loss: nan\n")
    assert 0 < len(reads) < 100
    found = desk.job(job.id).attempt
    assert found is not None
    assert found.ended_by == "rule"


async def scalars_looked_at(lab: Lab, desk: Desk, rules: StopRules) -> None:
    """Have the rules ask the host for scalars once more."""
    await lab.clock.pass_time(ASK_EVERY_S + 1)
    rules.look(desk.journal.role().epoch)
    assert rules._asking is not None
    await rules._asking


async def test_scalars_of_visualdl_break_rules_of_what_the_log_does_not_report(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, stop_if=("loss is nan",)))
    rules = StopRules(desk.context)
    lab.docker.records = {"./vdl/vdlrecords.1.log": WRITTEN[:500]}
    rules.look(desk.journal.role().epoch)
    await scalars_looked_at(lab, desk, rules)
    attempt = desk.job(job.id).attempt
    assert attempt is not None
    assert attempt.ended_by == ""
    lab.docker.records = {"./vdl/vdlrecords.1.log": WRITTEN}
    await scalars_looked_at(lab, desk, rules)
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    ended = desk.job(job.id)
    assert ended.cause.startswith("Stopped by the rule `loss is nan`: loss was nan at step 4")


@pytest.mark.parametrize(
    ("log", "rule"),
    [
        # The log reports the metric itself: then it decides.
        (b"step 1 loss: 0.5\n", "loss is nan"),
        # Scalars count no epochs.
        (b"", "no better val_acc for 1 epochs"),
        (b"", "val_loss is nan"),
    ],
)
async def test_scalars_break_no_other_rule(lab: Lab, log: bytes, rule: str) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, stop_if=(rule,)))
    rules = StopRules(desk.context)
    lab.docker.records = {"./vdl/vdlrecords.1.log": WRITTEN}
    await looked(lab, desk, job, rules, log or b"begun\n")
    await scalars_looked_at(lab, desk, rules)
    attempt = desk.job(job.id).attempt
    assert attempt is not None
    assert attempt.ended_by == ""


async def test_a_host_that_sends_no_scalars_breaks_no_rule(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk, replace(TASK, stop_if=("loss is nan",)))
    rules = StopRules(desk.context)
    lab.docker.records = {"./vdl/vdlrecords.1.log": WRITTEN}
    lab.docker.silent_at = frozenset({"records"})
    rules.look(desk.journal.role().epoch)
    await scalars_looked_at(lab, desk, rules)
    lab.docker.silent_at = frozenset()
    attempt = desk.job(job.id).attempt
    assert attempt is not None
    assert attempt.ended_by == ""
    await scalars_looked_at(lab, desk, rules)
    await lab.clock.until(lambda: desk.job(job.id).state.ended)
    assert desk.job(job.id).state_word == "stop rule"
