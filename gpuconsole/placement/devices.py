"""How many devices a job gets when its task leaves that open, and what each of them must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task

STEPS = (1, 2, 4, 8, 16)
"""Numbers of devices that `auto` tries."""
Groups = Mapping[tuple[str, int], float]
"""Memory (MiB) of the largest model of which a host has so many: by back end and number."""


def need_on(task: Task, need_mib: float, optimizer_mib: float, count: int) -> float:
    """Return the upper bound of memory (MiB) on each of `count` devices; `need_mib` is one's alone.

    Data parallel training (`ddp`) keeps everything on every device, and a batch size counts per
    device: more devices never make a job fit. `sharding` divides at least the optimizer's states
    (its first stage; the others divide more, so the bound holds for them too).
    """
    if task.distributed_strategy != "sharding":
        return need_mib
    return need_mib - optimizer_mib * (1.0 - 1.0 / count)


def devices_wanted(
    task: Task, need_mib: float | None, optimizer_mib: float, groups: Groups, most: float
) -> int:
    """Return the number of devices for a task; `most` is the lab's memory threshold.

    The task's own number wins. Left open (`auto`) it is the smallest of 1, 2, 4, 8, 16 on which
    each one's part fits, and 1 where none is or memory cannot be told.
    """
    if task.devices is not None:
        return task.devices
    if need_mib is None:
        return 1
    threshold = task.threshold(most)
    fitting = (
        count
        for count in STEPS
        if need_on(task, need_mib, optimizer_mib, count)
        <= threshold * groups.get((task.backend, count), 0.0)
    )
    return next(fitting, 1)


def largest_groups(snapshot: FleetSnapshot) -> Groups:
    """Return the largest models of a fleet, by how many of them a host has."""
    present = Counter(
        (host.name, device.model, device.memory_total_mib or 0.0, device.backend)
        for host in snapshot.hosts
        for device in host.devices
    )
    largest: dict[tuple[str, int], float] = {}
    for (_, _, memory, backend), size in present.items():
        for count in STEPS:
            if count <= size:
                largest[backend, count] = max(memory, largest.get((backend, count), 0.0))
    return largest
