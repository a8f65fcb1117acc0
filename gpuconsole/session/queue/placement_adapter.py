"""The queue as placement sees it: who asks, who holds what, and which jobs must wait for others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuconsole.config import LabSettings
from gpuconsole.core.devices.host_faults import PAUSES_S
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.estimate import Memory
from gpuconsole.core.fleet import FleetSnapshot, Host
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.units import parse_time
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement import (
    Board,
    Candidate,
    Decision,
    Holder,
    Policy,
    Request,
    decide,
    devices_wanted,
    largest_groups,
    need_on,
    pass_over,
)
from gpuconsole.placement.engine.device_state import host_fault
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.search import fitting_hosts
from gpuconsole.placement.model import ANOTHER_CONSOLE, FREE, Rules, Shun
from gpuconsole.placement.rules.fair_share import Usage
from gpuconsole.placement.rules.quotas import Limits
from gpuconsole.placement.rules.rules import LabRules, any_image, limits_of
from gpuconsole.placement.sizing.gpu_count import DeviceCount, Groups, Room, free_devices
from gpuconsole.preflight.roofline import Work, recorded_work
from gpuconsole.session.dispatch.device_sharing import pairs, willing
from gpuconsole.session.dispatch.slurm_jobs import cluster_of
from gpuconsole.session.fleet.host_faults import behind_others, faults_of, shunned
from gpuconsole.session.images.availability import ImageBoard
from gpuconsole.session.queue.dependencies import Order
from gpuconsole.session.queue.job_outlook import Prospect, prospect_of
from gpuconsole.session.queue.planner import Choice, Plan, Situation, Why
from gpuconsole.session.queue.policies import Policies
from gpuconsole.session.queue.usage_ledger import Ledger, devices_by_host
from gpuconsole.session.queue.why import Reasons, backing_off


@dataclass(frozen=True, slots=True)
class Standing:
    """The queue at one moment, in placement's words."""

    requests: Sequence[Request]
    """Of the jobs that may start, in no order."""
    holders: Mapping[str, Holder]
    policies: Mapping[str, Policy]
    lab: Policy
    rules: Rules
    counts: Mapping[str, DeviceCount]
    held_back: Mapping[str, Why]
    """Queued jobs that must wait for others, and why."""
    usage: Usage
    """Who has had how much of the lab until now."""


class Placer:
    """Places queued jobs by the lab's policy, and by a task's own where it names one."""

    def __init__(
        self,
        settings: LabSettings,
        *,
        user: str = "",
        images: ImageBoard | None = None,
        policies: Policies | None = None,
    ) -> None:
        """`user` asks for tasks that are not queued; `images` knows which host can run which
        image; `policies` know the trained weights."""
        self._settings = settings
        self._policies = policies or Policies(settings)
        self._user = user
        self._images = images
        self._limits = limits_of(settings)
        # A large plan is made beside the event loop, on which single tasks are decided meanwhile.
        self._ledger = Ledger(settings)
        self._other = Ledger(settings)
        self._planning = threading.Lock()

    def remember(self, seen: Sequence[Observation]) -> None:
        """Take in what was seen of runs before this console was opened."""
        self._ledger.remember(seen)
        self._other.remember(seen)

    def plan(self, situation: Situation) -> Plan:
        """Return choices for queued jobs, and why the others wait."""
        with self._planning:
            self._ledger.follow(situation.jobs, situation.snapshot)
            if not any(job.state is JobState.QUEUED for job in situation.jobs):
                return Plan()
            return self._plan(situation)

    def standing(self, situation: Situation) -> Standing:
        """Return the queue as placement sees it now; for looking ahead."""
        with self._planning:
            self._ledger.follow(situation.jobs, situation.snapshot)
            standing = self._standing(situation)
            return replace(standing, usage=standing.usage.copy())

    def _plan(self, situation: Situation) -> Plan:
        standing, now = self._standing(situation), situation.now
        outcome, _ = pass_over(
            standing.requests,
            Board.of(situation.snapshot, standing.holders),
            standing.policies,
            now,
            standing.rules,
            lab=standing.lab,
            shares=standing.usage,
        )
        choices = tuple(
            _choice(
                start.request.job,
                start.candidate,
                standing.counts[start.request.job],
                self._note(start.request.task, start.candidate, situation.snapshot),
            )
            for start in outcome.started
            if start.candidate is not None
        )
        estimates = {job.id: job.estimate for job in situation.jobs if job.estimate is not None}
        reasons = Reasons(
            standing.held_back, outcome, standing.policies, now, standing.rules, estimates
        )
        return Plan(choices, reasons, outcome.preempted)

    def _standing(self, situation: Situation) -> Standing:
        jobs, snapshot, now = situation.jobs, situation.snapshot, situation.now
        order, ledger = Order(jobs), self._ledger
        held_back: dict[str, Why] = {}
        ready: list[Job] = []
        for job in jobs:
            if job.state is JobState.QUEUED and not cluster_of(job.task):
                why = backing_off(job, now) or order.held_back(job)
                if why is None:
                    ready.append(job)
                else:
                    held_back[job.id] = why
        grace = self._settings.lease_grace
        held = holders(situation, ledger, grace)
        counts = self._device_counts(ready, snapshot, held, ledger)
        faulty = [host for host in snapshot.hosts if host.faults]
        untried = bool(faulty) and not all(map(faults_of, ready))
        return Standing(
            [
                _request_of(
                    job, counts[job.id].devices, ledger, self._shunned(job, faulty, now, untried)
                )
                for job in ready
            ],
            held,
            {job.id: self._policies.of(job.task, snapshot) for job in ready},
            self._policies.lab(snapshot),
            self._rules([job.task for job in ready], snapshot, ledger, now),
            counts,
            held_back,
            ledger.usage,
        )

    def decide(
        self, task: Task, memory: Memory | None, situation: Situation, work: Work | None = None
    ) -> Decision:
        """Return the decision for a task as if it were queued now, alone."""
        snapshot, now = situation.snapshot, situation.now
        policy = self._policies.of(task, snapshot)
        ledger = self._other
        ledger.follow(situation.jobs, snapshot)
        held = holders(situation, ledger, self._settings.lease_grace)
        groups = largest_groups(snapshot, held) if task.devices is None else {}
        need = None if memory is None else memory.high_mib
        asked = Job("", task, self._user, JobState.QUEUED, now, estimate_mib=need)
        room = Room(None, self._ceiling(asked, ledger))
        count = self._device_count(asked, memory or Memory(), groups, work, room)
        apart = self._shunned(asked, [host for host in snapshot.hosts if host.faults], now)
        request = _request(asked, task, count.devices, memory or Memory(), work, ledger, apart)
        rules = self._rules([task], snapshot, ledger, now)
        return _reasoned(decide(request, snapshot, held, policy, now, rules), count)

    def refused(
        self, task: Task, user: str, jobs: Sequence[Job], fleet: FleetSnapshot, now: float
    ) -> str:
        """Return why a user's quotas let a task of one device start nowhere now; "" where they let
        it."""
        self._other.follow(jobs, fleet)
        refusal = self._limits.refused(
            Request("", task, None, 1, 0.0, user=user), self._other.use, now
        )
        return "" if refusal is None else refusal.sentence

    def fitting(
        self, job: Job, jobs: Sequence[Job], snapshot: FleetSnapshot, now: float
    ) -> frozenset[str]:
        """Return the hosts that could run a job with the devices it last had, or their part of
        it, were they free and well."""
        self._other.follow(jobs, snapshot)
        attempt = job.attempt
        devices = 1 if attempt is None else sum(devices_by_host(attempt).values())
        request, board = _request_of(job, devices, self._other), Board.of(snapshot)
        rules = self._rules([job.task], snapshot, self._other, now)
        policy = self._policies.of(job.task, snapshot)
        return fitting_hosts(profile(request, board, policy, now, rules), board)

    def prospects(
        self, asked: Sequence[Job], jobs: Sequence[Job], snapshot: FleetSnapshot, now: float
    ) -> list[Prospect]:
        """Return what can be foreseen of each of some jobs by the journal they are in."""
        self._other.follow(jobs, snapshot)
        return [prospect_of(job, self._other, now) for job in asked]

    def _rules(
        self, tasks: Sequence[Task], snapshot: FleetSnapshot, ledger: Ledger, now: float
    ) -> Rules:
        suits = any_image if self._images is None else self._images.rule(tasks, snapshot)
        has_interruptible = any(host.interruptible for host in snapshot.hosts)
        swept = any(task.at_most is not None and task.sweep for task in tasks)
        if self._limits == Limits() and suits is any_image and not has_interruptible and not swept:
            return FREE
        # The reasons are worked out later, when use has gone on.
        return LabRules(self._limits, ledger.use.copy(), now, suits)

    def _shunned(
        self, job: Job, faulty: Sequence[Host], now: float, untried: bool = False
    ) -> Mapping[str, Shun] | None:
        """Return the hosts to which a job does not go now, though they might do. `faulty` are
        those that could not start jobs lately; `untried` tells whether jobs wait that no host has
        failed to start."""
        if not faulty and not any(attempt.at_fault for attempt in job.attempts):
            return None
        # One that is set aside is left out for all jobs alike.
        failing = {host.name for host in faulty if host_fault(host) != "aside"}
        shunned_hosts, images = shunned(job, failing, now), self._images
        if untried and faults_of(job):
            both = (*shunned_hosts.items(), *behind_others(faulty, now).items())
            shunned_hosts = dict(sorted(both, key=lambda item: item[1].until))
        if images is None:
            return shunned_hosts
        for host in faulty:
            for streak in host.faults:
                if streak.closed and streak.image == images.image_of(job.task, host.name):
                    until = max(streak.until, now + PAUSES_S[0])
                    shunned_hosts[host.name] = Shun(until, f"{host.name}: {streak.words(now)}.")
        return shunned_hosts

    def _note(self, task: Task, chosen: Candidate, snapshot: FleetSnapshot) -> str:
        host = snapshot.host(chosen.host)
        return "" if self._images is None or host is None else self._images.note(task, host)

    def _device_counts(
        self,
        ready: Sequence[Job],
        snapshot: FleetSnapshot,
        held: Mapping[str, Holder],
        ledger: Ledger,
    ) -> dict[str, DeviceCount]:
        """Return how many devices each job gets: a number that is left open grows into what is
        free and no other job waits for."""
        auto = any(job.task.devices is None for job in ready)
        groups = largest_groups(snapshot, held) if auto else {}
        spare = Counter(free_devices(snapshot, held)) if auto else Counter[str]()
        for job in ready:
            spare[job.task.backend] -= job.task.devices or 1
        counts = {}
        for job in ready:
            room = Room(max(0, spare[job.task.backend]), self._ceiling(job, ledger))
            work = recorded_work(job.estimate)
            counts[job.id] = self._device_count(job, _memory_of(job), groups, work, room)
        return counts

    def _ceiling(self, job: Job, ledger: Ledger) -> int | None:
        """Return how many devices quotas leave to a job."""
        asks = Request(job.id, job.task, None, 1, 0.0, user=job.user)
        return None if self._limits == Limits() else self._limits.room(asks, ledger.use)

    def _device_count(
        self, job: Job, memory: Memory, groups: Groups, work: Work | None, room: Room
    ) -> DeviceCount:
        return devices_wanted(
            job.task,
            job.estimate_mib,
            memory.optimizer_mib,
            groups,
            self._settings.memory_threshold,
            work,
            memory.gradients_mib,
            room,
        )


def _request_of(
    job: Job, count: int, ledger: Ledger, shunned: Mapping[str, Shun] | None = None
) -> Request:
    task = job.task if willing(job) or not job.task.share else replace(job.task, share=False)
    work = recorded_work(job.estimate)
    return _request(job, task, count, _memory_of(job), work, ledger, shunned)


def _request(
    job: Job,
    task: Task,
    count: int,
    memory: Memory,
    work: Work | None,
    ledger: Ledger,
    shunned: Mapping[str, Shun] | None,
) -> Request:
    """Return what a job asks for, with what is known of its use, length and deadline."""
    need, deadline = job.estimate_mib, task.deadline
    return Request(
        job=job.id,
        task=task,
        need_mib=None if need is None else need_on(task, need, memory.optimizer_mib, count),
        devices=count,
        waiting_since=job.submitted_at if job.queued_at is None else job.queued_at,
        work=work,
        user=job.user,
        run_time_s=ledger.run_time_s(job, count),
        utilization=ledger.utilization(job),
        deadline=parse_time(deadline) if deadline else None,
        shunned=shunned,
    )


def holders(situation: Situation, ledger: Ledger, grace_s: float) -> dict[str, Holder]:
    """Return who holds which device: this journal's attempts, then what was seen on the hosts,
    where the claim of a console that has ended stays for `grace_s` seconds."""
    jobs, leases, now = situation.jobs, situation.leases, situation.now
    avoided = {uuid for _, uuid in situation.avoid}
    another = Holder(
        ANOTHER_CONSOLE, ANOTHER_CONSOLE, ANOTHER_CONSOLE, now, None, claimed_until=now + grace_s
    )
    holders_by_device = dict.fromkeys(avoided, another)
    for seen in leases.values():
        for lease in seen:
            share = lease.share
            holders_by_device[lease.uuid] = Holder(
                lease.job,
                lease.job,
                lease.user,
                lease.since,
                None,
                need_mib=None if share is None else share.memory_mib,
                share=share is not None,
                claimed_until=lease.since + grace_s,
            )
    for job in jobs:
        attempt = job.attempt
        if job.state.active and attempt is not None:
            holder = _holder(job, attempt, now, ledger)
            for uuid in (uuid for part in attempt.parts for uuid in part.device_uuids):
                holders_by_device[uuid] = _together(
                    holders_by_device.get(uuid), holder, came_second=attempt.shared
                )
    # Two are on it, or another console came beside its holder a moment ago.
    full = {pair.uuid for pair in pairs(jobs, leases)} | avoided
    return {
        uuid: replace(holder, share=False) if uuid in full and holder.share else holder
        for uuid, holder in holders_by_device.items()
    }


def _together(earlier: Holder | None, holder: Holder, *, came_second: bool) -> Holder:
    """Return who holds a device of which somebody may be known already."""
    if earlier is None or earlier.job == holder.job or earlier.name == ANOTHER_CONSOLE:
        return holder
    first, second = (earlier, holder) if came_second else (holder, earlier)
    return replace(first, beside=second)


def _holder(job: Job, attempt: Attempt, now: float, ledger: Ledger) -> Holder:
    task, estimate = job.task, job.estimate_mib
    devices = sum(devices_by_host(attempt).values())
    return Holder(
        job=job.id,
        name=task.name,
        user=job.user,
        since=attempt.started_at or attempt.created_at,
        ends_at=ledger.ends_at(job, attempt, now),
        need_mib=None
        if estimate is None
        else need_on(task, estimate, _memory_of(job).optimizer_mib, devices),
        utilization=ledger.utilization(job),
        share=willing(job),
        priority=task.priority,
        account=task.account,
        sweep=task.sweep,
        resumable=task.resumable,
    )


def _memory_of(job: Job) -> Memory:
    """Return what matters of an estimate as the journal has it; 0 where it has none."""
    high = job.estimate_mib or 0.0
    said = job.estimate.get("memory") if job.estimate else None
    if not isinstance(said, Mapping):
        return Memory(high_mib=high)
    parts = {name: said.get(name) for name in ("optimizer_mib", "gradients_mib")}
    sizes = {name: float(size) for name, size in parts.items() if isinstance(size, (int, float))}
    return Memory(**sizes, high_mib=high)


def _reasoned(decision: Decision, count: DeviceCount) -> Decision:
    """Return the decision with the reason for the number of devices in its candidates."""
    if not count.reason or decision.chosen is None:
        return decision
    candidates = tuple(
        replace(candidate, reasons=(count.reason, *candidate.reasons))
        for candidate in decision.candidates
    )
    return replace(decision, chosen=candidates[0], candidates=candidates)


def _choice(job: str, chosen: Candidate, count: DeviceCount, note: str) -> Choice:
    first, *others = chosen.places
    return Choice(
        job,
        first.host,
        tuple(device.uuid for device in first.devices),
        tuple(device.index for device in first.devices),
        tuple(filter(None, (count.reason, *chosen.reasons, note))),
        tuple(others),
        chosen.shared,
    )
