"""What real training in a real container says: its curve, and a rule that ends it."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import JobState
from tests.real.rig import forks
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, job_is, seen

FIT = """
import numpy as np
import paddle

paddle.seed(1)
rng = np.random.default_rng(1)
x = rng.normal(size=(64, 8)).astype("float32")
y = (x[:, :1] > 0).astype("int64")


class Data(paddle.io.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, at):
        return x[at], y[at]


model = paddle.Model(paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(),
                                          paddle.nn.Linear(16, 2)))
model.prepare(
    paddle.optimizer.Adam(0.01, parameters=model.parameters()),
    paddle.nn.CrossEntropyLoss(),
    paddle.metric.Accuracy(),
)
model.fit(Data(), Data(), epochs=4, batch_size=8, log_freq=1, verbose=VERBOSE)
"""
DIVERGES = """
import time
import paddle

net = paddle.nn.Linear(4, 1)
sgd = paddle.optimizer.SGD(1e25, parameters=net.parameters())
print("a loss that is nan: step 1 would end this job, this sentence does not", flush=True)
for step in range(1, 10_000):
    loss = ((net(paddle.ones([8, 4])) - 3.0) ** 2).mean()
    loss.backward()
    sgd.step()
    sgd.clear_grad()
    print(f"step {step} loss: {float(loss)}", flush=True)
    time.sleep(0.2)
"""


WRITES = """
import base64, os, time

folder = os.path.join(os.environ["GPUCONSOLE_RESULTS"], "vdl")
os.makedirs(folder)
data = base64.b64decode("DATA")
with open(os.path.join(folder, "vdlrecords.1795845773.log"), "wb", buffering=0) as file:
    file.write(data[:500])
    print("half", flush=True)
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.1)
    file.write(data[500:])
"""
"""Writes the file that VisualDL's LogWriter wrote, as that does: bit by bit."""
RECORDS = Path(__file__).parents[2] / "core" / "training" / "visualdl-2.5.3.vdlrecords"


def desk_of(lab: Lab, folder: Path) -> Desk:
    lab.add(devices=1).start_engine()
    return Desk(lab, folder / "desk")


def printed(desk: Desk, *words: str) -> str:
    """Return what a command of the console prints."""
    done = forks.typed(desk.command(*words), PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_curves_of_model_fit_are_read_plotted_and_exported(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path)
    async with desk.session() as session:
        await seen(session)
        jobs = [
            await session.queue.submit(
                desk.task(FIT.replace("VERBOSE", verbose), f"fit{verbose}"), force=True
            )
            for verbose in ("1", "2")
        ]
        for job in jobs:
            await job_is(session, job, JobState.SUCCEEDED)
            assert len([line async for line in session.logs(job.id, follow=True)]) > 8
            found = await session.curves(job.id)
            loss = found.curves["loss"]
            # Eight steps in each of four epochs.
            assert loss.count == 32
            assert [point.at for point in loss.points] == [float(n) for n in range(1, 33)]
            assert loss.points[-1].value < loss.points[0].value
            assert found.curves["acc"].most is not None
            assert found.curves["step_s"].least is not None
            assert [point.epoch for point in found.curves["val_loss"].points] == [1, 2, 3, 4]
        compared = await session.compare([job.id for job in jobs])
        assert [one.curves.curves["loss"].count for one in compared] == [32, 32]
    rows = list(csv.DictReader(io.StringIO(printed(desk, "curves", jobs[0].id, "--csv", "-"))))
    assert len([row for row in rows if row["metric"] == "loss"]) == 32
    assert "val_loss" in printed(desk, "curves", jobs[0].id)
    assert "BEST" in printed(desk, "compare", jobs[0].id, jobs[1].id)


async def test_a_rule_ends_a_job_whose_loss_is_no_number(docker_lab: Lab, tmp_path: Path) -> None:
    desk = desk_of(docker_lab, tmp_path)
    async with desk.session() as session:
        await seen(session)
        task = replace(desk.task(DIVERGES), stop_if=("loss is nan",))
        job = await session.queue.submit(task, force=True)
        ended = await job_is(session, job, JobState.CANCELLED)
        assert ended.state_word == "stop rule"
        assert ended.cause.startswith("Stopped by the rule `loss is nan`: loss was nan at step ")
        (attempt,) = ended.attempts
        assert attempt.ended_by == "rule"
        found = await session.curves(job.id)
        first = found.curves["loss"].no_number
        assert first is not None


async def test_a_rule_ends_a_job_whose_scalars_of_visualdl_have_a_loss_that_is_no_number(
    docker_lab: Lab, tmp_path: Path
) -> None:
    """Its log reports no loss at all; the file's ends with a NaN."""
    desk = desk_of(docker_lab, tmp_path)
    script = WRITES.replace("DATA", base64.b64encode(RECORDS.read_bytes()).decode())
    script += "\nwhile True:\n    time.sleep(1)\n"
    async with desk.session() as session:
        await seen(session)
        task = replace(desk.task(script, "vdl"), stop_if=("loss is nan",))
        job = await session.queue.submit(task, force=True)
        running = await job_is(session, job, JobState.RUNNING)
        # Half of it has no NaN.
        while "val_acc" not in (await session.curves(job.id)).curves:
            assert not session.job(job.id).state.ended
            await asyncio.sleep(0.5)
        attempt = running.attempt
        assert attempt is not None
        where = f"{attempt.host}:{attempt.container_name}"
        await session.run_in_container(where, ("touch", "/results/vdl/go"))
        ended = await job_is(session, job, JobState.CANCELLED)
        assert ended.state_word == "stop rule"
        assert ended.cause.startswith("Stopped by the rule `loss is nan`: loss was nan at step ")


async def test_scalars_of_visualdl_are_plotted_while_the_job_runs_and_kept_after_it(
    docker_lab: Lab, tmp_path: Path
) -> None:
    desk = desk_of(docker_lab, tmp_path)
    script = WRITES.replace("DATA", base64.b64encode(RECORDS.read_bytes()).decode())
    async with desk.session() as session:
        await seen(session)
        job = await session.queue.submit(desk.task(script, "vdl"), force=True)
        await job_is(session, job, JobState.RUNNING)

        async def count() -> int:
            loss = (await session.curves(job.id)).curves.get("loss")
            return 0 if loss is None else loss.count

        while not await count():
            assert not session.job(job.id).state.ended
            await asyncio.sleep(0.5)
        assert 0 < await count() < 41
        attempt = session.job(job.id).attempt
        assert attempt is not None
        where = f"{attempt.host}:{attempt.container_name}"
        await session.run_in_container(where, ("touch", "/results/vdl/go"))
        await job_is(session, job, JobState.SUCCEEDED)
        assert await count() == 41
        (compared,) = await session.compare([job.id])
        assert compared.curves.curves["val_acc"].best is not None
    # The log says nothing, so that the command asks the host without being told to.
    rows = list(csv.DictReader(io.StringIO(printed(desk, "curves", job.id, "--csv", "-"))))
    assert len([row for row in rows if row["metric"] == "loss"]) == 41
    assert "val_acc" in printed(desk, "curves", job.id)
