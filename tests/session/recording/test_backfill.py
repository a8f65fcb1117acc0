"""What a session remembers of its fleet: how often it looks."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from gpuconsole.core.containers import Engine
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.session.recording.backfill import LiveSamples

T0 = 1_790_000_000.0
WAITS = 40


class Clock:
    """A clock that notes how long was waited, until it was often enough."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        return T0 + sum(self.waits)

    async def sleep(self, seconds: float) -> None:
        if len(self.waits) == WAITS:
            raise asyncio.CancelledError
        self.waits.append(seconds)


class Fleet:
    """One host, read at each look."""

    def __init__(self, devices: int, clock: Clock) -> None:
        self._devices = tuple(Device(f"GPU-{n}", n, "A100") for n in range(devices))
        self._clock = clock

    def snapshot(self) -> FleetSnapshot:
        at = self._clock.now()
        host = Host("a", HostState.UP, devices=self._devices, sampled_at=at)
        return FleetSnapshot(int(at), at, (host,))

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def engine(self, host: str) -> Engine:
        raise NotImplementedError

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None: ...


@pytest.mark.parametrize(("devices", "wait", "between"), [(8, 1.0, 1.0), (8000, 2.0, 16.0)])
async def test_a_fleet_that_is_sampled_seldom_is_looked_at_less_often(
    devices: int, wait: float, between: float, tmp_path: Path
) -> None:
    clock = Clock()
    samples = LiveSamples(Fleet(devices, clock), clock, tmp_path)
    with pytest.raises(asyncio.CancelledError):
        await samples.run()
    assert set(clock.waits) == {wait}
    times = samples.device("GPU-0", "utilization", wait * WAITS).times
    assert {later - at for at, later in pairwise(times)} == {between}
