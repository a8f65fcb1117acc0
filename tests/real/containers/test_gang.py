"""Jobs over two container hosts, each with its own network, sshd and engine; Paddle talks Gloo."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.session.session import Session
from gpuconsole.state import Journal
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import COUNT, Desk, job_is, let_go, seen, until

TRAIN = """
import json, os
import numpy, paddle
from paddle import nn
import paddle.distributed as dist

dist.init_parallel_env()
rank, world = dist.get_rank(), dist.get_world_size()
paddle.seed(7)
net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
dice = numpy.random.RandomState(3)
x = dice.randn(64, 16).astype("float32")
y = (x ** 2).sum(1, keepdims=True).astype("float32")
model = paddle.DataParallel(net) if world > 1 else net
momentum = paddle.optimizer.Momentum(0.01, parameters=net.parameters())
mine = slice(rank * 64 // world, (rank + 1) * 64 // world)
losses = []
for step in range(30):
    loss = nn.functional.mse_loss(model(paddle.to_tensor(x[mine])), paddle.to_tensor(y[mine]))
    loss.backward()
    momentum.step()
    momentum.clear_grad()
    with paddle.no_grad():
        whole = nn.functional.mse_loss(net(paddle.to_tensor(x)), paddle.to_tensor(y))
    losses.append(float(whole))
    print(f"step={step + 1}/30 rank={rank} of {world} loss={losses[-1]:.6f}", flush=True)
with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], f"loss-{rank}.json"), "w") as out:
    json.dump({"world": world, "losses": losses}, out)
"""

FAILS = """
import os
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
for step in range(1000):
    if dist.get_rank() == 1 and step == 3:
        raise ValueError("the second host has had enough")
    dist.all_reduce(paddle.ones([4]))
    print("step", step, flush=True)
"""

WAITS = """
import os, time

with open("/tmp/rank", "w") as file:
    file.write(os.environ["PADDLE_TRAINER_ID"])
while True:
    time.sleep(0.1)
"""

# The lab's devices are stand-ins that this build of Paddle cannot compute on.
ON_CPU = {"CUDA_VISIBLE_DEVICES": "0", "PADDLE_DISTRI_BACKEND": "gloo"}


@pytest.fixture
def engines(docker_lab: Lab) -> list[LabDocker]:
    """Two hosts with one device each, so that a job on two devices needs both."""
    started = [docker_lab.add(devices=1).start_engine() for _ in range(2)]
    docker_lab.connect()
    return started


@pytest.fixture
def desk(docker_lab: Lab, engines: list[LabDocker], tmp_path: Path) -> Desk:
    return Desk(docker_lab, tmp_path / "desk", "lab:\n  gang_network: host\n")


@pytest.fixture
async def session(desk: Desk) -> AsyncIterator[Session]:
    async with desk.session() as opened:
        await seen(opened)
        yield opened


def gang(desk: Desk, text: str, name: str = "train", **changes: Any) -> Task:
    """Return the task of a script on both hosts."""
    changes = {"devices": 2, "hosts": 2, "env": ON_CPU, **changes}
    return replace(desk.task(text, name), **changes)


async def test_a_gang_trains_to_the_same_loss_as_one_process(
    desk: Desk, session: Session, engines: list[LabDocker], tmp_path: Path
) -> None:
    job = await session.queue.submit(gang(desk, TRAIN), force=True)
    done = await session.wait(job.id)
    logs = [await log_of(session, job, rank) for rank in (0, 1)]
    assert done.state is JobState.SUCCEEDED, (done.cause, logs)
    assert done.attempt is not None
    parts = done.attempt.parts
    assert sorted(part.host for part in parts) == ["lab-01", "lab-02"]
    assert [part.exit_code for part in parts] == [0, 0]
    assert "rank=0 of 2" in logs[0]
    assert "rank=1 of 2" in logs[1]
    command = desk.command("logs", job.id, "--rank", "1")
    told = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=PATIENCE_S)
    assert b"step=30/30 rank=1 of 2" in told.stdout
    # No host keeps a claim or a container, and what was run is on record: a line for each.
    for engine in engines:
        await until(lambda one=engine: not containers(one), what="nothing left")  # type: ignore[misc]
    lines = session.render(job.id).splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        f"# {part.host} (rank {rank})" for rank, part in enumerate(parts)
    ]
    assert all("--nnodes 2" in line for line in lines if not line.startswith("#"))

    alone = await session.queue.submit(replace(desk.task(TRAIN, "alone"), env=ON_CPU), force=True)
    assert (await session.wait(alone.id)).state is JobState.SUCCEEDED
    together = (await session.fetch_results(job.id, tmp_path / "together")).folder
    apart = (await session.fetch_results(alone.id, tmp_path / "alone")).folder
    one = json.loads((apart / "loss-0.json").read_text())
    two = json.loads((together / "loss-0.json").read_text())
    other = json.loads((together / "rank-1" / "loss-1.json").read_text())
    assert (one["world"], two["world"]) == (1, 2)
    assert one["losses"][0] > 2 * one["losses"][-1], "it has learned"
    assert two["losses"] == pytest.approx(one["losses"], abs=1e-4)
    assert other["losses"] == pytest.approx(one["losses"], abs=1e-4)


@pytest.mark.fault(
    "One host of a gang fails",
    "It is named; the others are stopped, all devices free",
)
async def test_the_host_that_fails_first_is_named_and_the_other_is_stopped(
    desk: Desk, session: Session, engines: list[LabDocker]
) -> None:
    job = await session.queue.submit(gang(desk, FAILS, "fails"), force=True)
    done = await session.wait(job.id)
    assert done.state is JobState.FAILED
    assert done.attempt is not None
    second = done.attempt.parts[1].host
    assert done.cause.startswith(f"{second} (rank 1) ended first. ")
    assert "the second host has had enough" in done.cause
    for engine in engines:
        await until(lambda one=engine: not containers(one), what="nothing left")  # type: ignore[misc]


async def test_a_command_runs_in_the_container_of_a_rank(
    desk: Desk, session: Session, engines: list[LabDocker]
) -> None:
    job = await session.queue.submit(gang(desk, WAITS), force=True)
    running = await job_is(session, job, JobState.RUNNING)
    assert running.attempt is not None

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            desk.command("exec", *words), capture_output=True, text=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip

    async def said(*rank: str) -> str:
        read = ("--", "cat", "/tmp/rank")
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while (done := await asyncio.to_thread(ran, job.id, *rank, *read)).returncode:
            # The script has not come to it yet.
            assert "No such file" in done.stderr, done.stderr
            assert asyncio.get_running_loop().time() < deadline
        return done.stdout

    assert await said() == await said("--rank", "0") == "0"
    assert await said("--rank", "1") == "1"
    for words, refused in (
        ((job.id, "--rank", "2"), "has no rank 2"),
        ((f"lab-01:{running.attempt.container_name}", "--rank", "1"), "A container has no ranks"),
        (("nothing", "--rank", "1"), "No such job"),
    ):
        done = await asyncio.to_thread(ran, *words, "--", "true")
        assert done.returncode == 2
        assert refused in " ".join(done.stderr.split())
    acts = [act for act in await session.audit() if act.verb == "exec"]
    assert {act.subject.partition(":")[0] for act in acts} == {"lab-01", "lab-02"}
    await session.cancel(job.id)
    done = await asyncio.to_thread(ran, job.id, "--rank", "1", "--", "true")
    assert done.returncode == 1
    assert "is cancelled" in " ".join(done.stderr.split())


async def log_of(session: Session, job: Job, rank: int) -> str:
    """Return the log of a rank."""
    return "\n".join([line async for line in session.logs(job.id, follow=True, rank=rank)])


def containers(engine: LabDocker) -> list[Any]:
    """Return what is on an engine: containers of jobs, and leases."""
    client = engine.client()
    try:
        return list(client.containers(all=True))
    finally:
        client.close()


def both_let_go(docker_lab: Lab, job: Job) -> None:
    for host in docker_lab.hosts:
        let_go(host, job)


@pytest.mark.fault(
    "The console is killed while a gang starts or runs",
    "The next one takes it over; each part is started once",
)
async def test_a_killed_console_leaves_a_gang_that_its_heir_takes_over(
    desk: Desk, docker_lab: Lab, tmp_path: Path
) -> None:
    async with desk.session() as first:
        await seen(first)
        job = await first.queue.submit(gang(desk, COUNT, "count"), force=True, hold=True)
        await first.queue.release(job.id)
    await asyncio.to_thread(dispatch_until_it_runs, desk, job.id)
    async with desk.session() as heir:
        await job_is(heir, job, JobState.RUNNING)
        await both_count(heir, job)
        both_let_go(docker_lab, job)
        done = await heir.wait(job.id)
        assert (done.state, len(done.attempts)) == (JobState.SUCCEEDED, 1), done.cause
        fetched = (await heir.fetch_results(job.id, tmp_path / "results")).folder
        assert (fetched / "runs").read_text() == "ran\n"
        assert (fetched / "rank-1" / "runs").read_text() == "ran\n"
        for rank in (0, 1):
            lines = (await log_of(heir, job, rank)).splitlines()
            counted = [line for line in lines if line.startswith("line ")]
            assert counted == [f"line {number}" for number in range(len(counted))]


async def both_count(session: Session, job: Job) -> None:
    """Wait until the script runs on both hosts, which have met by then."""
    for rank in (0, 1):
        path = session.log_path(job.id, rank=rank)
        await until(
            lambda one=path: one.exists() and b"line 3" in one.read_bytes(),  # type: ignore[misc]
            what=f"rank {rank} counts",
        )


def dispatch_until_it_runs(desk: Desk, job_id: str) -> None:
    """Let another console start a job, and kill it as soon as the job runs."""
    console = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
    try:
        with desk.journal() as journal:
            deadline = time.monotonic() + PATIENCE_S
            while not running(journal, job_id):
                assert time.monotonic() < deadline, journal.job(job_id)
                time.sleep(0.05)
    finally:
        console.kill()
        console.wait()


def running(journal: Journal, job_id: str) -> bool:
    """Whether a job runs, as another console sees it."""
    job = journal.job(job_id)
    assert job is not None
    assert not job.state.ended, job.cause
    return job.state is JobState.RUNNING


@pytest.mark.fault("One host of a gang is cut off", "The gang is unknown and comes back whole")
async def test_a_cut_host_makes_a_gang_unknown_and_it_comes_back(
    desk: Desk, session: Session, docker_lab: Lab
) -> None:
    job = await session.queue.submit(gang(desk, COUNT, "count"), force=True)
    await both_count(session, job)
    docker_lab.hosts[1].cut()
    await job_is(session, job, JobState.UNKNOWN)
    docker_lab.hosts[1].heal()
    await job_is(session, job, JobState.RUNNING)
    both_let_go(docker_lab, job)
    assert (await session.wait(job.id)).state is JobState.SUCCEEDED
