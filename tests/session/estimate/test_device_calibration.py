"""A calibration holds a device, reads the driver while its probe is idle, leaves nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.devices.run_history import HostCalibration
from gpuconsole.core.fleet import DeviceProcess, HostState
from gpuconsole.core.units import MIB
from gpuconsole.errors import (
    ConsoleError,
    LeaseTakenError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.remote.injected.context_probe import MARK
from gpuconsole.session.estimate.device_calibration import calibrate
from gpuconsole.session.logs.copies import LogCopies
from tests.session.conftest import Desk, Lab
from tests.session.fakes import Container

PHASES = ("tensor", "matmul", "convolution", "chunks")


@dataclass
class Probe:
    """Plays the probe in the container, and the driver beside it."""

    lab: Lab
    desk: Desk
    held: dict[str, float] = field(
        default_factory=lambda: {
            "tensor": 302.0, "matmul": 389.0, "convolution": 460.0, "chunks": 500.0,
        }
    )  # fmt: skip
    device: str = "gpu:0"
    per_process: bool = True
    seen: list[str] = field(default_factory=list)

    def begin(self, container: Container) -> None:
        self.say(phase="begin", paddle="3.3.1", device=self.device)
        if self.device == "cpu":
            self.end()
        else:
            self.reach(PHASES[0])

    def answered(self, container: Container) -> None:
        """A tar was put into the container; the first one holds the probe itself."""
        if container.state != "running":
            return
        place = len(self.seen)
        if place == len(PHASES):
            self.end()
        else:
            self.reach(PHASES[place])

    def reach(self, phase: str) -> None:
        self.seen.append(phase)
        self.say(phase=phase, reserved=40 * MIB, allocated=30 * MIB, workspace=3 * MIB, chunks=16)
        container = self.lab.docker.only()
        self.driver(self.held[phase], container.id)

    def say(self, **facts: object) -> None:
        self.lab.docker.write(b"noise\n" + f"{MARK}{json.dumps(facts)}\n".encode())

    def end(self) -> None:
        self.say(phase="end")
        self.lab.docker.finish(0)

    def driver(self, held: float, container: str) -> None:
        """Let the driver say so from two seconds later on."""

        async def later() -> None:
            await self.lab.clock.sleep(2.0)
            own = DeviceProcess(9, memory_mib=held, container_id=container)
            set_device(self.desk, memory_used_mib=held, sampled=self.lab.clock.now(),
                       processes=(own,) if self.per_process else ())  # fmt: skip

        self.task = asyncio.ensure_future(later())


def set_device(desk: Desk, *, sampled: float | None = None, **fields: object) -> None:
    snapshot = desk.hosts.snapshots
    host = snapshot.hosts[0]
    device = replace(host.devices[0], **fields)  # type: ignore[arg-type]
    host = replace(host, devices=(device, *host.devices[1:]), sampled_at=sampled)
    desk.hosts.snapshots = replace(snapshot, hosts=(host,), revision=snapshot.revision + 1)


async def run(lab: Lab, desk: Desk, **options: object) -> HostCalibration:
    """Calibrate while virtual time passes."""
    said: list[str] = []
    work = asyncio.ensure_future(
        calibrate(desk.context, "a", options.get("index"), "", said.append)  # type: ignore[arg-type]
    )
    await lab.clock.until(work.done)
    return work.result()


@pytest.fixture
def desk(lab: Lab) -> Desk:
    return lab.desk()


@pytest.fixture
def probe(lab: Lab, desk: Desk) -> Probe:
    made = Probe(lab, desk)
    lab.docker.on_start = made.begin
    lab.docker.on_put = made.answered
    return made


def nothing_is_left(lab: Lab) -> bool:
    return not lab.docker.containers and not lab.docker.leases


async def test_the_context_is_what_the_driver_says_less_what_paddle_reserved(
    lab: Lab, desk: Desk, probe: Probe
) -> None:
    found = await run(lab, desk)
    assert (found.context_mib, found.first_mib, found.matmul_mib) == (420.0, 262.0, 349.0)
    assert (found.granularity_mib, found.workspace_mib) == (2.5, 3.0)
    assert (found.host, found.device, found.paddle) == ("a", "A100", "3.3.1")
    assert "processes" in found.method
    assert nothing_is_left(lab)
    spec = lab.docker.history[0].spec
    assert spec.device_uuids == ("GPU-a-0",)
    assert spec.network == "none"
    assert spec.user == "1000:1000"


async def test_without_figures_of_processes_the_whole_device_tells(
    lab: Lab, desk: Desk, probe: Probe
) -> None:
    probe.per_process = False
    found = await run(lab, desk)
    assert found.context_mib == 420.0
    assert "whole device" in found.method


async def test_on_a_cpu_it_says_what_could_not_be_measured(
    lab: Lab, desk: Desk, probe: Probe
) -> None:
    probe.device = "cpu"
    found = await run(lab, desk)
    assert found.context_mib is None
    assert "0 MiB" in found.method
    assert nothing_is_left(lab)


async def test_a_probe_that_ends_early_is_told_with_its_last_words(lab: Lab, desk: Desk) -> None:
    def fail(container: Container) -> None:
        lab.docker.finish(1, b"ModuleNotFoundError: No module named 'paddle'\n")

    lab.docker.on_start = fail
    with pytest.raises(RefusedError, match="No module named 'paddle'"):
        await run(lab, desk)
    assert nothing_is_left(lab)


def _busy(lab: Lab, desk: Desk) -> None:
    set_device(desk, processes=(DeviceProcess(7, "eve", 9000.0, "python"),))


def _leased(lab: Lab, desk: Desk) -> None:
    lab.docker.leases["GPU-a-0"] = Lease("GPU-a-0", "j", "j-1", "eve", "other", 1.0)


def _down(lab: Lab, desk: Desk) -> None:
    lab.docker.reachable = False


def _bare(lab: Lab, desk: Desk) -> None:
    hosts = (replace(desk.hosts.snapshots.hosts[0], devices=(), state=HostState.UP),)
    desk.hosts.snapshots = replace(desk.hosts.snapshots, hosts=hosts)


@pytest.mark.parametrize(
    ("make", "index", "error", "word"),
    [
        (_busy, 0, RefusedError, "eve"),
        (_busy, None, RefusedError, "processes on it"),
        (_leased, None, LeaseTakenError, "eve"),
        (_down, None, UnreachableError, "down"),
        (_bare, None, RefusedError, "no device"),
        (lambda lab, desk: None, 5, UsageError, "no device 5"),
    ],
)
async def test_a_device_in_use_or_out_of_reach_is_refused_and_left_alone(
    lab: Lab,
    desk: Desk,
    make: Callable[[Lab, Desk], None],
    index: int | None,
    error: type[ConsoleError],
    word: str,
) -> None:
    make(lab, desk)
    leases = dict(lab.docker.leases)
    with pytest.raises(error, match=word):
        await run(lab, desk, index=index)
    assert lab.docker.leases == leases
    assert not lab.docker.history


async def test_an_interruption_leaves_nothing(lab: Lab, desk: Desk, probe: Probe) -> None:
    work = asyncio.ensure_future(calibrate(desk.context, "a", None, "", lambda said: None))
    await lab.clock.until(lambda: "matmul" in probe.seen)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert nothing_is_left(lab)


async def test_what_a_killed_console_left_is_swept_once_it_has_ended(
    lab: Lab, desk: Desk, probe: Probe
) -> None:
    work = asyncio.ensure_future(calibrate(desk.context, "a", None, "", lambda said: None))
    await lab.clock.until(lambda: probe.seen)
    desk.console.dead = True
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    heir = lab.desk(state=lab.state)
    copies = LogCopies(heir.context)
    assert await heir.sweep(copies)
    assert lab.docker.running
    lab.docker.finish(3)
    assert await heir.sweep(copies)
    assert not lab.docker.containers


async def test_a_host_that_is_not_in_the_inventory_is_named(lab: Lab, desk: Desk) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        await calibrate(desk.context, "nowhere", None, "", lambda said: None)
