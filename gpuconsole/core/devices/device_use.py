"""What attempts held and what they did with it: devices for a time, their use and their energy.

Times are seconds; a device-second is one device for one second. A report reads a hundred thousand
of these: named tuples are made in a fifth of the time of frozen data classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class DeviceUse(NamedTuple):
    """What was measured of an attempt on the devices of one model on one host.

    Of a device that several jobs hold each job has an equal part.
    """

    job: str
    attempt: int
    created_at: float
    """The attempt's own: numbers of attempts that never started are given again."""
    host: str
    model: str
    devices: int
    used_s: float = 0.0
    """Device-seconds in which a kernel ran, of those below."""
    use_known_s: float = 0.0
    """Device-seconds over which the use was measured."""
    energy_j: float = 0.0
    """Joules drawn over the device-seconds below."""
    energy_known_s: float = 0.0
    """Device-seconds over which the power was measured."""
    seen_at: float = 0.0
    """When the use of all of them was last known; 0 for never."""
    busy_at: float | None = None
    """When one of them was last in use; None for never."""


class Holding(NamedTuple):
    """An attempt on one host: the devices that it held there, and for whom."""

    job: str
    attempt: int
    name: str
    user: str
    account: str
    project: str
    host: str
    uuids: tuple[str, ...]
    devices: int
    """How many; of a cluster's job the UUIDs are not known."""
    since: float
    until: float | None
    """None while it holds them."""
    uses: tuple[DeviceUse, ...] = ()
    shared: bool = False
    """Whether another attempt held one of the devices when this one began."""
    mean_use: float | None = None
    """Mean percent of use, where the history of estimates has it: for runs that were not
    measured as above."""
    mean_model: str = ""
    """The model of the devices in that history."""


class HeldSums(NamedTuple):
    """Sums over jobs that each held the devices of one model on one host, alone and once."""

    user: str
    account: str
    """"" unless it is asked for, and so is the project."""
    project: str
    host: str
    model: str
    month: int
    """The number of the month among those of the time that is asked for; else 0."""
    jobs: int
    """As many as attempts."""
    held_s: float
    used_s: float
    use_known_s: float
    energy_j: float
    energy_known_s: float


def merged_spans(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans of time in order, those that touch as one."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged
