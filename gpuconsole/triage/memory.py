"""What is remembered of devices: means that single readings do not shake, and first counts."""

from __future__ import annotations

import math

from gpuconsole.core.fleet import Device
from gpuconsole.triage.device_rules import THERMAL
from gpuconsole.triage.model import Past

MEAN_S = 30.0
"""Time constant of the means: a pause between two epochs is shorter, a forgotten process is not."""


def remember(past: dict[str, Past], device: Device, at: float) -> None:
    """Take a device's reading into what is remembered of it; each reading once."""
    slowed = 1.0 if THERMAL.intersection(device.throttle) else 0.0
    known = past.get(device.uuid)
    if known is None:
        known = past[device.uuid] = Past(
            at, device.utilization, slowed, device.ecc_uncorrected, device.retired_pages
        )
    if device.processes is not known.processes:
        known.processes = device.processes
        known.arrivals = {one.pid: known.arrivals.get(one.pid, at) for one in device.processes}
    passed = at - known.at
    if passed <= 0.0:
        return
    weight = 1.0 - math.exp(-passed / MEAN_S)
    known.at = at
    known.slowed += weight * (slowed - known.slowed)
    if device.utilization is None or known.utilization is None:
        known.utilization = device.utilization
    else:
        known.utilization += weight * (device.utilization - known.utilization)
    if known.errors is None:
        known.errors = device.ecc_uncorrected
    if known.pages is None:
        known.pages = device.retired_pages
