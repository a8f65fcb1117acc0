"""Devices on which a script may be measured: idle, and of the kind that placement would choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuconsole.core.containers import Lease
from gpuconsole.core.estimate import Estimate
from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import RefusedError
from gpuconsole.placement import Candidate
from gpuconsole.placement.engine.device_state import is_empty
from gpuconsole.preflight.roofline import work_of
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.slurm_jobs import cluster_of
from gpuconsole.session.fleet.leases import LeaseBoard, marked
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.plan import Outlook
from gpuconsole.session.queue.planner import Plan, Situation

Taken = frozenset[tuple[str, str]]
"""Devices by host and UUID."""


@dataclass(frozen=True, slots=True)
class Spare:
    """A device that nothing uses, wants or is about to use."""

    host: Host
    device: Device


class SpareDevices:
    """Finds them in the lab as it is."""

    def __init__(
        self, context: Context, placer: Placer, leases: LeaseBoard, outlook: Outlook
    ) -> None:
        self._context = context
        self._placer = placer
        self._leases = leases
        self._outlook = outlook

    async def find(
        self, task: Task, estimate: Estimate, host: str = "", user: str = ""
    ) -> tuple[Spare, ...]:
        """Return the devices on which placement would start a task now and that are idle, the
        better ones first; with `host` those of that host alone, with `user` by their quotas.

        RefusedError where the user's are used up.
        """
        if cluster_of(task):
            return ()
        await self._leases.refresh()
        journal = self._context.journal
        jobs, snapshot = journal.jobs(), self._context.hosts.snapshot()
        if user:
            now = self._context.clock.now()
            if full := self._placer.refused(task, user, jobs, snapshot, now):
                raise RefusedError("The quota is used up", full)
        if host:
            hosts = tuple(candidate for candidate in snapshot.hosts if candidate.name == host)
            snapshot = replace(snapshot, hosts=hosts)
        situation = Situation(
            jobs,
            marked(snapshot, self._leases.silent()),
            self._context.clock.now(),
            leases=self._leases.others(journal.id),
        )
        decision = self._placer.decide(task, estimate.memory, situation, work_of(estimate))
        taken = taken_devices(jobs, self._leases.seen(), self._outlook.plan)
        return idle_devices(decision.candidates, snapshot, taken)


def idle_devices(
    candidates: Sequence[Candidate], snapshot: FleetSnapshot, taken: Taken
) -> tuple[Spare, ...]:
    """Return the idle devices among candidates that are of the kind of the best."""
    kind = _kind(candidates[0].devices[0]) if candidates and candidates[0].devices else None
    spares: dict[str, Spare] = {}
    for place in (place for candidate in candidates for place in candidate.places):
        host = snapshot.host(place.host)
        for device in place.devices if host is not None else ():
            if _kind(device) == kind and (place.host, device.uuid) not in taken and _idle(device):
                assert host is not None
                spares.setdefault(device.uuid, Spare(host, device))
    return tuple(spares.values())


def taken_devices(jobs: Iterable[Job], leases: Mapping[str, Sequence[Lease]], plan: Plan) -> Taken:
    """Return the devices that are leased, or on which a job runs, starts or is about to start."""
    taken = {(host, lease.uuid) for host, seen in leases.items() for lease in seen}
    for job in jobs:
        if job.attempt is not None and job.state.active:
            taken |= {(part.host, uuid) for part in job.attempt.parts for uuid in part.device_uuids}
    for choice in plan.choices:
        taken |= {(choice.host, uuid) for uuid in choice.device_uuids}
        taken |= {(place.host, device.uuid) for place in choice.others for device in place.devices}
    return frozenset(taken)


def _idle(device: Device) -> bool:
    return is_empty(device) and not (device.lost or device.divided)


def _kind(device: Device) -> tuple[str, str, float | None]:
    return device.backend, device.model, device.memory_total_mib
