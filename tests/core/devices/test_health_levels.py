"""Conditions and levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.devices.health_levels import (
    Condition,
    condition,
    heat_level,
    host_condition,
    is_busy,
    level,
    memory_percent,
    power_percent,
)
from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostState

FINE = Device("u", 0, "A100", memory_total_mib=1000, memory_used_mib=250)
UP = Host("h", HostState.UP, devices=(FINE,))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, Condition.OK),
        ({"lost": True}, Condition.FAULT),
        ({"xid": 79}, Condition.FAULT),
        ({"error": "unreadable"}, Condition.FAULT),
        ({"ecc_uncorrected": 1}, Condition.FAULT),
        ({"ecc_uncorrected": 0}, Condition.OK),
        ({"throttle": ("hw-thermal",)}, Condition.THROTTLED),
        ({"throttle": ("power-cap",)}, Condition.OK),
    ],
)
def test_condition_of_a_device(change: dict[str, object], expected: Condition) -> None:
    device = replace(FINE, **change)  # type: ignore[arg-type]
    assert condition(UP, device) is expected
    assert host_condition(replace(UP, devices=(FINE, device))) is expected


def test_a_host_out_of_sight_comes_before_its_devices() -> None:
    assert condition(replace(UP, state=HostState.DOWN), FINE) is Condition.DOWN
    assert condition(replace(UP, state=HostState.STALE), FINE) is Condition.STALE
    assert host_condition(Host("new")) is Condition.STALE


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (None, None),
        (0, 0),
        (0.9, 0),
        (1, 1),
        (12, 1),
        (13, 2),
        (50, 4),
        (99, 8),
        (100, 8),
        (250, 8),
    ],
)
def test_levels_rise_from_idle_to_full(percent: float | None, expected: int | None) -> None:
    assert level(percent) == expected


def test_other_scales() -> None:
    assert (heat_level(None), heat_level(20), heat_level(30), heat_level(90)) == (None, 0, 0, 8)
    assert memory_percent(FINE) == 25
    assert memory_percent(Device("u", 0, "x")) is None
    assert power_percent(replace(FINE, power_w=100, power_limit_w=400)) == 25
    assert power_percent(FINE) is None


def test_busy_is_by_process_memory_or_work() -> None:
    assert not is_busy(FINE)
    assert is_busy(replace(FINE, processes=(DeviceProcess(1),)))
    assert is_busy(replace(FINE, memory_used_mib=2000))
    assert is_busy(replace(FINE, utilization=50))
