"""From a device's figures to what a person sees: its condition, and levels 0-8 on a ramp."""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum

from gpuconsole.core.fleet import Device, Host, HostState

LEVELS = 9
"""Steps of every ramp, 0 (idle) to 8 (full)."""
STEPS = (1.0, *(100.0001 * step / (LEVELS - 1) for step in range(1, LEVELS - 1)))
"""Percentages at which the next step begins: idle ends at 1 %, the other steps are equally wide. A
figure on a border, such as 12.5, belongs to the lower step."""

WARM_C = 30.0
HOT_C = 90.0
"""Temperatures at the two ends of the ramp: a card at rest, and where cards slow themselves."""

BUSY_MEMORY_MIB = 1024.0
"""Held memory above which a device counts as in use; drivers and desktops hold less."""

BUSY_UTILIZATION = 5.0

SLOWING = frozenset({"hw-thermal", "sw-thermal", "power-brake"})
"""Throttle reasons that are trouble. A power cap is how a healthy card looks at full load."""

_MILD = frozenset({"warning", "minor", "info"})
"""A word that is not known counts as an alarm: no tool calls a device well in many ways."""


class Condition(Enum):
    """What is wrong with a device, worst first."""

    DOWN = "down"
    ASLEEP = "asleep"
    """Down because the console suspended it, or because no job needs it; it can be resumed."""
    FAULT = "fault"
    STALE = "stale"
    THROTTLED = "throttled"
    OK = "ok"


def condition(host: Host, device: Device) -> Condition:
    """Tell the worst that is known of a device and its host."""
    if host.state is HostState.DOWN:
        return Condition.ASLEEP if host.power else Condition.DOWN
    if is_faulty(device):
        return Condition.FAULT
    if host.state is not HostState.UP:
        return Condition.STALE
    if SLOWING.intersection(device.throttle):
        return Condition.THROTTLED
    return Condition.OK


def host_condition(host: Host) -> Condition:
    """Tell the worst that is known of a host and any of its devices."""
    if host.state is HostState.DOWN:
        return Condition.ASLEEP if host.power else Condition.DOWN
    conditions = {condition(host, device) for device in host.devices}
    for worst in (Condition.FAULT, Condition.STALE, Condition.THROTTLED):
        if worst in conditions:
            return worst
    return Condition.OK if host.state is HostState.UP else Condition.STALE


def is_faulty(device: Device) -> bool:
    """Tell whether the device is lost, unreadable, or has reported an error of its own."""
    reports_fault = device.xid or device.ecc_uncorrected or device.remap_failed or device.health
    return bool(device.lost or device.error or reports_fault)


def is_alarming(health: str) -> bool:
    """Tell whether a vendor's tool says by this word that a device cannot be used; it says
    `Warning` of one that works."""
    return bool(health) and health.lower() not in _MILD


def is_busy(device: Device) -> bool:
    """Tell whether somebody uses the device, by its processes, memory or work."""
    return (
        bool(device.processes)
        or (device.memory_used_mib or 0.0) > BUSY_MEMORY_MIB
        or (device.utilization or 0.0) >= BUSY_UTILIZATION
    )


def memory_percent(device: Device) -> float | None:
    """Return the share of the device's memory that is held, 0-100."""
    if not device.memory_total_mib or device.memory_used_mib is None:
        return None
    return 100.0 * device.memory_used_mib / device.memory_total_mib


def power_percent(device: Device) -> float | None:
    """Return the power drawn as a share of the device's limit, 0-100."""
    if not device.power_limit_w or device.power_w is None:
        return None
    return 100.0 * device.power_w / device.power_limit_w


def level(percent: float | None) -> int | None:
    """Return the step of the ramp for a percentage; anything above nothing shows as work."""
    return None if percent is None else bisect_right(STEPS, percent)


def heat_level(temperature_c: float | None) -> int | None:
    """Return the step of the ramp for a temperature."""
    if temperature_c is None:
        return None
    return level(max(0.0, 100.0 * (temperature_c - WARM_C) / (HOT_C - WARM_C)))
