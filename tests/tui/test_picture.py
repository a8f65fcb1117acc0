"""Sums of hosts: what the one loop counts is what the rules of `core.devices.health_levels` say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.devices.health_levels import (
    Condition,
    condition,
    host_condition,
    is_busy,
    is_faulty,
    memory_percent,
)
from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostState
from gpuconsole.tui import snapshot
from gpuconsole.tui.render.fleet_map.metrics import METRICS, device_codes
from gpuconsole.tui.render.fleet_map.owners import Owners
from gpuconsole.tui.snapshot import (
    Gallery,
    HostSums,
    Picture,
    Totals,
    hottest_c,
    plain_sums,
    sums_of,
)
from tests.tui.fake import FakeSession

figure = st.none() | st.floats(0, 3000)
devices = st.builds(
    Device,
    uuid=st.just("u"),
    index=st.just(0),
    model=st.just("m"),
    utilization=st.none() | st.floats(0, 100),
    memory_used_mib=figure,
    memory_total_mib=st.sampled_from([None, 0.0, 3000.0]),
    power_w=figure,
    temperature_c=figure,
    throttle=st.sampled_from([(), ("power-cap",), ("hw-thermal", "power-cap")]),
    lost=st.booleans(),
    error=st.sampled_from(["", "NVML says no"]),
    xid=st.sampled_from([None, 79]),
    ecc_uncorrected=st.sampled_from([None, 0, 2]),
    health=st.sampled_from(["", "", "critical"]),
    remap_failed=st.sampled_from([None, False, True]),
    processes=st.sampled_from([(), (DeviceProcess(1),)]),
)
plain = st.builds(
    Device,
    uuid=st.just("u"),
    index=st.just(0),
    model=st.just("m"),
    utilization=st.floats(0, 100),
    memory_used_mib=st.floats(0, 3000),
    memory_total_mib=st.just(3000.0),
    power_w=figure,
    temperature_c=figure,
    processes=st.sampled_from([(), (DeviceProcess(1),)]),
)
hosts = st.builds(
    Host, name=st.just("h"), state=st.sampled_from(HostState),
    devices=(st.lists(plain, max_size=4) | st.lists(plain | devices, max_size=4)).map(tuple),
)  # fmt: skip
TROUBLE: tuple[dict[str, object], ...] = (
    {"lost": True}, {"error": "NVML says no"}, {"xid": 79}, {"ecc_uncorrected": 2},
    {"health": "critical"}, {"remap_failed": True}, {"throttle": ("hw-thermal",)}, {"mig": True},
    {"utilization": None}, {"memory_used_mib": None}, {"memory_total_mib": None},
)  # fmt: skip


@given(hosts)
def test_the_loop_follows_the_rules(host: Host) -> None:
    sums = sums_of(host)
    bad = [d for d in host.devices if is_faulty(d) or host.state is HostState.DOWN]
    rest = [device for device in host.devices if device not in bad]
    assert sums.worst is host_condition(host)
    assert sums.devices == len(host.devices)
    assert sums.bad == sum(
        condition(host, device) in (Condition.DOWN, Condition.FAULT) for device in host.devices
    )
    assert sums.busy == sum(is_busy(device) for device in rest)
    idle = sum(not is_busy(device) for device in rest)
    assert sums.free == (idle if host.state is HostState.UP else 0)
    if host.state is not HostState.DOWN:
        shares = [share for d in host.devices if (share := memory_percent(d)) is not None]
        assert abs(sums.memory_sum - sum(shares)) < 1e-6
        assert sums.memory_known == len(shares)
        loads = [d.utilization for d in host.devices if d.utilization is not None]
        assert sums.utilization_sum == sum(loads)
        assert sums.utilization_known == len(loads)
        heats = [d.temperature_c for d in host.devices if d.temperature_c is not None]
        assert hottest_c(host) == max(heats, default=None)


@given(st.lists(plain, max_size=4))
def test_a_host_of_which_all_is_well_takes_the_short_way(devices: list[Device]) -> None:
    host = Host("h", HostState.UP, devices=tuple(devices))
    sums = plain_sums(host)
    assert sums == HostSums(*sums or ())
    assert sums_of(host).worst is Condition.OK


@pytest.mark.parametrize("trouble", TROUBLE)
def test_no_other_host_does(trouble: dict[str, object]) -> None:
    device = Device("u", 0, "m", memory_total_mib=9.0, memory_used_mib=1.0, utilization=3.0)
    assert plain_sums(Host("h", HostState.UP, devices=(device, device))) is not None
    changed = replace(device, **trouble)  # type: ignore[arg-type]
    assert plain_sums(Host("h", HostState.UP, devices=(device, changed))) is None


@given(hosts)
def test_a_host_of_which_all_is_well_is_drawn_as_the_long_way_would(host: Host) -> None:
    empty, owners = Picture(), Owners()
    for metric in METRICS:
        short = device_codes(empty, host, metric, owners, frozenset())
        assert short == device_codes(empty, host, metric, owners, frozenset({"none of them"}))


def test_a_host_that_did_not_change_is_not_summed_up_again() -> None:
    session, gallery = FakeSession(), Gallery()
    first = gallery.picture(session.snapshot(), (), session.now())
    session.change(session.hosts_now[0])
    again = gallery.picture(session.snapshot(), (), session.now())
    for host in session.hosts_now:
        assert again.of_host(host) is first.of_host(host)
    assert again.totals == Totals.of(sums_of(host) for host in session.hosts_now)


def test_hosts_summed_up_ahead_are_not_summed_up_with_the_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, gallery = FakeSession(), Gallery()
    gallery.picture(session.snapshot(), (), session.now())
    one, two, *_ = session.hosts_now
    early, late = replace(one, sampled_at=1.0), replace(one, devices=())
    changed = replace(two, devices=two.devices[:1])
    gallery.look_ahead((early, changed, *session.hosts_now[2:]))
    session.change(late, changed)
    summed: list[Host] = []

    def noted(host: Host) -> HostSums:
        summed.append(host)
        return sums_of(host)

    monkeypatch.setattr(snapshot, "sums_of", noted)
    shown = gallery.picture(session.snapshot(), (), session.now())
    assert summed == [late], "it changed again after it was looked at"
    assert shown.totals == Totals.of(sums_of(host) for host in session.hosts_now)
    for host in session.hosts_now:
        assert shown.of_host(host) == sums_of(host)


def test_a_divided_card_counts_by_its_slices() -> None:
    card = Device("u", 0, "A100", memory_total_mib=40960.0, memory_used_mib=9000.0, power_w=90.0,
                  mig=True)  # fmt: skip
    slices = tuple(
        Device(f"MIG-{n}", n, "A100 MIG 3g.20gb", memory_total_mib=20480.0, memory_used_mib=used,
               parent_uuid="u")
        for n, used in ((1, 9000.0), (2, 0.0))
    )  # fmt: skip
    sums = sums_of(Host("h", HostState.UP, devices=(card, *slices)))
    assert (sums.devices, sums.busy, sums.free, sums.bad) == (2, 1, 1, 0)
    assert sums.power_w == 90.0
    hot = Host("h", HostState.UP, devices=(replace(card, throttle=("hw-thermal",)), *slices))
    assert sums_of(hot).worst is host_condition(hot) is Condition.THROTTLED
