"""Faults under running and waiting jobs: a cut host, an engine that goes, a broken GPU, memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.remote.links import ssh
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import COUNT, Desk, job_is, let_go, ran_once, seen, until

WATCHFUL = "lab: {poll: {stale_after: 3s}, memory_limit: 200 MiB}\n"

ON_DEVICE = """
import os, time
print(sorted(name for name in os.listdir("/dev") if name.startswith("nvidia")), flush=True)
"""

NO_GPU_MEMORY = """
import sys
sys.stderr.write('''Traceback (most recent call last):
  File "train.py", line 40, in <module>
    loss.backward()
SystemError:

--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   paddle::memory::allocation::AllocatorFacade::AllocShared(phi::Place const&, unsigned long)

----------------------
Error Message Summary:
----------------------
ResourceExhaustedError:

Out of memory error on GPU 0. Cannot allocate 2.250000GB memory on GPU 0, 38.500000GB memory \
has been allocated and available memory is only 512.000000MB.

Please check whether there is any other process using GPU 0.
1. If yes, please stop them, or start PaddlePaddle on another GPU.
2. If no, please decrease the batch size of your model.
 (at ../paddle/fluid/memory/allocation/cuda_allocator.cc:86)
''')
sys.exit(1)
"""

HOG = """
held = []
while True:
    held.append(bytearray(16 * 2**20))
"""


@pytest.mark.fault(
    "A host is cut off while its jobs run",
    "They become unknown, never failed, and come back with log and results whole",
)
async def test_a_host_cut_off_hides_its_jobs_and_brings_them_back(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job ends while nobody can see it, the other runs on: neither fails nor begins anew."""
    # A dead link is noticed in 3 s instead of 15.
    monkeypatch.setattr(ssh, "KEEPALIVE_S", 1)
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk", WATCHFUL)
    async with desk.session() as session:
        short = await session.queue.submit(desk.task(COUNT, "short"))
        long = await session.queue.submit(desk.task(COUNT, "long"))
        for job in (short, long):
            await job_is(session, job, JobState.RUNNING)
        host.cut()
        for job in (short, long):
            away = await job_is(session, job, JobState.UNKNOWN)
            assert host.name in session.why_now(away.id).reason
            assert away.ended_at is None
        # On a busy machine a job may be unknown while its host is still asked for a sign of life.
        await until(lambda: session.snapshot().hosts[0].state is HostState.DOWN, what="host down")
        let_go(host, short)
        host.heal()
        await job_is(session, short, JobState.SUCCEEDED)
        await job_is(session, long, JobState.RUNNING)
        let_go(host, long)
        await job_is(session, long, JobState.SUCCEEDED)
        for job in (short, long):
            await ran_once(session, job, tmp_path / "out")


def _said(log: Path) -> bool:
    return log.exists() and log.stat().st_size > 0


@pytest.mark.fault(
    "Docker restarts and takes its containers along",
    "The job ends with that cause; the device is free",
)
async def test_an_engine_that_restarts_under_a_job_costs_it_a_try(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add()
    engine = host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk", WATCHFUL)
    async with desk.session() as session:
        job = await session.queue.submit(replace(desk.task(COUNT), retries=0))
        again = await session.queue.submit(desk.task(COUNT, "again"))
        for one in (job, again):
            await job_is(session, one, JobState.RUNNING)
            path = session.log_path(one.id)
            await until(lambda log=path: _said(log), what="its first line")  # type: ignore[misc]
        await asyncio.to_thread(engine.stop)
        for one in (job, again):
            away = await job_is(session, one, JobState.UNKNOWN)
            assert "Docker" in away.detail
        # One that is submitted meanwhile waits for the engine, and nothing of it is lost.
        waiting = await session.queue.submit(desk.task(COUNT, "second"))
        await job_is(session, waiting, JobState.QUEUED)
        await asyncio.to_thread(engine.start)
        ended = await job_is(session, job, JobState.FAILED)
        assert f"{host.name} went away while it ran there. Exit code 1" in ended.cause
        assert [attempt.ended_by for attempt in ended.attempts] == ["lost-host"]
        begun = await job_is(session, again, JobState.RUNNING)
        assert [attempt.ended_by for attempt in begun.attempts] == ["lost-host", ""]
        let_go(host, again)
        await job_is(session, again, JobState.SUCCEEDED)
        fetched = (await session.fetch_results(again.id, tmp_path / "again")).folder
        assert (fetched / "runs").read_text() == "ran\nran\n"
        await job_is(session, waiting, JobState.RUNNING)
        let_go(host, waiting)
        await job_is(session, waiting, JobState.SUCCEEDED)
        await ran_once(session, waiting, tmp_path / "out")
        fetched = (await session.fetch_results(job.id, tmp_path / "out")).folder
        assert (fetched / "runs").read_text() == "ran\n"


@pytest.mark.fault(
    "Docker restarts with live-restore",
    "The job runs on in one attempt, its log without gap",
)
async def test_an_engine_that_keeps_containers_alive_costs_a_job_nothing(
    docker_lab: Lab, tmp_path: Path
) -> None:
    """With live-restore an upgrade of Docker leaves containers running."""
    host = docker_lab.add()
    engine = host.start_engine(live_restore=True)
    desk = Desk(docker_lab, tmp_path / "desk", WATCHFUL)
    async with desk.session() as session:
        job = await session.queue.submit(desk.task(COUNT))
        await job_is(session, job, JobState.RUNNING)
        await asyncio.to_thread(engine.stop)
        await job_is(session, job, JobState.UNKNOWN)
        await asyncio.to_thread(engine.start)
        await job_is(session, job, JobState.RUNNING)
        let_go(host, job)
        await job_is(session, job, JobState.SUCCEEDED)
        await ran_once(session, job, tmp_path / "out")


@pytest.mark.fault(
    "A GPU is lost, another has ECC errors",
    "Only these get no job; the others of the host work on",
)
async def test_broken_devices_are_marked_alone_and_get_no_job(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add(devices=3)
    host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk", WATCHFUL)
    async with desk.session() as session:
        await seen(session)
        host.driver.set({"0.ecc_uncorrected": 3, "1.lost": 1})
        await until(lambda: session.snapshot().hosts[0].devices[1].lost, what="the lost GPU")
        await until(lambda: session.snapshot().hosts[0].devices[0].ecc_uncorrected, what="its ECC")
        seen_host = session.snapshot().hosts[0]
        assert seen_host.state is HostState.UP
        assert [device.lost for device in seen_host.devices] == [False, True, False]
        assert [device.ecc_uncorrected for device in seen_host.devices] == [3, None, 0]

        holding = await session.queue.submit(desk.task(COUNT, "holding"))
        behind = await session.queue.submit(desk.task(ON_DEVICE, "behind"))
        held = await job_is(session, holding, JobState.RUNNING)
        assert held.attempt is not None
        assert held.attempt.device_uuids == (host.uuids[2],)
        task = desk.task(ON_DEVICE, "asked")
        decision = await session.placements(task, await session.estimates.report(task))
        assert decision.chosen is None
        reasons = {refused.uuid: refused.reason for refused in decision.rejections}
        assert "3 uncorrected memory errors" in reasons[host.uuids[0]]
        assert "dropped off the bus" in reasons[host.uuids[1]]
        assert session.job(behind.id).state is JobState.QUEUED

        # Put right, the lost one takes the job that waited; the other is still left alone.
        host.driver.set({"1.lost": 0})
        done = await job_is(session, behind, JobState.SUCCEEDED)
        assert done.attempt is not None
        assert done.attempt.device_uuids == (host.uuids[1],)
        lines = [line async for line in session.logs(behind.id, follow=True)]
        assert lines == ["['nvidia1']"]
        let_go(host, holding)
        await job_is(session, holding, JobState.SUCCEEDED)


@pytest.mark.fault(
    "A script runs out of device memory",
    "The job ends as `oom` with the sizes asked for and free",
)
async def test_memory_that_runs_out_is_named_with_its_sizes(
    docker_lab: Lab, tmp_path: Path
) -> None:
    docker_lab.add().start_engine()
    desk = Desk(docker_lab, tmp_path / "desk", WATCHFUL)
    async with desk.session() as session:
        on_device = await session.queue.submit(desk.task(NO_GPU_MEMORY, "device"))
        on_host = await session.queue.submit(desk.task(HOG, "host"))
        ended = await job_is(session, on_device, JobState.OOM)
        assert ended.cause == "Out of memory on GPU 0: 2.2 GiB requested, 512 MiB available."
        assert ended.attempt is not None
        assert ended.attempt.exit_code == 1
        assert session.why_now(ended.id).options
        killed = await job_is(session, on_host, JobState.FAILED)
        assert "Killed by the container's memory limit (200 MiB)" in killed.cause
