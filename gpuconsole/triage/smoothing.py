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
        past_device = past.get(device.uuid)
        if past_device is None:
            slowed = 1.0 if THERMAL.intersection(device.throttle) else 0.0
            past_device = past[device.uuid] = Past(
                at,
                device.utilization,
                slowed,
                device.ecc_uncorrected,
                device.retired_pages,
                device.nvlinks_up,
                power_w=device.power_w,
                power_limit_w=device.power_limit_w,
            )
        if device.processes is not past_device.processes:
            past_device.processes = device.processes
            _note_arrivals(past_device, at)
        if at <= past_device.at:
            continue
        if past_device.at != since:
            # The devices of a host are read together: one weight is that of all.
            since, weight = past_device.at, 1.0 - math.exp((past_device.at - at) / MEAN_S)
        past_device.at = at
        if device.throttle or past_device.slowed:
            slowed = 1.0 if THERMAL.intersection(device.throttle) else 0.0
            past_device.slowed += weight * (slowed - past_device.slowed)
        load = device.utilization
        if load is None or past_device.utilization is None:
            past_device.utilization = load
        else:
            past_device.utilization += weight * (load - past_device.utilization)
        watts = device.power_w
        if watts is None or past_device.power_w is None:
            past_device.power_w = watts
        else:
            past_device.power_w += weight * (watts - past_device.power_w)
        past_device.power_limit_w = device.power_limit_w
        if past_device.errors is None:
            past_device.errors = device.ecc_uncorrected
        if past_device.pages is None:
            past_device.pages = device.retired_pages
        if past_device.links is None:
            past_device.links = device.nvlinks_up


def _note_arrivals(past_device: Past, at: float) -> None:
    """Note since when each process of a device is there; nothing where they are those of before."""
    processes, arrived = past_device.processes, past_device.arrivals
    if len(processes) == len(arrived):
        for process in processes:
            if process.pid not in arrived:
                break
        else:
            return
    past_device.arrivals = {process.pid: arrived.get(process.pid, at) for process in processes}
