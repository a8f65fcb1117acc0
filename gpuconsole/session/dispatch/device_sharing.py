"""Two jobs on one device: which may share, the limit of each, and the current pairs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.devices.device_sharing import Share
from gpuconsole.core.fleet import Host
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.util.lazy_dataclass import dataclass

BOUND_BACKENDS = ("gpu", "dcu")
"""Where Paddle's allocator keeps to FLAGS_gpu_memory_limit_mb: it is asked in the CUDA and ROCm
allocator alone (Paddle 3.3, gpu_info.cc)."""
MEMORY_FLAG = "FLAGS_gpu_memory_limit_mb"
"""MiB that Paddle's allocator may take from each device; 0 for no limit. The CUDA context and what
libraries take on their own do not count."""


def willing(job: Job) -> bool:
    """Tell whether a job may share its device where its lab allows that.

    One that had to make room for another once is not put beside one again.
    """
    task = job.task
    crowded = any(attempt.ended_by == "crowded-out" for attempt in job.attempts)
    alone = task.exclusive or crowded or task.backend not in BOUND_BACKENDS
    return task.share and not alone and job.estimate_mib is not None


def share_of(job: Job, attempt: Attempt, settings: LabSettings, host: Host | None) -> Share | None:
    """Return what an attempt takes of its device where it lets another beside it, else None."""
    gang = job.attempt is not None and job.attempt.members
    single = len(attempt.device_uuids) == 1 and not gang
    if not settings.sharing or not single or not willing(job):
        return None
    devices = () if host is None else host.devices
    device = next((device for device in devices if device.uuid in attempt.device_uuids), None)
    if device is None or device.memory_total_mib is None or not job.estimate_mib:
        return None
    limit = job.task.threshold(settings.memory_threshold) * device.memory_total_mib
    return Share(job.estimate_mib, limit, attempt.shared)


def memory_variables(job: Job, share: Share | None) -> dict[str, str]:
    """Return the variables by which Paddle keeps to a job's bound on a device that it shares.

    The context is not Paddle's to count, so it comes off. A lower limit of the task's own takes
    precedence.
    """
    if share is None:
        return {}
    memory = (job.estimate or {}).get("memory")
    context = memory.get("context_mib") if isinstance(memory, Mapping) else None
    context_mib = float(context) if isinstance(context, (int, float)) else 0.0
    bound = max(1, math.floor(share.memory_mib - context_mib))
    own = job.task.env.get(MEMORY_FLAG, "")
    lower = own.isascii() and own.isdigit() and 0 < int(own[:18]) < bound
    return {MEMORY_FLAG: own if lower else str(bound)}


@dataclass(frozen=True, slots=True)
class Seat:
    """A job's place on a device."""

    job: str
    name: str
    since: float
    own: bool
    """Whether it is of this journal."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two jobs on one device; at least one of them is of this journal."""

    host: str
    uuid: str
    first: Seat
    later: Seat

    def beside(self, job: str) -> Seat:
        """Return the seat of the other job."""
        return self.first if job == self.later.job else self.later


def pairs(jobs: Sequence[Job], others: Mapping[str, Sequence[Lease]]) -> tuple[Pair, ...]:
    """Return who shares a device with whom; `others` are the leases of other journals, by host."""
    seats: dict[tuple[str, str], list[tuple[bool, Seat]]] = defaultdict(list)
    for job in jobs:
        attempt = job.attempt
        if job.state.active and attempt is not None:
            seat = Seat(job.id, job.task.name, attempt.created_at, own=True)
            for part in attempt.parts:
                for uuid in part.device_uuids:
                    seats[part.host, uuid].append((attempt.shared, seat))
    for host, leases in others.items():
        for lease in leases:
            if (host, lease.uuid) in seats:
                beside = lease.share is not None and lease.share.beside
                theirs = Seat(lease.job, f"a job of {lease.user}", lease.since, own=False)
                seats[host, lease.uuid].append((beside, theirs))
    pairs_found = []
    for (host, uuid), here in seats.items():
        if len(here) == 2:
            # Clocks of consoles differ: who came beside another says so itself.
            first, later = sorted(here, key=lambda entry: (entry[0], entry[1].since, entry[1].job))
            pairs_found.append(Pair(host, uuid, first[1], later[1]))
    return tuple(pairs_found)
