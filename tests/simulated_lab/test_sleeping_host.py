"""The simulated lab's sleeping host: away when the lab opens, up some seconds after it is woken."""

from __future__ import annotations

from gpuconsole.core.devices.host_power import TellsRunning
from gpuconsole.core.fleet import HostState
from gpuconsole.simulated_lab import SimulatedHosts
from gpuconsole.simulated_lab.hosts import WAKES_S


class Clock:
    time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


async def test_it_sleeps_until_it_is_woken_and_then_again() -> None:
    clock = Clock()
    hosts = SimulatedHosts(6, clock=clock, elastic=True)

    def state() -> HostState:
        clock.time += 2.0
        found = hosts.snapshot().host("cloud-01")
        assert found is not None
        assert len(found.devices) == 8
        return found.state

    assert state() is HostState.DOWN
    assert await hosts.power.switch("cloud-01", "wake") == ""
    assert state() is HostState.DOWN
    clock.time += WAKES_S
    assert state() is HostState.UP
    engine = await hosts.engine("cloud-01")
    assert isinstance(engine, TellsRunning)
    assert await engine.running() == ()
    await hosts.power.switch("cloud-01", "sleep")
    assert state() is HostState.DOWN


def test_without_it_nothing_can_be_switched() -> None:
    hosts = SimulatedHosts(6, clock=Clock())
    assert not hosts.power.hosts
    assert len(hosts.snapshot().hosts) == 6
