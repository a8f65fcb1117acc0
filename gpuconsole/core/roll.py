"""What all who look at a whole fleet ask of each host, read once for them.

Several look at each picture of the fleet, and nearly always find the same hosts in the same states.
The records of a thousand hosts take long to fetch; these lists do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconsole.core.fleet import Host, HostState


class Roll(NamedTuple):
    """What is read of hosts, by their places. Equal ones are cheap to compare."""

    names: tuple[str, ...]
    states: tuple[HostState, ...]
    devices: tuple[int, ...]
    """How many each host has."""
    sampled_at: tuple[float | None, ...]
    all_devices: int


def roll_of(hosts: Sequence[Host]) -> Roll:
    """Return the roll of a fleet; of the same tuple of hosts as before, the same roll."""
    global _latest
    before, roll = _latest
    if hosts is not before:
        roll = _read(hosts)
        if isinstance(hosts, tuple):
            # A list could change.
            _latest = hosts, roll
    return roll


def _read(hosts: Sequence[Host]) -> Roll:
    names = tuple([host.name for host in hosts])
    states = tuple([host.state for host in hosts])
    devices = tuple([len(host.devices) for host in hosts])
    sampled_at = tuple([host.sampled_at for host in hosts])
    return Roll(names, states, devices, sampled_at, sum(devices))


_latest: tuple[Sequence[Host], Roll] = ((), _read(()))
