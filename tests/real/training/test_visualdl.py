"""Rules and goals on what VisualDL's own LogWriter writes, in jobs whose logs report nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.dispatch import stop_rules
from gpuconsole.session.logs import records
from gpuconsole.session.session import Session
from tests.real.rig.hosts import Lab
from tests.real.rig.image import paddle_image
from tests.real.rig.sessions import Desk, job_is, seen, until

PACKAGES = Path(sys.prefix) / "share" / "visualdl"
"""VisualDL, as `make real` installs it."""
ASK_EVERY_S = 2.0
TRIALS = 6
DIVERGES = """
import os, time
from visualdl import LogWriter

folder = os.path.join(os.environ["GPUCONSOLE_RESULTS"], "vdl")
writer = LogWriter(folder)
print("loss is nan at step 1, says this sentence", flush=True)
for step in range(10_000):
    told = os.path.exists(os.path.join(folder, "diverge"))
    writer.add_scalar(tag="train/loss", step=step, value=float("nan") if told else 1.0)
    time.sleep(0.1)
"""
TRAINS = """
import argparse, math, os, time
from visualdl import LogWriter

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
folder = os.path.join(os.environ["GPUCONSOLE_RESULTS"], "vdl")
writer = LogWriter(folder)
told = {name: os.path.join(folder, name) for name in ("well", "badly")}
while not any(map(os.path.exists, told.values())):
    time.sleep(0.1)
badly = os.path.exists(told["badly"])
for step in range(10):
    value = 100.0 if badly else abs(math.log10(lr) + 3.0) + 1.0 / (step + 1)
    writer.add_scalar(tag="eval/loss", step=step, value=value)
writer.close()
while badly:
    time.sleep(1.0)
"""
"""A trial that is told whether it does well; one that does badly never ends by itself."""


@pytest.fixture
def desk(docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Give a user of one host whose image has VisualDL."""
    if not PACKAGES.is_dir():
        pytest.skip("VisualDL is not installed: make real")
    paddle_image(docker_lab.add(devices=2).start_engine(paddle=False), packages=[PACKAGES])
    for module in (records, stop_rules):
        monkeypatch.setattr(module, "ASK_EVERY_S", ASK_EVERY_S)
    return Desk(docker_lab, tmp_path / "desk")


async def tell(session: Session, job: Job, name: str) -> None:
    """Make a file beside a running job's records."""
    attempt = session.job(job.id).attempt
    assert attempt is not None
    where = f"{attempt.host}:{attempt.container_name}"
    done = await session.run_in_container(
        where, ("sh", "-c", f"mkdir -p /results/vdl; touch /results/vdl/{name}")
    )
    assert done.exit_code == 0, done


async def test_a_rule_ends_a_job_by_what_its_log_writer_writes(desk: Desk) -> None:
    async with desk.session() as session:
        await seen(session)
        rules = ("val_loss > 5", "loss is nan")
        task = replace(desk.task(DIVERGES), stop_if=rules)
        job = await session.queue.submit(task, force=True)
        await job_is(session, job, JobState.RUNNING)
        loss = (await session.curves(job.id)).curves.get("loss")
        # Finite values end nothing, though the host has been asked for them.
        while loss is None or loss.count < 10:
            await asyncio.sleep(0.5)
            loss = (await session.curves(job.id)).curves.get("loss")
            assert session.job(job.id).state is JobState.RUNNING
        await tell(session, job, "diverge")
        ended = await job_is(session, job, JobState.CANCELLED)
        assert ended.state_word == "stop rule"
        assert ended.cause.startswith("Stopped by the rule `loss is nan`: loss was nan at step ")
        (attempt,) = ended.attempts
        assert attempt.ended_by == "rule"


async def test_a_search_is_led_and_pruned_by_what_its_trials_log_writers_write(desk: Desk) -> None:
    pytest.importorskip("optuna")
    async with desk.session() as session:
        await seen(session)
        jobs = await session.queue.search(
            replace(desk.task(TRAINS), at_most=1),
            ["lr=1e-5..1e-1:log"], "min val_loss", TRIALS, force=True,
        )  # fmt: skip
        for number in range(TRIALS):
            job = await next_running(session, jobs)
            await tell(session, job, "badly" if number == TRIALS - 1 else "well")
            end = JobState.CANCELLED if number == TRIALS - 1 else JobState.SUCCEEDED
            ended = await job_is(session, job, end)
        # The last of them did badly.
        assert ended.cause == (
            "Pruned: val_loss was 100 at 9, worse than the median of other trials there."
        )
        await until(lambda: best_named(desk), what="the best trial is named")
        (said,) = best_named(desk)
    rows = compared(desk)
    values = {str(row["job"]): row["best"] for row in rows}
    assert values.pop(ended.id) == 100.0
    assert len(values) == TRIALS - 1
    best = min(values, key=lambda one: float(str(values[one])))
    assert rows[0]["job"] == best
    assert f"the best trial is {best}, val_loss " in said


async def next_running(session: Session, jobs: Sequence[Job]) -> Job:
    """Return the one trial that runs, once it does."""

    def running() -> list[Job]:
        return [job for job in jobs if session.job(job.id).state is JobState.RUNNING]

    await until(running, what="the next trial runs")
    (job,) = running()
    return job


def best_named(desk: Desk) -> list[str]:
    """Return the messages that name a search's best trial."""
    with desk.journal() as journal:
        events = [event.message for _, event in journal.events_after(0)]
    return [text for text in events if "the best trial is" in text]


def compared(desk: Desk) -> list[dict[str, object]]:
    """Return what `compare` prints of the search."""
    words = desk.command("compare", "train", "--json")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    rows: list[dict[str, object]] = json.loads(done.stdout)["jobs"]
    return rows
