"""A search of ten trials that train on the CPU in real containers, led by Optuna."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.jobs import JobState
from tests.real.rig import forks
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, seen, until

TRIALS = 10
TRAINS = """
import argparse
import paddle

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
paddle.seed(1)
net = paddle.nn.Linear(4, 1)
sgd = paddle.optimizer.SGD(lr, parameters=net.parameters())
x = paddle.randn([32, 4])
y = x.sum(axis=1, keepdim=True)
for epoch in range(1, 11):
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    sgd.step()
    sgd.clear_grad()
    print(f"epoch {epoch} val_loss: {float(loss):.6f}", flush=True)
"""


def compared(desk: Desk) -> list[dict[str, Any]]:
    """Return what `compare` prints of the search."""
    words = desk.command("compare", "train", "--json")
    done = forks.typed(words, PATIENCE_S)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
    return rows


async def test_ten_trials_are_led_to_the_goal_over_a_restart(
    docker_lab: Lab, tmp_path: Path
) -> None:
    pytest.importorskip("optuna")
    docker_lab.add(devices=2).start_engine()
    desk = Desk(docker_lab, tmp_path / "desk")
    async with desk.session() as session:
        await seen(session)
        task = replace(desk.task(TRAINS), at_most=2)
        jobs = await session.queue.search(
            task, ["lr=1e-5..1e-1:log"], "min val_loss", TRIALS, force=True
        )
        assert {job.state for job in jobs} == {JobState.HELD}
        ids = [job.id for job in jobs]
        await until(
            lambda: sum(session.job(one).state.ended for one in ids) >= 3, 3 * PATIENCE_S, "three"
        )
    async with desk.session() as session:
        await seen(session)
        await until(
            lambda: all(session.job(one).state.ended for one in ids), 5 * PATIENCE_S, "all trials"
        )
        ended = [session.job(one) for one in ids]
        assert {job.state for job in ended} <= {JobState.SUCCEEDED, JobState.CANCELLED}
        assert sum(job.state is JobState.SUCCEEDED for job in ended) >= 5
        rates = [float(job.task.trial["--lr"]) for job in ended]
        assert len(set(rates)) == TRIALS
        assert all(1e-5 <= rate <= 0.1 for rate in rates)
        await until(
            lambda: any(
                "the best trial is" in event.message
                for _, event in session._journal.events_after(0)
            ),
            what="the best trial is named",
        )
    rows = compared(desk)
    best = rows[0]
    assert best["best"] == min(row["best"] for row in rows)
    assert float(best["parameters"]["lr"]) == pytest.approx(
        next(float(job.task.trial["--lr"]) for job in ended if job.id == best["job"])
    )
    # Of this problem the highest rate is the best: what was learned is tried again near there.
    assert float(best["parameters"]["lr"]) > 1e-2
