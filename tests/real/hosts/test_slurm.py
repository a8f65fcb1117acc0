"""A cluster behind a login node: a real Slurm, whose GPUs alone are stood in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from gpuconsole.core.containers import ContainerSpec
from gpuconsole.core.engines.batch_job import Batch
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.sweeps import Axis
from gpuconsole.remote.check import check
from gpuconsole.remote.inventory import load_inventory
from gpuconsole.session.factory import open_session
from gpuconsole.session.session import Session
from tests.real.rig import hosts, nvml, slurm
from tests.real.rig.hosts import UID, USER
from tests.real.rig.sessions import job_is, until

HELLO = """
import os, sys

print("devices", os.environ.get("CUDA_VISIBLE_DEVICES"), "on", os.environ["SLURMD_NODENAME"])
print("arguments", sys.argv[1:])
with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "done"), "w") as file:
    file.write("yes")
"""
HOLD = """
import os, time

print("begun", flush=True)
while not os.path.exists(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "go")):
    time.sleep(0.05)
print("let go", flush=True)
"""
BREAK = """
print("before")
raise ValueError("the learning rate is no number")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.LabSlurm]:
    reason = hosts.why_not() or nvml.why_not() or slurm.why_not()
    if reason:
        pytest.skip(reason)
    with hosts.lab() as lab:
        host = lab.add(devices=0, driver=False)
        yield slurm.with_slurm(host)


class Desk:
    """An inventory of the cluster, scripts, and a state folder."""

    def __init__(self, cluster: slurm.LabSlurm, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.state = folder / "state"
        self.project = folder / "project"
        self.project.mkdir()
        host = cluster.host
        known = folder / "known_hosts"
        known.write_text(host.host_key_line())
        self.inventory = folder / "inventory.yaml"
        self.inventory.write_text(
            f"version: 1\ndefaults: {{user: {USER}, identity_file: {host.key},"
            f" known_hosts: {known}}}\nhosts:\n  - name: hpc\n    address: {host.address}\n"
            "    engine: slurm\n    poll_interval: 0.5\n"
            f"    slurm: {{conf: {cluster.conf}, devices: {{a100: A100-SXM4-40GB}}}}\n"
        )

    def task(self, text: str, name: str = "train", **fields: object) -> Task:
        """Write a script and return the task that runs it."""
        path = self.project / f"{name}.py"
        path.write_text(text)
        return replace(Task(name, str(path), memory_limit_mib=200), **fields)  # type: ignore[arg-type]

    def let_go(self, job: Job) -> None:
        """Tell a holding script to end."""
        results = f"/home/{USER}/.local/state/gpuconsole/slurm/results/{job.id}"
        self.cluster.host.run(["touch", f"{results}/go"]).check_returncode()

    def runs(self) -> str:
        """List the folders of runs."""
        folder = f"/home/{USER}/.local/state/gpuconsole/slurm/runs"
        return self.cluster.host.run(["ls", folder]).stdout.decode()

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Open a session and wait for the cluster's nodes."""
        async with open_session(self.inventory, self.state) as session:
            await until(lambda: len(session.snapshot().hosts) == 3, what="the nodes")
            yield session


@pytest.fixture
def desk(cluster: slurm.LabSlurm, tmp_path: Path) -> Iterator[Desk]:
    yield Desk(cluster, tmp_path)
    cluster.say("scancel", "-u", USER)


async def submitted(session: Session, task: Task) -> Job:
    return await session.queue.submit(task, force=True)


def _file(desk: Desk, content: str) -> IO[bytes]:
    path = desk.folder / "content"
    path.write_text(content)
    return path.open("rb")


async def lines(session: Session, job: Job) -> list[str]:
    return [line async for line in session.logs(job.id, follow=True)]


async def test_a_job_runs_on_the_cluster_and_its_end_comes_back(desk: Desk) -> None:
    async with desk.session() as session:
        job = await submitted(session, desk.task(HELLO, args=("a b", "$HOME;'\"")))
        assert job.task.labels == {"slurm": "hpc"}
        ended = await job_is(session, job, JobState.SUCCEEDED)
        assert ended.attempt is not None
        assert (ended.attempt.host, ended.attempt.exit_code) == ("hpc", 0)
        first, second = await lines(session, job)
        assert first.startswith("devices ")
        assert second == "arguments ['a b', '$HOME;\\'\"']"
        fetched = (await session.fetch_results(job.id, desk.folder / "fetched")).folder
        assert (fetched / "done").read_text() == "yes"
        await until(lambda: job.id not in desk.runs(), what="the run removed")


async def test_a_script_that_fails_is_failed_with_its_own_words(desk: Desk) -> None:
    async with desk.session() as session:
        job = await submitted(session, desk.task(BREAK))
        ended = await job_is(session, job, JobState.FAILED)
        assert ended.attempt is not None
        assert ended.attempt.exit_code == 1
        assert "the learning rate is no number" in ended.cause


async def test_a_cancelled_job_is_told_and_gone(desk: Desk) -> None:
    script = """
import signal, sys, time

def stop(*_):
    print("saved", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
print("begun", flush=True)
time.sleep(60)
"""
    async with desk.session() as session:
        job = await submitted(session, desk.task(script))
        await job_is(session, job, JobState.RUNNING)
        await until(lambda: session.log_path(job.id).exists(), what="its log")
        await until(lambda: "begun" in session.log_path(job.id).read_text(), what="its begin")
        assert "Slurm runs it as job" in session.why_now(job.id).reason
        await session.queue.cancel(job.id)
        assert session.job(job.id).state is JobState.CANCELLED
        said = await lines(session, job)
        # Slurm itself says between the two that it was cancelled.
        assert (said[0], said[-1]) == ("begun", "saved")


async def test_a_waiting_job_says_why_in_plain_words_and_can_be_cancelled(desk: Desk) -> None:
    async with desk.session() as session:
        holders = [
            await submitted(session, desk.task(HOLD, f"hold{n}", devices=1, backend="gpu"))
            for n in range(2)
        ]
        wide = desk.task(HELLO, "wide", devices=5)
        held = await submitted(session, replace(wide, labels={"slurm": "hpc", "constraint": "x"}))
        refused = await job_is(session, held, JobState.FAILED)
        assert "constraint" in refused.cause.lower() or "feature" in refused.cause.lower()
        for job in holders:
            await job_is(session, job, JobState.RUNNING)
        desk.cluster.say("scontrol", "update", "partitionname=debug", "state=down")
        try:
            labels = {"slurm": "hpc", "partition": "debug"}
            waiting = await submitted(session, desk.task(HELLO, "waits", labels=labels))
            await until(
                lambda: "PartitionDown" in session.why_now(waiting.id).reason, what="Slurm's reason"
            )
            why = session.why_now(waiting.id)
            assert why.state == "launching"
            assert "Its partition takes no jobs now" in why.reason
            assert "Slurm decides" in why.reason
            await session.queue.cancel(waiting.id)
            assert session.job(waiting.id).state is JobState.CANCELLED
        finally:
            desk.cluster.say("scontrol", "update", "partitionname=debug", "state=up")
        for job in holders:
            desk.let_go(job)
            await job_is(session, job, JobState.SUCCEEDED)


async def test_nodes_stand_in_the_map_with_their_state_and_who_has_what(desk: Desk) -> None:
    async with desk.session() as session:
        login, first, second = session.snapshot().hosts
        assert (login.name, first.name, second.name) == ("hpc", "hpc/n1", "hpc/n2")
        assert [device.model for device in first.devices] == ["A100-SXM4-40GB"] * 4
        assert first.devices[0].memory_total_mib == 40 * 1024
        assert second.labels["partition"] == "gpu,debug"
        # Another user's job may be called what it likes.
        forged = "x JobState=RUNNING Nodes=n2 CPU_IDs=0 Mem=1 GRES=gpu:a100:4(IDX:0-3)\nJobId=7 y"
        desk.cluster.say("sbatch", "-J", forged, "-o", "/dev/null", "--wrap", "sleep 30")
        labels = {"slurm": "hpc", "partition": "debug"}
        job = await submitted(session, desk.task(HOLD, labels=labels))
        await job_is(session, job, JobState.RUNNING)

        def held() -> list[str]:
            node = session.snapshot().host("hpc/n2")
            assert node is not None
            return [one.user for device in node.devices for one in device.processes]

        await until(lambda: held() == [USER], what="who holds a device")
        desk.cluster.say("scontrol", "update", "nodename=n1", "state=drain", "reason=fan | x=y")

        def drained() -> str:
            node = session.snapshot().host("hpc/n1")
            return node.drained if node is not None else ""

        await until(lambda: drained() == "Slurm drains it: fan | x=y", what="the drain")
        desk.cluster.say("scontrol", "update", "nodename=n1", "state=resume")
        desk.let_go(job)
        await job_is(session, job, JobState.SUCCEEDED)
        await until(lambda: not held(), what="the device given back")


async def test_what_comes_after_a_job_is_slurms_own_dependency(desk: Desk) -> None:
    async with desk.session() as session:
        first = await submitted(session, desk.task(HOLD, "first"))
        second = await submitted(session, desk.task(HELLO, "second", after=(first.id,)))
        await job_is(session, first, JobState.RUNNING)
        await until(lambda: "Slurm says Dependency" in session.why_now(second.id).reason)
        assert "afterok" in desk.cluster.say("squeue", "-h", "-u", USER, "-o", "%E")
        desk.let_go(first)
        await job_is(session, second, JobState.SUCCEEDED)
        await job_is(session, first, JobState.SUCCEEDED)


async def test_a_sweep_is_one_array(desk: Desk) -> None:
    async with desk.session() as session:
        task = desk.task(HELLO, "swept")
        jobs = await session.queue.sweep(task, (Axis("seed", ("1", "2", "3")),), force=True)
        for job in jobs:
            await job_is(session, job, JobState.SUCCEEDED)
        said = [(await lines(session, job))[1] for job in jobs]
        assert said == [f"arguments ['--seed', '{seed}']" for seed in (1, 2, 3)]
        names = desk.cluster.say("squeue", "-h", "-t", "all", "-u", USER, "-o", "%F %j")
        arrays = [line.split() for line in names.splitlines() if "-array-" in line]
        assert len(arrays) == 3
        assert len({number for number, _ in arrays}) == 1


async def test_a_run_is_handed_over_once_whoever_tries(desk: Desk) -> None:
    name = "gpuconsole-once-1-abc"
    spec = ContainerSpec(name, "", ("sleep", "60"), batch=Batch(devices=0, memory_mib=50))

    def numbers() -> list[str]:
        return desk.cluster.say("squeue", "-h", "-t", "all", "-o", "%i", "--name", name).split()

    async with desk.session() as session:
        engine = await session.hosts.engine("hpc")
        await engine.prepare("once")
        await engine.create(spec)
        await asyncio.gather(*(engine.start(name) for _ in range(4)))
        (number,) = numbers()
        # As if the console that handed it over had died before it could note the number, and the
        # run had begun.
        folder = f"/home/{USER}/.local/state/gpuconsole/slurm/runs/{name}"
        begun = ["test", "-e", f"{folder}/began"]
        await until(lambda: desk.cluster.host.run(begun).returncode == 0, what="it has begun")
        desk.cluster.host.run(["rm", f"{folder}/id"]).check_returncode()
        await engine.start(name)
        assert numbers() == [number]
        await engine.stop(name, 10.0)
        status = await engine.inspect(name)
        assert status is not None
        assert status.state == "exited"
        await engine.remove(name)
        assert await engine.inspect(name) is None


async def test_more_jobs_run_than_a_connection_has_sessions(desk: Desk) -> None:
    async with desk.session() as session:
        task = desk.task(HOLD, backend="cpu", memory_limit_mib=50)
        jobs = [await submitted(session, replace(task, name=f"t{n}")) for n in range(14)]
        for job in jobs:
            await job_is(session, job, JobState.RUNNING)
        for job in jobs:
            await until(lambda job=job: session.log_path(job.id).exists(), what="its log")
        for job in jobs:
            desk.let_go(job)
        for job in jobs:
            await job_is(session, job, JobState.SUCCEEDED)
            assert await lines(session, job) == ["begun", "let go"]


async def test_a_login_node_is_checked(desk: Desk) -> None:
    (report,) = await check(load_inventory(desk.inventory))
    assert report.ok, report.findings
    said = {finding.step: finding.message for finding in report.findings}
    assert said["slurm"].startswith("slurm")
    assert said["nodes"] == "2 nodes with 8 x a100"


async def test_a_rendered_sweep_runs_when_a_person_hands_it_over(desk: Desk) -> None:
    async with desk.session() as session:
        task = desk.task("import sys; print('seed', sys.argv[2])", "byhand")
        await session.queue.sweep(task, (Axis("seed", ("5", "6")),), force=True, hold=True)
        text = session.render("byhand", "slurm")
    home = f"/home/{USER}/byhand"
    host = desk.cluster.host
    host.run(["install", "-d", "-o", USER, home]).check_returncode()
    for name, content in (("batch.sh", text), ("byhand.py", Path(task.script).read_text())):
        host.run(["sh", "-c", f"cat >{home}/{name}"], stdin=_file(desk, content)).check_returncode()
    words = f"cd {home} && SLURM_CONF={desk.cluster.conf} sbatch --wait batch.sh && cat *.log"
    done = host.run(
        ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "sh", "-c", words]
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.decode().splitlines()[-2:]) == ["seed 5", "seed 6"]


async def test_a_gang_meets_on_two_nodes(desk: Desk) -> None:
    launcher = desk.project / "paddle" / "distributed" / "launch.py"
    launcher.parent.mkdir(parents=True)
    for folder in (launcher.parent, launcher.parent.parent):
        (folder / "__init__.py").write_text("")
    # Paddle is not on the nodes: what its launcher would be told is written down.
    launcher.write_text(
        "import os, sys\n"
        "words = ('PADDLE_MASTER', 'PADDLE_NNODES', 'PADDLE_RANK', 'POD_IP')\n"
        "print('launched', [os.environ[word] for word in words], sys.argv[1:])\n"
    )
    async with desk.session() as session:
        job = await submitted(session, desk.task(HELLO, "gang", devices=4, hosts=2, args=("x",)))
        await job_is(session, job, JobState.SUCCEEDED)
        said = sorted(await lines(session, job))
        assert len(said) == 2
        assert all("'gang.py', 'x'" in line for line in said)
        assert ["'2', '0'" in said[0], "'2', '1'" in said[1]] == [True, True]
        masters = {line.split("'")[1] for line in said}
        assert len(masters) == 1
        assert masters.pop().startswith("127.0.0.1:")


async def test_jobs_of_a_controller_that_is_away_are_unknown_and_come_back(desk: Desk) -> None:
    async with desk.session() as session:
        job = await submitted(session, desk.task(HOLD))
        await job_is(session, job, JobState.RUNNING)
        desk.cluster.stop_controller()
        await job_is(session, job, JobState.UNKNOWN)
        login = session.snapshot().host("hpc")
        assert login is not None
        assert login.state is HostState.DOWN
        assert "Slurm does not answer" in login.error
        desk.let_go(job)
        desk.cluster.start_controller()
        await job_is(session, job, JobState.SUCCEEDED)
        assert len(session.job(job.id).attempts) == 1


async def test_an_end_that_slurm_has_forgotten_is_found_by_the_next_console(desk: Desk) -> None:
    async with desk.session() as session:
        job = await submitted(session, desk.task(HOLD))
        await job_is(session, job, JobState.RUNNING)
    desk.let_go(job)
    await until(lambda: not desk.cluster.say("squeue", "-h", "-u", USER), what="its end")
    desk.cluster.stop_controller()
    desk.cluster.start_controller(forgetful=True)
    async with desk.session() as session:
        await job_is(session, job, JobState.SUCCEEDED)
        assert (await lines(session, job))[-1] == "let go"
        assert len(session.job(job.id).attempts) == 1


async def test_secrets_reach_the_script_and_are_not_left_on_the_cluster(desk: Desk) -> None:
    value = "hf_0123456789'$HOME\"abcdef"
    script = 'import os\nprint(os.environ["HF_TOKEN"] == os.environ["LIKE"])\n' + HOLD
    env = {"LIKE": "".join(reversed(value))}
    script = script.replace('os.environ["LIKE"]', 'os.environ["LIKE"][::-1]')
    task = desk.task(script, secrets={"HF_TOKEN": value}, env=env)
    async with desk.session() as session:
        alone = await submitted(session, task)
        swept = await session.queue.sweep(task, (Axis("seed", ("1", "2")),), force=True)
        for job in (alone, *swept):
            await job_is(session, job, JobState.RUNNING)
            await until(lambda job=job: session.log_path(job.id).exists(), what="its log")
            await until(lambda job=job: "begun" in session.log_path(job.id).read_text(), what="it")
        folder = f"/home/{USER}/.local/state/gpuconsole/slurm"
        found = desk.cluster.host.run(["grep", "-rl", "hf_0123456789", folder]).stdout
        assert found == b"", "no file of the cluster has the value once the job has begun"
        for job in (alone, *swept):
            desk.let_go(job)
            await job_is(session, job, JobState.SUCCEEDED)
            assert (await lines(session, job))[0] == "True"
