"""Paddle jobs that are stopped in the middle and go on from their checkpoints, on real engines."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.session import Session
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import COUNT, Desk, job_is, let_go, seen, until

STEPS = 40
MIDDLE = 22
TRAIN = f"""
import json, os, sys, time
import numpy, paddle
from paddle import nn

folder = os.environ["GPUCONSOLE_CHECKPOINT"]
assert os.path.samefile(folder, "runs/ckpt")
with open("runs/beside", "w") as beside:
    beside.write("the folder above the checkpoints is the script's own, too")
paddle.seed(5)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
adam = paddle.optimizer.Adam(0.01, parameters=net.parameters())
first, mark = 0, os.path.join(folder, "mark.json")
if os.path.exists(mark):
    first = json.load(open(mark))["step"]
    net.set_state_dict(paddle.load(os.path.join(folder, f"net-{{first}}.pdparams")))
    adam.set_state_dict(paddle.load(os.path.join(folder, f"adam-{{first}}.pdopt")))
dice = numpy.random.RandomState(3)
x = paddle.to_tensor(dice.randn(32, 8).astype("float32"))
y = (x ** 2).sum(1, keepdim=True)
for step in range(first, {STEPS}):
    if step % 5 == 0:
        paddle.save(net.state_dict(), os.path.join(folder, f"net-{{step}}.pdparams"))
        paddle.save(adam.state_dict(), os.path.join(folder, f"adam-{{step}}.pdopt"))
        with open(mark + ".new", "w") as out:
            json.dump({{"step": step}}, out)
        os.replace(mark + ".new", mark)
        print("saved", step, flush=True)
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    adam.step()
    adam.clear_grad()
    print(f"step={{step}} loss={{float(loss):.8f}}", flush=True)
    # The first attempt stays in the middle until it is stopped.
    while first == 0 and step == {MIDDLE} and "UNINTERRUPTED" not in os.environ:
        time.sleep(0.05)
"""


def desk_of(lab: Lab, folder: Path, hosts: int, settings: str = "") -> Desk:
    """Return a desk on hosts with one device each."""
    for _ in range(hosts):
        lab.add(devices=1).start_engine()
    return Desk(lab, folder / "desk", settings)


async def submitted(desk: Desk, session: Session) -> Job:
    """Return the training job once it has saved its third checkpoint."""
    task = replace(desk.task(TRAIN), checkpoint_dir="runs/ckpt")
    job = await session.queue.submit(task, force=True)
    path = session.log_path(job.id, 1)

    def saved() -> bool:
        now = session.job(job.id)
        assert not now.state.ended, (now.cause, path.exists() and path.read_text())
        return path.exists() and b"saved 10" in path.read_bytes()

    await until(saved, what="its third checkpoint")
    return job


def losses(text: str) -> dict[int, float]:
    """Return the losses that a log tells, by step."""
    return {int(step): float(loss) for step, loss in re.findall(r"step=(\d+) loss=(\S+)", text)}


def uninterrupted(folder: Path) -> dict[int, float]:
    """Train here without a break; the losses by step."""
    (folder / "runs" / "ckpt").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", TRAIN],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"GPUCONSOLE_CHECKPOINT": str(folder / "runs" / "ckpt"), "UNINTERRUPTED": "1"},
        timeout=PATIENCE_S,
        check=True,
    )
    return losses(done.stdout)


def assert_nothing_is_lost(session: Session, job: Job, whole: dict[int, float]) -> None:
    """Hold the two attempts against a run without a break: the second one begins at the last
    checkpoint, and from there on everything is as it would have been."""
    before, after = (session.log_path(job.id, number).read_text() for number in (1, 2))
    saved = [int(step) for step in re.findall(r"^saved (\d+)$", before, re.M)]
    assert saved[-1] >= 10
    assert max(losses(before)) < STEPS - 1, "it was stopped in the middle"
    assert min(losses(after)) == saved[-1]
    together = {**losses(before), **losses(after)}
    assert sorted(together) == list(range(STEPS))
    assert together == pytest.approx(whole, abs=1e-6)


@pytest.mark.fault("A job is preempted", "It goes on from its last checkpoint")
async def test_a_preempted_job_goes_on_from_its_last_checkpoint(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path, 1)
    async with desk.session() as session:
        await seen(session)
        job = await submitted(desk, session)
        command = desk.command("preempt", job.id)
        told = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, timeout=PATIENCE_S
        )
        assert told.returncode == 0, told.stderr
        assert session.job(job.id).attempts[0].ended_by == "preempted"
        done = await session.wait(job.id)
        assert done.state is JobState.SUCCEEDED, done.cause
        assert [attempt.ended_by for attempt in done.attempts] == ["preempted", "own"]
        assert_nothing_is_lost(session, done, uninterrupted(tmp_path / "here"))
        fetched = (await session.fetch_results(job.id, tmp_path / "results")).folder
        assert (fetched / "checkpoint" / "mark.json").exists()


async def test_a_job_that_goes_first_takes_the_device_and_the_checkpoint_moves(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path, 2, "lab:\n  preemption: true\n")
    async with desk.session() as session:
        await seen(session)
        job = await submitted(desk, session)
        busy = await session.queue.submit(desk.task(COUNT, "busy"), force=True)
        await job_is(session, busy, JobState.RUNNING)
        urgent = replace(desk.task(COUNT, "urgent"), priority=500)
        first = await session.queue.submit(urgent, force=True)
        await job_is(session, first, JobState.RUNNING)
        waiting = session.job(job.id)
        assert waiting.state is JobState.QUEUED
        assert waiting.attempts[0].ended_by == "preempted"
        places = {host.name: host for host in docker_lab.hosts}
        started = session.job(busy.id).attempt
        assert started is not None
        let_go(places[started.host], busy)
        done = await session.wait(job.id)
        assert done.state is JobState.SUCCEEDED, done.cause
        assert done.attempts[1].host == started.host != done.attempts[0].host
        assert_nothing_is_lost(session, done, uninterrupted(tmp_path / "here"))
        let_go(places[done.attempts[0].host], first)
        assert (await session.wait(first.id)).state is JobState.SUCCEEDED
