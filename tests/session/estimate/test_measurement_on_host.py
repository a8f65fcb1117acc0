"""A measurement on a host: shut in, one at a time, and what a killed console left is cleared."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.containers import LABEL_PREFIX, TIME_LIMIT_LABEL
from gpuconsole.core.fleet import HostFacts
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.errors import HostBusyError, NotHereError
from gpuconsole.session.estimate import measurement_on_host
from gpuconsole.session.estimate.measurement_on_device import measure_on_device
from gpuconsole.session.estimate.measurement_on_host import Asked, measure_on_host, memory_limit_mib
from gpuconsole.session.logs.copies import LogCopies
from gpuconsole.state.files.measurement_turn import free_turn, left_on, measuring_turn
from tests.session.conftest import Desk, Lab

DOCUMENT = {"mode": "traced", "runs": []}


def asked(folder: Path, **more: Any) -> Asked:
    bundle = folder / "project.tar.gz"
    bundle.write_bytes(b"code")
    task = more.pop("task", Task("train", "/p/train.py"))
    progress = more.pop("progress", lambda share, stage: None)
    return Asked(task, "paddle", bundle, {"mode": "traced"}, progress, **more)


def begun(desk: Desk, wanted: Asked) -> asyncio.Future[bytes]:
    host = desk.hosts.snapshot().hosts[0]
    return asyncio.ensure_future(measure_on_host(desk.context, host, wanted))


async def answered(lab: Lab, work: asyncio.Future[bytes]) -> None:
    lab.docker.write(json.dumps({"document": DOCUMENT}, separators=(",", ":")).encode() + b"\n")
    lab.docker.finish(0)
    await lab.clock.until(work.done)
    assert json.loads(work.result()) == DOCUMENT


async def test_the_container_is_shut_and_known_by_its_journal(lab: Lab, tmp_path: Path) -> None:
    desk = lab.desk()
    lab.docker.uid = 0
    task = Task("train", "/p/train.py", mounts=(Mount("/data", "/data", read_only=False),))
    work = begun(desk, asked(tmp_path, task=task))
    await lab.clock.until(lambda: lab.docker.running)
    spec = lab.docker.only().spec
    assert (spec.network, spec.read_only, spec.device_uuids) == ("none", True, ())
    assert [mount.read_only for mount in spec.mounts] == [True]
    assert spec.user.split(":")[0] not in ("", "0")
    assert set(spec.memory_folders) == {"/workspace", "/results", "/tmp"}
    assert spec.labels[LABEL_PREFIX + "journal"] == desk.journal.id
    assert float(spec.labels[TIME_LIMIT_LABEL]) > measurement_on_host.WALL_S
    await answered(lab, work)
    assert not lab.docker.containers


async def test_a_script_that_does_not_end_is_ended_from_outside(lab: Lab, tmp_path: Path) -> None:
    work = begun(lab.desk(), asked(tmp_path))
    await lab.clock.until(lambda: lab.docker.running)
    await lab.clock.until(work.done, within=measurement_on_host.WALL_S + 60)
    assert "did not end in 600 s" in str(work.exception())
    assert not lab.docker.containers


async def test_a_host_measures_one_script_at_a_time_whoever_asks(lab: Lab, tmp_path: Path) -> None:
    stages: list[str] = []
    first = begun(lab.desk(), asked(tmp_path))
    await lab.clock.until(lambda: lab.docker.running)
    other = lab.desk(state=tmp_path / "other")
    impatient = begun(other, asked(tmp_path, patient=False))
    await lab.clock.until(impatient.done)
    assert isinstance(impatient.exception(), HostBusyError)
    second = begun(other, asked(tmp_path, progress=lambda share, stage: stages.append(stage)))
    await lab.clock.until(lambda: "waiting for another measurement on a" in stages)
    assert len(lab.docker.containers) == 1
    await answered(lab, first)
    await lab.clock.until(lambda: lab.docker.running)
    assert lab.docker.only().spec.labels[LABEL_PREFIX + "journal"] == other.journal.id
    await answered(lab, second)


@pytest.mark.parametrize(
    ("total", "used", "limit"),
    [(64_000.0, 4000.0, measurement_on_host.MEMORY_MIB), (16_000.0, 8000.0, 4000.0),
     (None, None, measurement_on_host.LEAST_MEMORY_MIB)],
)  # fmt: skip
def test_memory_is_limited_by_what_the_host_has_free(
    lab: Lab, total: float | None, used: float | None, limit: float
) -> None:
    host = lab.desk().hosts.snapshot().hosts[0]
    facts = HostFacts(memory_total_mib=total, memory_used_mib=used)
    assert memory_limit_mib(replace(host, facts=facts)) == limit


def test_a_host_with_too_little_free_memory_is_not_troubled(lab: Lab) -> None:
    host = lab.desk().hosts.snapshot().hosts[0]
    facts = HostFacts(memory_total_mib=64_000.0, memory_used_mib=60_500.0)
    with pytest.raises(NotHereError, match="a has 3500 MiB of memory free"):
        memory_limit_mib(replace(host, facts=facts))


async def killed_while_measuring(lab: Lab, folder: Path) -> None:
    """Let a console die in the middle of a measurement on a device, with the turn that it had."""
    desk = lab.desk()
    host = desk.hosts.snapshot().hosts[0]
    async with measuring_turn(lab.state, asyncio.sleep, lambda: None) as turn:
        wanted = asked(folder, note=turn.note)
        work = asyncio.ensure_future(measure_on_device(desk.context, host, host.devices[0], wanted))
        await lab.clock.until(lambda: lab.docker.running)
        desk.console.dead = True
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    assert lab.docker.leases
    assert lab.docker.running


async def test_what_a_killed_console_left_goes_as_soon_as_another_looks(
    lab: Lab, tmp_path: Path
) -> None:
    await killed_while_measuring(lab, tmp_path)
    assert left_on(lab.state) == "a"
    heir = lab.desk(state=lab.state)
    assert await heir.sweep(LogCopies(heir.context))
    assert not lab.docker.containers
    assert not lab.docker.leases
    assert left_on(lab.state) == ""


async def test_a_dispatcher_at_work_clears_what_a_killed_command_left(
    lab: Lab, tmp_path: Path
) -> None:
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.dispatcher.active)
    await lab.clock.pass_time(20)
    await killed_while_measuring(lab, tmp_path)
    await lab.clock.until(lambda: not lab.docker.containers and not lab.docker.leases)
    assert left_on(lab.state) == ""


async def test_a_measurement_under_way_is_left_alone_until_its_time_is_over(
    lab: Lab, tmp_path: Path
) -> None:
    await killed_while_measuring(lab, tmp_path)
    heir = lab.desk(state=lab.state)
    copies = LogCopies(heir.context)
    with free_turn(lab.state) as another:
        assert another is not None
        assert await heir.sweep(copies)
        assert lab.docker.running
        lab.docker.only().overdue = True
        assert await heir.sweep(copies)
    assert not lab.docker.containers
    assert not lab.docker.leases


async def test_own_measurements_hold_their_devices_for_the_own_queue_too(
    lab: Lab, tmp_path: Path
) -> None:
    desk = lab.desk()
    host = desk.hosts.snapshot().hosts[0]
    work = asyncio.ensure_future(
        measure_on_device(desk.context, host, host.devices[0], asked(tmp_path))
    )
    await lab.clock.until(lambda: lab.docker.running)
    await desk.leases.refresh()
    (lease,) = desk.leases.others(desk.journal.id)["a"]
    assert lease.uuid == host.devices[0].uuid
    work.cancel()
    await lab.clock.until(work.done)
