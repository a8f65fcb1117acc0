"""The demo's jobs, driven by the real queue and placement: every kind of end is seen."""

import asyncio
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.lab.jobs import demo_tasks, submit_demo_jobs
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.session import Session

DEADLINE_S = 30.0


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def states(session: Session) -> dict[str, JobState]:
    return {job.task.name: job.state for job in session.jobs()}


def held_by(session: Session, name: str) -> float:
    """Return the memory that a job's container holds, as the frames tell it, in MiB."""
    attempt = session.job(name).attempt
    return sum(
        process.memory_mib or 0.0
        for host in session.snapshot().hosts
        for device in host.devices
        for process in device.processes
        if attempt is not None and process.container_id == attempt.container_id
    )


async def test_the_demo_shows_running_waiting_finished_and_out_of_memory(tmp_path: Path) -> None:
    lab = DemoOptions(speed=20.0)
    async with open_session(None, tmp_path / "state", demo=lab) as session:
        jobs = await submit_demo_jobs(session)
        assert len(jobs) == len(demo_tasks())
        wanted = {
            "smoke-test": JobState.SUCCEEDED,
            "runs-out": JobState.OOM,
            "encoder-base": JobState.RUNNING,
            "eight-cards": JobState.QUEUED,
            "too-big": JobState.QUEUED,
        }
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        # More jobs of the sweep than devices: the last one is told when it should start.
        last = session.job("sweep[lr=0.001]").id
        while last not in await session.foresight.renew():
            assert loop.time() < deadline, states(session)
            await asyncio.sleep(0.05)
        while any(states(session)[name] is not state for name, state in wanted.items()):
            assert loop.time() < deadline, states(session)
            await asyncio.sleep(0.05)
        assert "Out of memory" in session.job("runs-out").cause
        assert "8" in session.why("eight-cards").reason
        assert session.why("too-big").options
        while not (held := held_by(session, "encoder-base")):
            assert loop.time() < deadline, "the container never showed in a frame"
            await asyncio.sleep(0.05)
        estimate = session.job("encoder-base").estimate_mib
        assert estimate is not None
        assert 0 < held <= estimate
