"""Two Paddle jobs on one device, on real parts but the driver: measured, and parted again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.remote import injected
from gpuconsole.session.dispatch import device_sharing_watch
from gpuconsole.session.dispatch.attempt import observation
from tests.real.rig.hosts import USER, Lab, LabHost
from tests.real.rig.sessions import Desk, job_is, let_go, seen, until

TRAIN = """
import os
import time

import paddle
from paddle import nn

results = os.environ["GPUCONSOLE_RESULTS"]
print("limit", os.environ.get("FLAGS_gpu_memory_limit_mb"), flush=True)
net = nn.Linear(64, 64)
adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=net.parameters())
# Long beside what another on the same processors costs it.
while not os.path.exists(os.path.join(results, "go")):
    loss = net(paddle.randn([8, 64])).mean()
    loss.backward()
    adam.step()
    adam.clear_grad()
    time.sleep(0.40 if os.path.exists(os.path.join(results, "slow")) else 0.20)
print("done", flush=True)
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure as often as a test can wait for."""
    source = injected._source
    monkeypatch.setattr(
        injected, "_source",
        lambda name: source(name).replace("WRITE_EVERY_S = 10.0", "WRITE_EVERY_S = 0.3"),
    )  # fmt: skip
    monkeypatch.setattr(device_sharing_watch, "READ_EVERY_S", 1.0)
    monkeypatch.setattr(observation, "ENOUGH_READINGS", 3)


def slow_down(host: LabHost, job_id: str) -> None:
    """Tell a job's script to take longer for each step."""
    found = host.run(["find", f"/home/{USER}", "-type", "d", "-path", f"*{job_id}*"])
    folder = min(found.stdout.decode().split(), key=len)
    host.run(["touch", f"{folder}/slow"]).check_returncode()


@pytest.mark.usefixtures("quick")
async def test_two_jobs_share_a_device_until_it_does_not_go_well(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add(devices=1)
    host.start_engine()
    host.driver.set(util=30)
    desk = Desk(docker_lab, tmp_path / "desk", "lab:\n  sharing: true\n")
    async with desk.session() as session:
        await seen(session)
        task = replace(desk.task(TRAIN), share=True)
        first = await session.queue.submit(task)
        await job_is(session, first, JobState.RUNNING)
        # Its steps alone have to be known before another comes beside it.
        watch = session._dispatcher._crowding
        await until(lambda: (p := watch._paces.get(first.id)) and p.solo_s, what="steps alone")
        later = await session.queue.submit(task)
        beside = await job_is(session, later, JobState.RUNNING)
        assert beside.attempt is not None
        assert beside.attempt.shared
        assert session.job(first.id).state is JobState.RUNNING
        assert beside.attempt.device_uuids == host.uuids

        def measured() -> bool:
            return "times as long as alone" in session.why_now(first.id).reason

        await until(measured, what=session.why_now(first.id).reason)
        assert f"It shares its device with train ({later.id}); its steps take" in (
            session.why_now(first.id).reason
        )
        slow_down(host, first.id)
        waiting = await job_is(session, later, JobState.QUEUED)
        assert waiting.attempt is not None
        assert waiting.attempt.ended_by == "crowded-out"
        assert f"It made room for train ({first.id})" in waiting.attempt.cause
        assert "times as long as alone, above 1.15" in waiting.attempt.cause
        assert session.job(first.id).state is JobState.RUNNING
        let_go(host, first)
        await until(lambda: session.job(first.id).state is JobState.SUCCEEDED)
        alone = await job_is(session, later, JobState.RUNNING)
        assert alone.attempt is not None
        assert (alone.attempt.number, alone.attempt.shared) == (2, False)
        lines = [line async for line in session.logs(first.id, follow=True)]
        estimate = session.job(first.id)
        assert estimate.estimate_mib is not None
        assert estimate.estimate is not None
        bound = estimate.estimate_mib - estimate.estimate["memory"]["context_mib"]
        assert f"limit {int(bound)}" in lines
        let_go(host, later)
        await until(lambda: session.job(later.id).state is JobState.SUCCEEDED)
        # With the device to itself it is not bound any more.
        lines = [line async for line in session.logs(later.id, follow=True)]
        assert "limit None" in lines
