"""The cluster beside the simulated lab: its nodes in the map, its queue, its ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.containers import ContainerSpec
from gpuconsole.core.engines.batch_job import WAITS, Batch
from gpuconsole.core.fleet import HostState
from gpuconsole.errors import RefusedError
from gpuconsole.simulated_lab.hosts import SimulatedHosts
from gpuconsole.simulated_lab.slurm import ClusterHosts, cluster_tasks

START = 1_800_000_000.0


class Desk:
    def __init__(self) -> None:
        self.time = START
        self.hosts = ClusterHosts(SimulatedHosts(2, clock=lambda: self.time), 7)

    def spec(self, name: str, devices: int = 2) -> ContainerSpec:
        command = ("python", "t.py", "--steps", "20")
        return ContainerSpec(name, "", command, batch=Batch(devices=devices))

    def held(self) -> list[int]:
        nodes = [host for host in self.hosts.snapshot().hosts if host.node]
        return [sum(bool(one.processes) for one in node.devices) for node in nodes]


def test_a_cluster_stands_beside_the_other_hosts() -> None:
    hosts = Desk().hosts.snapshot().hosts
    login, first, second = hosts[-3:]
    assert [host.cluster for host in hosts] == ["", "", "hpc", "hpc", "hpc"]
    assert (login.devices, login.node) == ((), False)
    assert [len(node.devices) for node in (first, second)] == [4, 4]
    assert first.labels["partition"] == "gpu"
    assert all(device.utilization is None for device in first.devices)
    assert all(host.state is HostState.UP for host in (login, first, second))


def test_the_picture_is_the_same_object_while_nothing_is_new() -> None:
    desk = Desk()
    first = desk.hosts.snapshot()
    assert desk.hosts.snapshot() is first
    desk.time += 2
    again = desk.hosts.snapshot()
    assert again is not first
    assert again.revision > first.revision


async def test_what_is_handed_over_waits_for_devices_and_runs() -> None:
    desk = Desk()
    engine = await desk.hosts.engine("hpc")
    for number in range(5):
        await engine.create(desk.spec(f"r{number}"))
        await engine.start(f"r{number}")
        await engine.start(f"r{number}")
    desk.time += 1.1
    desk.hosts.snapshot()
    states = {}
    for number in range(5):
        status = await engine.inspect(f"r{number}")
        assert status is not None
        states[f"r{number}"] = (status.state, status.note)
    running = [name for name, (state, _) in states.items() if state == "running"]
    waiting = [name for name, (state, _) in states.items() if state == "pending"]
    assert running == ["r0", "r1", "r2"]
    assert waiting == ["r3", "r4"]
    assert states["r3"][1].startswith(f"{WAITS}No node has free")
    assert states["r4"][1].startswith(f"{WAITS}Other jobs come before it")
    for _ in range(200):
        desk.time += 1.1
        desk.hosts.snapshot()
    last = await engine.inspect("r4")
    assert last is not None
    assert (last.state, last.exit_code) == ("exited", 0)


async def test_a_waiting_run_can_be_cancelled() -> None:
    desk = Desk()
    engine = await desk.hosts.engine("hpc")
    await engine.create(desk.spec("wide", devices=8))
    await engine.start("wide")
    desk.time += 1.1
    desk.hosts.snapshot()
    status = await engine.inspect("wide")
    assert status is not None
    assert status.state == "pending"
    await engine.stop("wide", 10.0)
    ended = await engine.inspect("wide")
    assert ended is not None
    assert ended.state == "exited"


async def test_nobody_but_slurm_acts_on_a_node() -> None:
    desk = Desk()
    with pytest.raises(RefusedError, match="node of hpc"):
        await desk.hosts.engine("hpc/n1")


def test_the_demo_hands_over_more_than_there_are_devices() -> None:
    tasks = cluster_tasks()
    assert sum(task.devices or 1 for task in tasks) >= 8
    assert all(task.labels["slurm"] == "hpc" for task in tasks)
    assert replace(tasks[0]).name == "on-slurm-1"
