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
    Board,
    Candidate,
    Decision,
    Holder,
    Request,
    decide,
    devices_wanted,
    lab_policy,
    largest_groups,
    need_on,
    pass_over,
    policy_for,
)
from gpuconsole.placement.devices import Groups, Wish
from gpuconsole.preflight.cost import Work, recorded_work
from gpuconsole.session.placing import Choice, Plan, Why
from gpuconsole.session.reasons import Reasons

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
        held = holders(jobs, leases, avoid, now)
        groups = largest_groups(snapshot, held) if auto else {}
        wishes = {job.id: self._wish_of(job, groups) for job in ready}
        policies = {job.id: policy_for(self._settings, job.task) for job in ready}
        outcome, _ = pass_over(
            [_request_of(job, wishes[job.id].devices) for job in ready],
            Board.of(snapshot, held),
            policies,
            now,
            lab=lab_policy(self._settings),
        )
        choices = tuple(
            _choice(start.request.job, start.candidate, wishes[start.request.job])
            for start in outcome.started
            if start.candidate is not None
        )
        return Plan(choices, Reasons(waiting, outcome, policies, now), outcome.preempted)

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
        held = holders(jobs, leases, frozenset(), now)
        groups = largest_groups(snapshot, held) if task.devices is None else {}
        wish = self._wish(task, memory or Memory(), groups, work, known=memory is not None)
        need = None if memory is None else memory.high_mib
        request = _request("", task, need, memory or Memory(), wish.devices, now)
        decision = decide(replace(request, work=work), snapshot, held, policy, now)
        return _reasoned(decision, wish)

    def _wish_of(self, job: Job, groups: Groups) -> Wish:
        work = recorded_work(job.estimate)
        known = job.estimate_mib is not None
        return self._wish(job.task, _memory_of(job), groups, work, known=known)

    def _wish(
        self, task: Task, memory: Memory, groups: Groups, work: Work | None, *, known: bool
    ) -> Wish:
        need = memory.high_mib if known else None
        most = self._settings.memory_threshold
        return devices_wanted(
            task, need, memory.optimizer_mib, groups, most, work, memory.gradients_mib
        )


def _request_of(job: Job, count: int) -> Request:
    since = job.submitted_at if job.queued_at is None else job.queued_at
    request = _request(job.id, job.task, job.estimate_mib, _memory_of(job), count, since)
    return replace(request, work=recorded_work(job.estimate))


def _request(
    job: str, task: Task, need: float | None, memory: Memory, count: int, since: float
) -> Request:
    each = None if need is None else need_on(task, need, memory.optimizer_mib, count)
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


def _memory_of(job: Job) -> Memory:
    """Return what matters of an estimate as the journal has it; 0 where it has none."""
    memory = (job.estimate or {}).get("memory")
    said = memory if isinstance(memory, Mapping) else {}
    parts = {name: said.get(name) for name in ("optimizer_mib", "gradients_mib")}
    known = {name: float(size) for name, size in parts.items() if isinstance(size, (int, float))}
    return Memory(**known, high_mib=job.estimate_mib or 0.0)


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


def _reasoned(decision: Decision, wish: Wish) -> Decision:
    """Return the decision whose candidates say why they have so many devices."""
    if not wish.reason or decision.chosen is None:
        return decision
    told = tuple(
        replace(candidate, reasons=(wish.reason, *candidate.reasons))
        for candidate in decision.candidates
    )
    return replace(decision, chosen=told[0], candidates=told)


def _choice(job: str, chosen: Candidate, wish: Wish) -> Choice:
    first, *others = chosen.places
    return Choice(
        job,
        first.host,
        tuple(device.uuid for device in first.devices),
        tuple(device.index for device in first.devices),
        (wish.reason, *chosen.reasons) if wish.reason else chosen.reasons,
        tuple(others),
        chosen.shared,
    )
