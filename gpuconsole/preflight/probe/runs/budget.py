"""What further runs of the script may take: the time that is left, and the memory of this place."""

from __future__ import annotations

import math
import os
import resource
import time
from typing import TYPE_CHECKING

from . import linearity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..documents import Request, Run

ROOM = 0.8
"""Share of the memory that is free which a run may be expected to take."""
START_MIB = 600
"""What a process with Paddle takes beside tensors."""
UNCHECKED = (
    "Two batch sizes alone were run, {} and {}: {} for a third, which would have confirmed that "
    "memory is a line in the batch."
)
LATER_S = 15.0
"""Longest time in which a run with data goes on after its first steps."""
LATER_SHARE = 0.2
"""Share of the time that is left which that may take."""
WITHOUT_DATA_S = 162.0
"""The longest time for an answer of the tier `meta` where the request has none: what has no answer
by then prepares data for minutes, or never ends."""
NO_TIME, NO_ROOM = "there was no time", "there was not enough memory"

_ENDS: list[float] = []
"""When an answer has to be there, of a clock that only goes forward."""
_LIMITS: list[float] = []
"""After how many seconds that is."""


def begin(limit_s: float | None) -> None:
    """Begin the time of a measurement; None for no limit."""
    _LIMITS[:] = [] if limit_s is None else [limit_s]
    _ENDS[:] = [time.monotonic() + limit for limit in _LIMITS]


def over() -> str:
    """Return why a run has no answer once the time of a measurement is over."""
    return f"not answered within {_LIMITS[0]:.0f} s" if _LIMITS else NO_TIME


def left_s() -> float:
    """Return the seconds that are left."""
    return _ENDS[0] - time.monotonic() if _ENDS else math.inf


def afforded(request: Request, size: int, runs: Sequence[Run]) -> int | None:
    """Return the batch size of the next run: as wanted, a smaller one where that would take too
    long or too much; None where the runs before it tell enough, or a third cannot be."""
    if request["mode"] != "traced" or not runs:
        return size
    why = refusal(size, runs)
    if len(runs) == 1:
        return (why and fewer(runs[0]["batch"])) or size
    if linearity.proportional(*runs):
        return None
    if why:
        unchecked(runs, why)
    return None if why else size


def fewer(batch: int) -> int | None:
    """Return a batch size that is smaller than one that was run, None where there is none."""
    return batch // 2 or None


def unchecked(runs: Sequence[Run], why: str) -> None:
    """Say that two runs tell a line which no third confirms."""
    runs[-1]["flags"] = sorted({*runs[-1]["flags"], "bound"})
    runs[0]["notes"].append(UNCHECKED.format(runs[0]["batch"], runs[-1]["batch"], why))


def later(request: Request) -> Request:
    """Return how long a run that computes with data may go on after its first steps, as a part of
    its request: so that others have time too."""
    if request["mode"] != "traced":
        return {}
    return {"later_s": min(LATER_S, max(0.0, left_s() * LATER_SHARE))}


def refusal(size: int, runs: Sequence[Run]) -> str:
    """Return why a run at a batch size may not be, as far as others tell; "" where it may."""
    last = max(runs, key=lambda run: run["batch"])
    grows = max(1.0, size / last["batch"])
    if last["seconds"] * grows + last.get("later_s", 0.0) > left_s():
        return NO_TIME
    return NO_ROOM if linearity.peak(last) * grows > room_bytes() else ""


def room_bytes() -> float:
    """Return the bytes that tensors of a run may be expected to take."""
    free = [_limit(), _available(), *_of_group()]
    return max(0.0, ROOM * min(free) - START_MIB * 2**20)


def _limit() -> float:
    most = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return math.inf if most == resource.RLIM_INFINITY else float(most)


def _available() -> float:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return math.inf


def _of_group() -> list[float]:
    """Return what the container may still take, where it has a limit."""
    for most, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):  # fmt: skip
        limit, taken = _read(most).strip(), _read(used).strip()
        if limit.isdigit() and taken.isdigit():
            return [float(limit) - float(taken)]
    return []


def _read(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
