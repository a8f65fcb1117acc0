"""The demo's jobs, driven by the real queue and placement: every kind of end is seen."""

from pathlib import Path

import aiohttp
import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.session import Session
from gpuconsole.simulated_lab import jobs as demo_jobs
from gpuconsole.simulated_lab.container_script import TFLOP_PER_SAMPLE_ENV
from gpuconsole.simulated_lab.jobs import RIVALS, demo_tasks, rival_tasks, submit_demo_jobs
from tests.waiting import until


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    # Steps take their time however fast the lab's time is.
    monkeypatch.setattr(demo_jobs, "SWEEP_STEPS", 60)


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
        jobs = await submit_demo_jobs(session.queue)
        # Two replicas and a session come on top.
        assert len(jobs) == len(demo_tasks()) + 3
        wanted = {
            "smoke-test": JobState.SUCCEEDED,
            "runs-out": JobState.OOM,
            "encoder-base": JobState.RUNNING,
            "eight-cards": JobState.QUEUED,
            "too-big": JobState.QUEUED,
        }
        # More jobs of the sweep than devices: the last one shows when it should start.
        last = session.job("sweep[lr=0.001]").id

        async def foreseen() -> bool:
            return last in await session.foresight.renew()

        await until(foreseen)
        await until(lambda: wanted.items() <= states(session).items())
        assert "Out of memory" in session.job("runs-out").cause
        assert "8" in session.why_now("eight-cards").reason
        assert session.why_now("too-big").options
        held = await until(lambda: held_by(session, "encoder-base"), "the container in a frame")
        estimate = session.job("encoder-base").estimate_mib
        assert estimate is not None
        assert 0 < held <= estimate


async def test_the_demo_has_a_service_on_two_hosts_a_session_and_a_sweep_to_compare(
    tmp_path: Path,
) -> None:
    async with open_session(None, tmp_path / "state", demo=DemoOptions(speed=20.0)) as session:
        await submit_demo_jobs(session.queue)
        replicas = [job for job in session.jobs() if job.task.sweep == "digits"]
        assert len(replicas) == 2
        await until(lambda: [session.job(job.id).state_word for job in replicas] == ["healthy"] * 2)
        attempts = [session.job(job.id).attempt for job in replicas]
        assert len({attempt.host for attempt in attempts if attempt is not None}) == 2
        made = await session.forward("digits", 8040)
        async with aiohttp.ClientSession() as http, http.get(made.url) as page:
            assert "in the simulated lab" in await page.text()

        shell = session.job("shell")
        await until(lambda: session.job(shell.id).state is JobState.RUNNING)
        terminal = await session.attach(shell.id)
        said = await terminal.read()
        assert said is not None
        assert b"(simulated) $" in said.data
        await terminal.close()

        def ended() -> bool:
            sweep = [job for job in session.jobs() if job.task.sweep == "sweep"]
            return all(job.state is JobState.SUCCEEDED for job in sweep)

        # Each rate has a curve of its own: one in the middle is best.
        await until(ended, "the whole sweep")
        last = {
            rate: (await session.curves(f"sweep[lr={rate}]")).curves["loss"].last
            for rate in ("0.3", "0.01", "0.001")
        }
        losses = {rate: one.value for rate, one in last.items() if one is not None}
        assert losses["0.01"] < 0.4
        assert losses["0.01"] < losses["0.001"] < losses["0.3"]
        # A service is never done.
        assert all(session.job(job.id).state_word == "healthy" for job in replicas)
        assert not any(session.job(job.id).health.restarts for job in replicas)


def begun(session: Session, name: str) -> Job | None:
    """Return a job once it has started; a short one has ended before others are submitted."""
    job = session.job(name)
    return job if job.state in (JobState.RUNNING, JobState.SUCCEEDED) else None


def step_line(session: Session, name: str) -> str:
    """Return the last line of a job's log that tells a step, as far as it is followed."""
    path = session.log_path(name)
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line for line in reversed(lines) if line.endswith("ms/step")), "")


async def test_the_log_of_a_step_agrees_with_what_preflight_estimates(tmp_path: Path) -> None:
    """However fast the lab's time is."""
    lab = DemoOptions(speed=4.0)
    async with open_session(None, tmp_path / "state", demo=lab) as session:
        await submit_demo_jobs(session.queue)
        batches = {"smoke-test": 8, "encoder-base": 32, "encoder-large": 16, "on-ascend": 32}
        for name, per_sample in batches.items():
            job = await until(lambda name=name: begun(session, name), name)
            estimate, attempt = job.estimate, job.attempt
            assert estimate is not None
            assert attempt is not None
            said = float(job.task.env[TFLOP_PER_SAMPLE_ENV]) * per_sample * 1e12
            assert said == pytest.approx(estimate["flops_per_step"], rel=0.02)
            host = session.snapshot().host(attempt.host)
            assert host is not None
            model = next(d.model for d in host.devices if d.uuid in attempt.device_uuids)
            foreseen = next(
                verdict["step_s"] for verdict in estimate["verdicts"] if verdict["device"] == model
            )
            middle = (foreseen[0] * foreseen[1]) ** 0.5
            line = await until(lambda name=name: step_line(session, name), "a step in the log")
            in_log = int(line.rpartition(" ")[2].removesuffix("ms/step")) / 1e3
            assert in_log == pytest.approx(middle, rel=0.1), line


def test_every_job_of_the_demo_that_trains_says_what_a_step_computes() -> None:
    """Otherwise the log would tell another time of a step than preflight and placement."""
    fits = [task for task in (*demo_tasks(), *rival_tasks("chen")) if task.name != "too-big"]
    assert [task.name for task in fits if TFLOP_PER_SAMPLE_ENV not in task.env] == []


async def test_three_users_compete_for_the_same_devices_in_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    # Long enough for the rivals to come while the first jobs run.
    monkeypatch.setattr(demo_jobs, "SWEEP_STEPS", 400)
    async with open_session(None, state, demo=DemoOptions(speed=20.0)) as session:
        await submit_demo_jobs(session.queue)
        for rival in RIVALS:
            other = DemoOptions(speed=20.0, user=rival)
            async with open_session(None, state, demo=other, dispatch=False) as theirs:
                await submit_demo_jobs(theirs.queue, rival)

        def sweeps(*wanted: JobState) -> list[str]:
            jobs = (job for job in session.jobs() if job.task.sweep)
            return [job.user for job in jobs if not wanted or job.state in wanted]

        assert {"chen", "wang", session.user} == set(sweeps())

        # Who came first has most of the jobs, and does not go first with all of them.
        def turns() -> list[str]:
            started = set(sweeps(JobState.RUNNING, JobState.SUCCEEDED))
            return sweeps(JobState.QUEUED) if {"chen", "wang"} <= started else []

        assert session.user in await until(turns)
        assert JobState.FAILED not in {job.state for job in session.jobs()}
