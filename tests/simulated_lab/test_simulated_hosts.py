"""The simulated fleet: moves smoothly, repeats itself exactly, and costs what changed."""

import itertools
import time

import pytest

from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.errors import RefusedError, UnreachableError, UsageError
from gpuconsole.simulated_lab import SimulatedHosts

START = 1_700_000_000.0


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> float:
        return self.time


def lab_at(clock: Clock, hosts: int = 6, seed: int = 7, speed: float = 1.0) -> SimulatedHosts:
    return SimulatedHosts(hosts, seed, clock=clock, speed=speed)


def pictures(moments: list[float], seed: int = 7) -> list[FleetSnapshot]:
    clock = Clock()
    lab = lab_at(clock, seed=seed)
    found = []
    for moment in moments:
        clock.time = START + moment
        found.append(lab.snapshot())
    return found


def test_the_same_seed_and_time_give_the_same_picture_whatever_was_looked_at_before() -> None:
    slow = pictures([float(second) for second in range(0, 200, 3)] + [600.0])[-1]
    assert slow.hosts == pictures([600.0])[-1].hosts
    assert slow.hosts != pictures([600.0], seed=8)[-1].hosts


def test_the_picture_is_marked_simulated_and_hosts_are_mixed() -> None:
    snapshot = pictures([5.0])[0]
    assert snapshot.simulated
    assert all(host.facts.source == "simulated" for host in snapshot.hosts)
    assert [len(host.devices) for host in snapshot.hosts] == [8, 4, 4, 8, 2, 4]
    assert {device.backend for host in snapshot.hosts for device in host.devices} == {"gpu", "npu"}
    uuids = [device.uuid for host in snapshot.hosts for device in host.devices]
    assert len(set(uuids)) == len(uuids)


def test_other_makers_are_told_by_a_tool_that_runs_seldom_and_says_less() -> None:
    clock = Clock()
    lab = lab_at(clock, hosts=8)
    ages = set()
    for second in range(9):
        clock.time = START + 20.0 + second
        ascend = lab.snapshot().host("ascend-01")
        assert ascend is not None
        assert ascend.sampled_at is not None
        ages |= {round(ascend.sampled_at - (one.sampled_at or 0.0)) for one in ascend.devices}
    assert ages == {0, 1, 2, 3}
    by_maker = {host.devices[0].vendor: host.devices[0] for host in lab.snapshot().hosts}
    assert set(by_maker) == {"nvidia", "ascend", "kunlunxin", "hygon"}
    assert by_maker["nvidia"].sampled_at is None
    assert by_maker["ascend"].power_limit_w is None
    assert by_maker["ascend"].ecc_uncorrected is None
    assert by_maker["kunlunxin"].power_limit_w == 400
    assert {one.backend for one in by_maker.values()} == {"gpu", "npu", "xpu", "dcu"}


def test_peers_name_the_other_devices_of_the_host() -> None:
    for host in pictures([0.0])[0].hosts:
        for device in host.devices:
            others = {other.uuid for other in host.devices} - {device.uuid}
            assert {peer.uuid for peer in device.peers} == others


def test_an_idle_process_holds_memory_and_a_hot_card_throttles() -> None:
    snapshot = pictures([60.0])[0]
    host = snapshot.host("rtx3090-01")
    assert host is not None
    notebook, hot = host.devices[:2]
    assert notebook.utilization == 0
    assert [process.memory_mib for process in notebook.processes] == [642.0]
    assert hot.throttle == ("sw-thermal",)


def test_temperature_never_jumps() -> None:
    series = pictures([float(second) for second in range(0, 900)])
    for before, after in itertools.pairwise(series):
        for old, new in zip(before.hosts, after.hosts, strict=True):
            if new.state is HostState.UP and old.state is HostState.UP:
                for was, now in zip(old.devices, new.devices, strict=True):
                    assert abs((was.temperature_c or 0) - (now.temperature_c or 0)) <= 4


def test_used_memory_is_what_the_processes_hold_and_never_more_than_there_is() -> None:
    for snapshot in pictures([0.0, 333.0, 3600.0, 86400.0]):
        for host in snapshot.hosts:
            for device in host.devices:
                held = sum(process.memory_mib or 0 for process in device.processes)
                assert device.memory_used_mib is not None
                assert device.memory_total_mib is not None
                assert held <= device.memory_used_mib <= device.memory_total_mib


def test_a_host_goes_stale_then_down_then_comes_back() -> None:
    states = [
        host.state
        for snapshot in pictures([100.0, 155.0, 200.0, 230.0])
        if (host := snapshot.host("t4-01")) is not None
    ]
    assert states == [HostState.UP, HostState.STALE, HostState.DOWN, HostState.UP]


async def test_a_host_out_of_sight_keeps_its_last_frame_and_refuses_its_engine() -> None:
    clock = Clock()
    lab = lab_at(clock)
    clock.time = START + 140.0
    before = lab.snapshot().host("t4-01")
    engine = await lab.engine("t4-01")
    clock.time = START + 200.0
    down = lab.snapshot().host("t4-01")
    assert before is not None
    assert down is not None
    assert down.error
    assert down.devices == before.devices
    assert (down.age_s(clock()) or 0) > 40
    with pytest.raises(UnreachableError):
        await lab.engine("t4-01")
    with pytest.raises(UnreachableError):
        await engine.info()


async def test_an_unknown_host_is_named() -> None:
    with pytest.raises(UsageError, match="a100-99"):
        await lab_at(Clock()).engine("a100-99")


def test_nothing_is_made_anew_while_no_frame_is_due() -> None:
    clock = Clock()
    lab = lab_at(clock)
    first = lab.snapshot()
    assert lab.snapshot() is first
    clock.time += 0.25
    second = lab.snapshot()
    kept = [old is new for old, new in zip(first.hosts, second.hosts, strict=True)]
    assert second.revision == first.revision + 1
    assert True in kept
    assert False in kept


def test_a_faster_lab_reports_times_on_the_callers_clock() -> None:
    clock = Clock()
    lab = lab_at(clock, speed=20.0)
    clock.time = START + 10.0
    host = lab.snapshot().host("t4-01")
    assert host is not None
    assert host.state is HostState.DOWN
    a100 = lab.snapshot().hosts[0]
    assert a100.sampled_at is not None
    assert START + 9.0 <= a100.sampled_at <= START + 10.0


def test_a_thousand_hosts_move_within_a_tick() -> None:
    clock = Clock()
    lab = lab_at(clock, hosts=1000)
    lab.snapshot()
    spent = []
    for _ in range(5):
        clock.time += 1.0
        began = time.process_time()
        lab.snapshot()
        spent.append(time.process_time() - began)
    assert min(spent) < 0.5, "an order of magnitude above what it takes, to catch a blow-up only"
    assert len({host.name for host in lab.snapshot().hosts}) == 1000


@pytest.mark.parametrize("hosts", [0, -1])
def test_a_lab_without_hosts_is_refused(hosts: int) -> None:
    with pytest.raises(UsageError, match="at least one host"):
        lab_at(Clock(), hosts=hosts)


async def test_a_process_that_is_signalled_leaves_its_device() -> None:
    clock = Clock()
    lab = SimulatedHosts(6, clock=clock)
    host, device, process = next(
        (host, device, process)
        for host in lab.snapshot().hosts
        for device in host.devices
        for process in device.processes
        if "ipykernel" in process.command
    )
    await lab.signal(host.name, process, "TERM")
    clock.time += 2.0
    after = lab.snapshot().host(host.name)
    assert after is not None
    assert after.devices[device.index].processes == ()
    assert (after.devices[device.index].memory_used_mib or 0.0) < 100.0
    with pytest.raises(RefusedError, match="ended already"):
        await lab.signal(host.name, process, "TERM")


async def test_somebody_elses_container_can_be_stopped() -> None:
    clock = Clock()
    lab = SimulatedHosts(6, clock=clock)
    host, process = next(
        (host, process)
        for host in lab.snapshot().hosts
        for device in host.devices
        for process in device.processes
        if process.container_id
    )
    engine = await lab.engine(host.name)
    found = await engine.inspect(process.container_id)
    assert found is not None
    assert found.state == "running"
    await engine.stop(process.container_id, 5.0)
    clock.time += 2.0
    after = lab.snapshot().host(host.name)
    assert after is not None
    assert not any(process in device.processes for device in after.devices)
    assert await engine.inspect(process.container_id) is None
