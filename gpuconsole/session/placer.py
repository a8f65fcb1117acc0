"""The queue as placement sees it: who asks, who holds what, and which jobs must wait for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.estimate import Memory
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.placement import (
    Blocker,
    Candidate,
    Decision,
    Holder,
    Request,
    Waiting,
    decide,
    devices_wanted,
    largest_groups,
    need_on,
    plan,
    policy_for,
)
from gpuconsole.placement.devices import Groups
from gpuconsole.preflight.cost import Work, recorded_work
from gpuconsole.session.placing import Choice, Plan, Why

_ANOTHER_CONSOLE = "another console"


class Placer:
    """Places queued jobs by the lab's policy, and by a task's own where it names one."""

    def __init__(self, settings: LabSettings) -> None:
        self._settings = settings

    def plan(
        self,
        jobs: Sequence[Job],
        snapshot: FleetSnapshot,
        leases: Mapping[str, Sequence[Lease]],
        avoid: frozenset[tuple[str, str]],
        now: float,
    ) -> Plan:
        """Return choices for the queued ones among `jobs`, and why the others wait."""
        by_id = {job.id: job for job in jobs}
        waiting: dict[str, Why] = {}
        ready: list[Job] = []
        for job in jobs:
            if job.state is JobState.QUEUED:
                held_back = _dependency(job, by_id)
                if held_back is None:
                    ready.append(job)
                else:
                    waiting[job.id] = held_back
        auto = any(job.task.devices is None for job in ready)
        groups = largest_groups(snapshot) if auto else {}
        decisions = plan(
            [self._request_of(job, groups) for job in ready],
            snapshot,
            holders(jobs, leases, avoid, now),
            {job.id: policy_for(self._settings, job.task) for job in ready},
            now,
        )
        choices = []
        for decision in decisions:
            if decision.chosen is not None:
                choices.append(_choice(decision.job, decision.chosen))
            elif decision.waiting is not None:
                waiting[decision.job] = _why(decision.waiting)
        return Plan(tuple(choices), waiting)

    def decide(
        self,
        task: Task,
        memory: Memory | None,
        jobs: Sequence[Job],
        snapshot: FleetSnapshot,
        leases: Mapping[str, Sequence[Lease]],
        now: float,
        work: Work | None = None,
    ) -> Decision:
        """Return the decision for a task as if it were queued now, alone."""
        policy = policy_for(self._settings, task)
        need = None if memory is None else memory.high_mib
        optimizer = 0.0 if memory is None else memory.optimizer_mib
        groups = largest_groups(snapshot) if task.devices is None else {}
        request = self._request("", task, need, optimizer, groups, now)
        request = replace(request, work=work)
        return decide(request, snapshot, holders(jobs, leases, frozenset(), now), policy, now)

    def _request_of(self, job: Job, groups: Groups) -> Request:
        since = job.submitted_at if job.queued_at is None else job.queued_at
        optimizer = _optimizer_mib(job)
        request = self._request(job.id, job.task, job.estimate_mib, optimizer, groups, since)
        return replace(request, work=recorded_work(job.estimate))

    def _request(
        self,
        job: str,
        task: Task,
        need: float | None,
        optimizer: float,
        groups: Groups,
        since: float,
    ) -> Request:
        most = self._settings.memory_threshold
        count = devices_wanted(task, need, optimizer, groups, most)
        each = None if need is None else need_on(task, need, optimizer, count)
        return Request(job, task, each, count, since)


def holders(
    jobs: Sequence[Job],
    leases: Mapping[str, Sequence[Lease]],
    avoid: frozenset[tuple[str, str]],
    now: float,
) -> dict[str, Holder]:
    """Return who holds which device: this journal's attempts, then what was seen on the hosts."""
    found = {
        uuid: Holder(_ANOTHER_CONSOLE, _ANOTHER_CONSOLE, _ANOTHER_CONSOLE, now, None)
        for _, uuid in avoid
    }
    for seen in leases.values():
        for lease in seen:
            found[lease.uuid] = Holder(lease.job, lease.job, lease.user, lease.since, None)
    for job in jobs:
        attempt = job.attempt
        if job.state.active and attempt is not None:
            since = attempt.started_at or attempt.created_at
            length = job.task.run_time_s
            ends_at = None if length is None else since + length
            holder = Holder(job.id, job.task.name, job.user, since, ends_at)
            found.update((uuid, holder) for part in attempt.parts for uuid in part.device_uuids)
    return found


def _optimizer_mib(job: Job) -> float:
    """Return the optimizer's share of the estimate as the journal has it; 0 where it has none."""
    memory = (job.estimate or {}).get("memory")
    found = memory.get("optimizer_mib") if isinstance(memory, Mapping) else None
    return float(found) if isinstance(found, (int, float)) else 0.0


def _dependency(job: Job, jobs: Mapping[str, Job]) -> Why | None:
    for needed in job.task.after:
        other = jobs.get(needed)
        if other is None:
            reason = f"It comes after job {needed}, which this journal does not know."
            return Why("queued", reason, options=("Cancel it.",))
        if other.state is JobState.SUCCEEDED:
            continue
        blocker = {
            "job": other.id,
            "name": other.task.name,
            "user": other.user,
            "host": other.attempt.host if other.attempt else "",
            "uuid": "",
            "text": f"job {other.id} ({other.task.name}), {other.state}",
        }
        options: tuple[str, ...] = ()
        if other.state.ended:
            reason = f"It comes after job {other.id} ({other.task.name}), which {_ended(other)}."
            options = (f"Retry {other.id}.", "Cancel this one.")
        else:
            reason = f"It comes after job {other.id} ({other.task.name}), which is {other.state}."
        return Why("queued", reason, (blocker,), options=options)
    return None


def _ended(job: Job) -> str:
    return {JobState.OOM: "ran out of memory", JobState.CANCELLED: "was cancelled"}.get(
        job.state, "failed"
    )


def _choice(job: str, chosen: Candidate) -> Choice:
    first, *others = chosen.places
    return Choice(
        job,
        first.host,
        tuple(device.uuid for device in first.devices),
        tuple(device.index for device in first.devices),
        chosen.reasons,
        tuple(others),
        chosen.shared,
    )


def _blocker_text(blocker: Blocker) -> str:
    job = f"job {blocker.job} ({blocker.name})"
    return f"{blocker.uuid} on {blocker.host}: {job} of {blocker.user}"


def _why(waiting: Waiting) -> Why:
    blockers = tuple(
        {
            "job": blocker.job,
            "name": blocker.name,
            "user": blocker.user,
            "host": blocker.host,
            "uuid": blocker.uuid,
            "text": _blocker_text(blocker),
        }
        for blocker in waiting.blockers
    )
    return Why("queued", waiting.reason, blockers, waiting.estimated_start, waiting.options)
