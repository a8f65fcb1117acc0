"""The simulated engine keeps the promises of the real one: leases, lifecycle, logs, results."""

import dataclasses
import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from gpuconsole.core.containers import ContainerSpec, Engine, Lease
from gpuconsole.core.fleet import Device
from gpuconsole.errors import EngineError, ImageError, LeaseTakenError
from gpuconsole.preflight.memory.backends import terms
from gpuconsole.remote.injected import REPORTS
from gpuconsole.session.dispatch.attempt.observation import read_reports
from gpuconsole.simulated_lab import SimulatedHosts

START = 1_700_000_000.0


class Lab:
    """A lab with a clock that a test turns."""

    def __init__(self) -> None:
        self.time = START
        self.hosts = SimulatedHosts(clock=lambda: self.time)

    async def engine(self) -> Engine:
        return await self.hosts.engine("a100-01")

    def device(self, index: int) -> Device:
        host = self.hosts.snapshot().host("a100-01")
        assert host is not None
        return host.devices[index]


@pytest.fixture
def lab() -> Lab:
    return Lab()


def spec(lab: Lab, *arguments: str, need: str = "4000", device: int = 3) -> ContainerSpec:
    return ContainerSpec(
        name="gpuconsole-ada-1-1-n",
        image="paddle:3",
        command=("python", "train.py", *arguments),
        env={"GPUCONSOLE_ESTIMATE_MIB": need},
        labels={
            "gpuconsole.job": "ada-1",
            "gpuconsole.attempt": "ada-1-1",
            "gpuconsole.user": "ada",
            "gpuconsole.journal": "mine",
        },
        device_uuids=(lab.device(device).uuid,),
    )


def bundle(folder: Path, source: str, name: str = "train.py") -> Path:
    path = folder / "code.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(source.encode())
        archive.addfile(member, io.BytesIO(source.encode()))
    return path


async def log_of(engine: Engine, container: str) -> str:
    return b"".join([chunk async for chunk in engine.logs(container, follow=False)]).decode()


def lease(lab: Lab, device: int, job: str = "ada-1") -> Lease:
    return Lease(lab.device(device).uuid, job, f"{job}-1", job[:3], "mine", lab.time)


async def test_a_job_runs_logs_every_step_and_ends_well(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab, "--steps", "12"))
    assert await engine.create(spec(lab, "--steps", "12")) == container
    await engine.start(container)
    lab.time += 4.0
    status = await engine.inspect(container)
    assert status is not None
    assert status.state == "running"
    halfway = await log_of(engine, container)
    lab.time += 60.0
    ended = await engine.inspect("gpuconsole-ada-1-1-n")
    assert ended is not None
    assert (ended.state, ended.exit_code) == ("exited", 0)
    assert ended.started_at is not None
    assert ended.ended_at is not None
    assert START <= ended.started_at < ended.ended_at < lab.time
    whole = await log_of(engine, container)
    assert whole.startswith(halfway)
    steps = re.findall(r"^step=(\d+)/12 loss=[\d.]+ acc=[\d.]+ \d+ms/step$", whole, re.MULTILINE)
    assert [int(step) for step in steps] == list(range(1, 13))


async def test_following_a_log_ends_with_the_container(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab, "--steps=8"))
    await engine.start(container)
    lines: list[str] = []
    lab.time += 3.0
    async for chunk in engine.logs(container, follow=True):
        lines += chunk.decode().splitlines()
        lab.time += 2.0
    assert lines == (await log_of(engine, container)).splitlines()
    assert lines[-1] == "done; results written"


async def test_a_running_container_shows_in_the_samples_and_leaves_them(lab: Lab) -> None:
    engine = await lab.engine()
    idle = lab.device(3)
    container = await engine.create(spec(lab, "--steps", "100", need="10000"))
    await engine.start(container)
    lab.time += 15.0
    busy = lab.device(3)
    assert [(p.container_id, p.user) for p in busy.processes] == [(container, "ada")]
    assert 8000 <= (busy.processes[0].memory_mib or 0) <= 10000
    assert (busy.utilization or 0) > 60
    assert (busy.temperature_c or 0) > (idle.temperature_c or 0)
    lab.time += 100.0
    assert lab.device(3).processes == ()


async def test_a_job_that_needs_more_than_its_card_dies_with_paddles_words(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab, need="60000"))
    await engine.start(container)
    lab.time += 30.0
    status = await engine.inspect(container)
    assert status is not None
    assert (status.exit_code, status.oom_killed) == (1, False)
    assert re.search(
        r"ResourceExhaustedError: \n\nOut of memory error on GPU 0\. Cannot allocate "
        r"\d+\.\d{6}[GM]B memory on GPU 0, \d+\.\d{6}[GM]B memory has been allocated and "
        r"available memory is only \d+\.\d{6}[GM]B\.",
        await log_of(engine, container),
    )
    held = lab.device(3).memory_used_mib
    assert held is not None
    assert held < 100


async def test_what_others_hold_counts_against_a_card(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab, need="30000", device=0))
    await engine.start(container)
    lab.time += 30.0
    status = await engine.inspect(container)
    assert status is not None
    assert status.exit_code == 1


async def test_a_job_may_need_more_than_its_estimate_says(lab: Lab) -> None:
    engine = await lab.engine()
    wrong = spec(lab, need="1000")
    wrong = dataclasses.replace(wrong, env={**wrong.env, "GPUCONSOLE_SIMULATED_NEED_MIB": "50000"})
    container = await engine.create(wrong)
    await engine.start(container)
    lab.time += 30.0
    assert "Out of memory error" in await log_of(engine, container)


async def test_a_running_job_reports_its_steps_and_what_it_holds(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab, "--steps", "40"))
    assert await engine.read_files(container, REPORTS) == {}
    await engine.start(container)
    assert await engine.read_files("gpuconsole-ada-1-1-n", REPORTS) == {}
    lab.time += 8.0
    early = read_reports(await engine.read_files("gpuconsole-ada-1-1-n", REPORTS))
    assert 3 <= early.steps < 40
    # The device shows the context too.
    assert early.peak_mib == pytest.approx((4000 - 900) * 0.82)
    lab.time += 600.0
    assert read_reports(await engine.read_files(container, REPORTS)).steps == 40


@pytest.mark.parametrize("reserved", [17.4, 20_000.0])
async def test_what_it_reports_is_near_what_was_predicted_of_the_same(
    lab: Lab, reserved: float
) -> None:
    """Most of a small job's bound is the context, of which the report says nothing."""
    own, margin = terms("gpu"), 1.25
    bound = own.context_mib + own.context_spread_mib + reserved * margin
    engine = await lab.engine()
    container = await engine.create(spec(lab, "--steps", "40", need=f"{bound}"))
    await engine.start(container)
    lab.time += 8.0
    reported = read_reports(await engine.read_files(container, REPORTS)).peak_mib
    assert reported == pytest.approx(reserved, rel=0.05)


async def test_a_stopped_container_says_so(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab))
    await engine.start(container)
    lab.time += 5.0
    await engine.stop(container, 10.0)
    lab.time += 50.0
    await engine.stop(container, 10.0)
    status = await engine.inspect(container)
    assert status is not None
    assert (status.state, status.exit_code) == ("exited", 143)
    assert status.ended_at == pytest.approx(START + 5.0)


async def test_devices_are_claimed_all_or_none(lab: Lab) -> None:
    engine = await lab.engine()
    await engine.claim([lease(lab, 4)])
    await engine.claim([lease(lab, 4)])
    with pytest.raises(LeaseTakenError) as caught:
        await engine.claim([lease(lab, 4, "bob-2"), lease(lab, 5, "bob-2")])
    assert caught.value.uuid == lab.device(4).uuid
    assert lab.device(5).uuid not in {held.uuid for held in await engine.leases()}
    await engine.release("bob-2-1", [lab.device(4).uuid])
    assert lab.device(4).uuid in {held.uuid for held in await engine.leases()}
    await engine.release("ada-1-1", [lab.device(4).uuid])
    await engine.claim([lease(lab, 4, "bob-2")])


async def test_another_users_console_holds_a_device_for_a_while(lab: Lab) -> None:
    engine = await lab.engine()
    assert [held.user for held in await engine.leases()] == ["li"]
    assert lab.device(2).processes[0].user == "li"
    lab.time += 3600.0
    assert await engine.leases() == ()
    assert lab.device(2).processes == ()


async def test_images_are_pulled_once_and_the_invalid_registry_has_none() -> None:
    now = START
    hosts = SimulatedHosts(clock=lambda: now, speed=1000.0)
    engine = await hosts.engine("a100-01")
    said: list[str] = []
    await engine.ensure_image("paddle:3", said.append)
    assert said[0] == "pulling paddle:3 0 %"
    again: list[str] = []
    await engine.ensure_image("paddle:3", again.append)
    assert again == []
    with pytest.raises(ImageError, match="a100-01"):
        await engine.ensure_image("lab.invalid/paddle:3", said.append)


@pytest.mark.parametrize(
    ("source", "name", "word"),
    [("def (", "train.py", "SyntaxError"), ("pass", "other.py", "can't open file")],
)
async def test_a_script_that_python_cannot_read_fails(
    lab: Lab, tmp_path: Path, source: str, name: str, word: str
) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab))
    await engine.put(container, bundle(tmp_path, source, name), "/workspace")
    await engine.start(container)
    lab.time += 10.0
    status = await engine.inspect(container)
    assert status is not None
    assert status.exit_code == 1
    assert word in await log_of(engine, container)


async def test_results_come_back_as_a_tar_marked_simulated(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab, "--steps", "5"))
    await engine.start(container)
    lab.time += 30.0
    packed = b"".join([chunk async for chunk in engine.results("ada-1")])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        content = archive.extractfile("./summary.json")
        assert content is not None
        summary = json.load(content)
    assert summary["simulated"] is True
    assert (summary["steps"], summary["exit_code"]) == (5, 0)
    with pytest.raises(EngineError, match="nobody-9"):
        [chunk async for chunk in engine.results("nobody-9")]


async def test_prune_removes_what_ended_and_keeps_what_runs(lab: Lab) -> None:
    engine = await lab.engine()
    container = await engine.create(spec(lab, "--steps", "5"))
    await engine.claim([lease(lab, 3)])
    await engine.start(container)
    lab.time += 3.0
    assert (await engine.prune(frozenset(), "mine")).containers == 0
    lab.time += 30.0
    assert [status.id for status in await engine.own("mine")] == [container]
    assert (await engine.prune(frozenset({"ada-1"}), "mine")).containers == 0
    assert (await engine.prune(frozenset(), "theirs")).containers == 0
    assert (await engine.prune(frozenset(), "mine")).containers == 1
    assert await engine.inspect(container) is None
