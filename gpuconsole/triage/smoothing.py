"""What is remembered of devices: means that single readings do not shake, and first counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuconsole.core.fleet import Device
from gpuconsole.triage.device_rules import THERMAL
from gpuconsole.triage.model import Past

MEAN_S = 30.0
"""Time constant of the means: a pause between two epochs is shorter, a forgotten process is not."""


def remember(past: dict[str, Past], devices: Sequence[Device], at: float) -> None:
    """Take the devices' readings into what is remembered of them; each reading once."""
    since, weight = at, 0.0
    for device in devices:
        known = past.get(device.uuid)
        if known is None:
            slowed = 1.0 if THERMAL.intersection(device.throttle) else 0.0
            known = past[device.uuid] = Past(
                at,
                device.utilization,
                slowed,
                device.ecc_uncorrected,
                device.retired_pages,
                device.nvlinks_up,
                power_w=device.power_w,
                power_limit_w=device.power_limit_w,
            )
        if device.processes is not known.processes:
            arrived = known.arrivals
            known.processes = device.processes
            known.arrivals = {
                process.pid: arrived.get(process.pid, at) for process in device.processes
            }
        if at <= known.at:
            continue
        if known.at != since:
            # The devices of a host are read together: one weight is that of all.
            since, weight = known.at, 1.0 - math.exp((known.at - at) / MEAN_S)
        known.at = at
        if device.throttle or known.slowed:
            slowed = 1.0 if THERMAL.intersection(device.throttle) else 0.0
            known.slowed += weight * (slowed - known.slowed)
        load = device.utilization
        if load is None or known.utilization is None:
            known.utilization = load
        else:
            known.utilization += weight * (load - known.utilization)
        watts = device.power_w
        if watts is None or known.power_w is None:
            known.power_w = watts
        else:
            known.power_w += weight * (watts - known.power_w)
        known.power_limit_w = device.power_limit_w
        if known.errors is None:
            known.errors = device.ecc_uncorrected
        if known.pages is None:
            known.pages = device.retired_pages
        if known.links is None:
            known.links = device.nvlinks_up
