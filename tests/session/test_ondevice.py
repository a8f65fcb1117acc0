"""A measurement on a device: leased meanwhile, without network, and nothing is left of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.errors import LeaseTakenError
from gpuconsole.session.logcopies import LogCopies
from gpuconsole.session.measuring import NotHereError
from gpuconsole.session.ondevice import JOB_PREFIX, measure_on_device
from gpuconsole.session.sweep import sweep
from tests.session.conftest import Desk, Lab

TASK = Task("train", "/p/train.py", mounts=(Mount("/data", "/data", read_only=False),))
DOCUMENT = {"mode": "device", "runs": []}


@pytest.fixture
def desk(lab: Lab) -> Desk:
    return lab.desk()


async def measured(lab: Lab, desk: Desk, folder: Path) -> bytes:
    host = desk.hosts.snapshot().hosts[0]
    bundle = folder / "project.tar.gz"
    bundle.write_bytes(b"code")
    return await measure_on_device(
        desk.bench, TASK, host, "paddle", bundle, {"mode": "device"}, lambda share, stage: None
    )


async def test_the_device_is_leased_meanwhile_and_given_back(
    lab: Lab, desk: Desk, tmp_path: Path
) -> None:
    work = asyncio.ensure_future(measured(lab, desk, tmp_path))
    await lab.clock.until(lambda: lab.docker.running)
    (lease,) = lab.docker.leases.values()
    assert lease.job.startswith(JOB_PREFIX)
    spec = lab.docker.only().spec
    assert (spec.network, spec.read_only, spec.device_uuids) == ("none", True, (lease.uuid,))
    assert spec.command[:4] == ("timeout", "-k", "5", "60")
    assert all(mount.read_only for mount in spec.mounts if mount.source == "/data")
    lab.docker.write(json.dumps({"document": DOCUMENT}).encode() + b"\n")
    lab.docker.finish(0)
    await lab.clock.until(work.done)
    assert json.loads(work.result())["card"] == "A100"
    assert not lab.docker.leases
    assert not lab.docker.containers


async def test_cancelling_leaves_nothing(lab: Lab, desk: Desk, tmp_path: Path) -> None:
    work = asyncio.ensure_future(measured(lab, desk, tmp_path))
    await lab.clock.until(lambda: lab.docker.running)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not lab.docker.leases
    assert not lab.docker.containers


async def test_what_a_killed_console_left_is_swept(lab: Lab, desk: Desk, tmp_path: Path) -> None:
    work = asyncio.ensure_future(measured(lab, desk, tmp_path))
    await lab.clock.until(lambda: lab.docker.running)
    desk.console.dead = True
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    heir = lab.desk(state=lab.state)
    copies = LogCopies(heir.bench)
    assert await sweep(heir.bench, 1, copies, "a", set())
    assert lab.docker.running
    lab.docker.finish(3)
    assert await sweep(heir.bench, 1, copies, "a", set())
    assert not lab.docker.containers


async def test_a_device_in_use_or_leased_is_not_taken(lab: Lab, desk: Desk, tmp_path: Path) -> None:
    uuid = desk.hosts.snapshot().hosts[0].devices[0].uuid
    lab.docker.leases[uuid] = Lease(uuid, "x", "x-1", "bob", "other", 0.0)
    with pytest.raises(LeaseTakenError):
        await measured(lab, desk, tmp_path)
    assert not lab.docker.containers
    host = desk.hosts.snapshots.hosts[0]
    busy = replace(host.devices[0], processes=(DeviceProcess(1, "bob", 900.0),))
    hosts = (replace(host, devices=(busy,)),)
    desk.hosts.snapshots = replace(desk.hosts.snapshots, hosts=hosts)
    with pytest.raises(NotHereError):
        await measured(lab, desk, tmp_path)
