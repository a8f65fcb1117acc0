"""A measurement on a device: leased meanwhile, without network, and nothing is left of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gpuconsole.core.containers import MEASUREMENT, Lease
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.errors import LeaseTakenError
from gpuconsole.session.estimate.measurement_on_device import measure_on_device
from gpuconsole.session.estimate.measurement_on_host import Asked
from tests.session.conftest import Desk, Lab

TASK = Task("train", "/p/train.py", mounts=(Mount("/data", "/data", read_only=False),))
DOCUMENT = {"mode": "device", "runs": []}


@pytest.fixture
def desk(lab: Lab) -> Desk:
    return lab.desk()


async def measured(desk: Desk, folder: Path) -> bytes:
    host = desk.hosts.snapshot().hosts[0]
    bundle = folder / "project.tar.gz"
    bundle.write_bytes(b"code")
    asked = Asked(TASK, "paddle", bundle, {"mode": "device"}, lambda share, stage: None)
    return await measure_on_device(desk.context, host, host.devices[0], asked)


async def test_the_device_is_leased_meanwhile_and_given_back(
    lab: Lab, desk: Desk, tmp_path: Path
) -> None:
    work = asyncio.ensure_future(measured(desk, tmp_path))
    await lab.clock.until(lambda: lab.docker.running)
    (lease,) = lab.docker.leases.values()
    assert lease.job.startswith(MEASUREMENT)
    spec = lab.docker.only().spec
    assert (spec.network, spec.read_only, spec.device_uuids) == ("none", True, (lease.uuid,))
    assert spec.labels["gpuconsole.attempt"] == lease.attempt
    assert spec.cpus is not None
    # Nothing of the host can be written: what is found comes back by its output.
    assert [(mount.source, mount.read_only) for mount in spec.mounts] == [("/data", True)]
    lab.docker.write(json.dumps({"document": DOCUMENT}).encode() + b"\n")
    lab.docker.finish(0)
    await lab.clock.until(work.done)
    assert json.loads(work.result())["card"] == "A100"
    assert not lab.docker.leases
    assert not lab.docker.containers


@pytest.mark.parametrize("at", ["claim done", "create done", "put", "start", "logs"])
async def test_cancelling_leaves_nothing(lab: Lab, desk: Desk, tmp_path: Path, at: str) -> None:
    lab.docker.hangs_at = frozenset({at})
    work = asyncio.ensure_future(measured(desk, tmp_path))
    await lab.clock.until(lambda: lab.docker.hanging)
    work.cancel()
    await asyncio.sleep(0)
    lab.docker.hangs_at = frozenset()
    lab.docker.notify()
    await lab.clock.until(work.done)
    assert work.cancelled()
    assert not lab.docker.leases
    assert not lab.docker.containers


async def test_a_script_that_does_not_end_is_ended_from_outside(
    lab: Lab, desk: Desk, tmp_path: Path
) -> None:
    work = asyncio.ensure_future(measured(desk, tmp_path))
    await lab.clock.until(lambda: lab.docker.running)
    await lab.clock.until(work.done)
    assert "did not end in 60 s" in str(work.exception())
    assert not lab.docker.leases
    assert not lab.docker.containers


async def test_a_device_that_another_leased_meanwhile_is_not_taken(
    lab: Lab, desk: Desk, tmp_path: Path
) -> None:
    uuid = desk.hosts.snapshot().hosts[0].devices[0].uuid
    lab.docker.leases[uuid] = Lease(uuid, "x", "x-1", "bob", "other", 0.0)
    with pytest.raises(LeaseTakenError):
        await measured(desk, tmp_path)
    assert list(lab.docker.leases) == [uuid]
    assert not lab.docker.containers
