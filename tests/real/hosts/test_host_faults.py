"""Hosts that cannot start jobs: a broken GPU runtime, a full disk, a registry out of reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.devices import host_faults
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.session.dispatch.attempt import launch
from gpuconsole.session.session import Session
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.sessions import Desk, job_is, seen, until

SHORT = """
import os, time
with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "runs"), "a") as runs:
    runs.write("ran\\n")
time.sleep(0.5)
"""
PATIENT_S = 240.0
"""Long enough for a busy machine: nothing is measured by it."""


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses last seconds instead of minutes."""
    monkeypatch.setattr(host_faults, "PAUSES_S", (3.0, 4.0, 5.0))
    monkeypatch.setattr(launch, "PULL_PAUSES_S", (0.2, 0.2))


async def ended_well(session: Session, jobs: list[Job], folder: Path) -> None:
    """Wait until all have succeeded; each has run once."""
    await until(
        lambda: all(session.job(job.id).state.ended for job in jobs), PATIENT_S, "every job's end"
    )
    for job in jobs:
        now = session.job(job.id)
        assert now.state is JobState.SUCCEEDED, now.cause
        fetched = (await session.fetch_results(job.id, folder)).folder
        assert (fetched / "runs").read_text() == "ran\n", "started once"


def tried(session: Session, jobs: list[Job], host: LabHost) -> list[str]:
    """Return the jobs that a host could not start."""
    return [
        job.id
        for job in jobs
        if any(one.at_fault == host.name for one in session.job(job.id).attempts)
    ]


@pytest.mark.fault(
    "The GPU runtime of one host fails every start",
    "Its jobs run elsewhere, each once; the host is set aside and comes back after repair",
)
async def test_a_broken_gpu_runtime_loses_no_job_and_its_host_comes_back(
    docker_lab: Lab, tmp_path: Path
) -> None:
    broken, well = docker_lab.add(), docker_lab.add()
    engine = broken.start_engine()
    well.start_engine()
    engine.break_hook()
    desk = Desk(docker_lab, tmp_path / "desk")
    async with desk.session() as session:
        await seen(session)
        began = session.now()
        jobs = [await session.queue.submit(desk.task(SHORT, f"job{number}")) for number in range(8)]
        await ended_well(session, jobs, tmp_path / "out")
        # Each pause that has passed by then allowed one more.
        lasted = session.now() - began
        trials, passed = 0, host_faults.pause_s(1)
        while passed <= lasted:
            trials += 1
            passed += host_faults.pause_s(trials + 1)
        assert 1 <= len(tried(session, jobs, broken)) <= 4 + trials
        assert not tried(session, jobs, well)
        host = session.snapshot().host(broken.name)
        assert host is not None
        assert host.aside is not None
        assert host.aside.title == "The GPU runtime failed"
        assert "nvml error: driver not loaded" in host.aside.message
        assert not engine.client().containers(all=True), "nothing is left there"

        engine.repair_hook()
        later: list[Job] = []
        while session.snapshot().hosts[0].faults:
            # A trial needs a job.
            more = [await session.queue.submit(desk.task(SHORT, "more")) for _ in range(2)]
            await ended_well(session, more, tmp_path / "out")
            later += more
            assert len(later) < 200
        attempts = [one for job in later for one in session.job(job.id).attempts]
        assert any(one.host == broken.name and not one.at_fault for one in attempts)


@pytest.mark.fault(
    "Docker's disk fills up under a queue",
    "No job is lost",
)
async def test_a_full_disk_of_docker_loses_no_job(docker_lab: Lab, tmp_path: Path) -> None:
    full, well = docker_lab.add(), docker_lab.add()
    data = full.root / "docker" / "data"
    data.mkdir(parents=True)
    full.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(data)]).check_returncode()
    full.start_engine()
    well.start_engine()
    fill = ["sh", "-c", f"head -c 64M /dev/zero > {data}/fill; true"]
    full.run(fill).check_returncode()
    desk = Desk(docker_lab, tmp_path / "desk")
    async with desk.session() as session:
        await seen(session)
        jobs = [await session.queue.submit(desk.task(SHORT, f"job{number}")) for number in range(6)]
        await until(lambda: tried(session, jobs, full), PATIENT_S, "a try on the full disk")
        await ended_well(session, jobs, tmp_path / "out")
        causes = [one.cause for job in jobs for one in session.job(job.id).attempts if one.at_fault]
        assert all("no space left on device" in cause for cause in causes)
        full.run(["rm", f"{data}/fill"]).check_returncode()


@pytest.mark.fault(
    "A registry cannot be reached",
    "Pulls are retried; only jobs of that image wait",
)
async def test_a_registry_that_does_not_resolve_holds_back_its_image_alone(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add()
    engine = host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk")
    image = "registry.invalid:5000/team/tool:1"
    async with desk.session() as session:
        await seen(session)
        far = await session.queue.submit(
            Task("far", str(desk.script(SHORT, "far.py")), image=image)
        )
        await until(
            lambda: session.job(far.id).attempts and session.job(far.id).attempts[0].at_fault,
            PATIENT_S,
            "its first try to end",
        )
        near = await session.queue.submit(desk.task(SHORT, "near"))
        await ended_well(session, [near], tmp_path / "out")
        waiting = session.job(far.id)
        assert waiting.state in (JobState.QUEUED, JobState.LAUNCHING)
        # While it is tried again, the reason is what is done now.
        await until(
            lambda: "registry.invalid" in session.why_now(far.id).reason,
            what="its registry as the reason",
        )
        found = session.snapshot().hosts[0]
        assert found.aside is None, "other images start there"
        assert [streak.image for streak in found.faults] == [image]
        repository, _, tag = image.rpartition(":")
        engine.client().tag(PADDLE_IMAGE, repository, tag)
        await job_is(session, far, JobState.SUCCEEDED, within_s=PATIENT_S)
        await ended_well(session, [far], tmp_path / "out")
        assert not session.snapshot().hosts[0].faults
