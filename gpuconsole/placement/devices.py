"""How many devices a job gets when its task leaves that open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Task
from gpuconsole.placement.model import Policy

_STEPS = (2, 4, 8, 16)


def devices_wanted(
    task: Task,
    need_for: Callable[[int], float | None],
    snapshot: FleetSnapshot,
    policy: Policy,
) -> int:
    """Return the number of devices for a task.

    The task's own number wins. Left open (`num_gpus_estimate: auto`) it is 1, unless the task has
    a distributed strategy and no device of the fleet is large enough: then it is the smallest of
    2, 4, 8, 16 whose part of the batch fits. `need_for(n)` is the upper bound of memory (MiB) per
    device when the batch is divided among n, or None when it cannot be told.
    """
    if task.devices is not None:
        return task.devices
    if not task.distributed_strategy:
        return 1
    threshold = task.threshold(policy.memory_threshold)
    groups: Counter[tuple[str, str, float]] = Counter(
        (host.name, device.model, threshold * (device.memory_total_mib or 0.0))
        for host in snapshot.hosts
        for device in host.devices
        if device.backend == task.backend
    )
    for count in (1, *_STEPS):
        limit = max((key[2] for key, size in groups.items() if size >= count), default=0.0)
        need = need_for(count) if limit else None
        if need is not None and need <= limit:
            return count
    return 1
