"""Decide where a job runs, and in which order jobs are considered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.placement.model import Candidate, Decision, Holder, Policy, Rejection, Request
from gpuconsole.placement.rejections import rejections
from gpuconsole.placement.scores import candidates, groups_of
from gpuconsole.placement.survey import PERMANENT, Spot, Survey, lay_out, survey
from gpuconsole.placement.waiting import waiting


def decide(
    request: Request,
    snapshot: FleetSnapshot,
    holders: Mapping[str, Holder],
    policy: Policy,
    now: float,
) -> Decision:
    """Choose devices for one job, or say why it waits. `holders` maps device UUIDs to leases."""
    seen = survey(request, lay_out(snapshot), holders, policy, now, {})
    choices, lonely = candidates(seen)
    return _decision(seen, choices, lonely, rejections(seen, seen.refused + lonely))


def plan(
    requests: Sequence[Request],
    snapshot: FleetSnapshot,
    holders: Mapping[str, Holder],
    policy: Policy | Mapping[str, Policy],
    now: float,
) -> tuple[Decision, ...]:
    """Decide for a queue: by priority, then by submission; returned in that order.

    Each decision has the chosen candidate alone and no rejections, which `decide` gives. Devices
    chosen for a job are held against the later ones. A job that cannot start lets later ones
    pass, except on the host where it lacks fewest devices: what is free there stays kept for the
    first of equal jobs. `policy` may also map job ids to policies, for tasks that name their own.
    """
    layout = lay_out(snapshot)
    claims = dict(holders)
    reserved: dict[str, str] = {}
    own = {holder.job for holder in holders.values()}
    blocked: dict[object, Decision] = {}
    decisions = []
    for request in sorted(requests, key=lambda r: (-r.task.priority, r.waiting_since)):
        ranking = policy if isinstance(policy, Policy) else policy[request.job]
        shape = None if request.job in own else _shape(request, ranking, now)
        if shape in blocked:
            # Claims only grow along the queue: what found nothing for an equal job finds nothing.
            decisions.append(replace(blocked[shape], job=request.job))
            continue
        seen = survey(request, layout, claims, ranking, now, reserved)
        choices, lonely = candidates(seen, 1)
        decision = _decision(seen, choices, lonely, ())
        decisions.append(decision)
        if decision.chosen is not None:
            claim = Holder(request.job, request.task.name, "this queue", now, _end(request, now))
            claims.update((device.uuid, claim) for device in decision.chosen.devices)
            continue
        if request.devices > 1:
            reserved.update((uuid, f"job {request.job}") for uuid in _to_keep(seen))
        if shape is not None:
            blocked[shape] = decision
    return tuple(decisions)


def _shape(request: Request, policy: Policy, now: float) -> object:
    """Return what decides whether a job finds any device: equal shapes get equal answers."""
    task = request.task
    ends = request.waiting_since + task.preference_timeout_s if task.preferred_devices else now
    return (
        request.need_mib,
        request.devices,
        task.threshold(policy.memory_threshold),
        task.backend,
        tuple(sorted(task.labels.items())),
        task.exclusive,
        (task.preferred_devices, ends) if ends > now else (),
    )


def _decision(
    seen: Survey,
    choices: tuple[Candidate, ...],
    lonely: list[tuple[Spot, str]],
    refusals: tuple[Rejection, ...],
) -> Decision:
    if choices:
        return Decision(seen.request.job, choices[0], choices, refusals, None)
    why = waiting(seen, seen.refused + lonely)
    return Decision(seen.request.job, None, (), refusals, why)


def _end(request: Request, now: float) -> float | None:
    length = request.task.run_time_s
    return None if length is None else now + length


def _to_keep(seen: Survey) -> list[str]:
    """Return the free devices of the host where a job that needs several lacks fewest."""
    count = seen.request.devices
    free = groups_of(seen.eligible)
    able: list[Spot] = [spot for spot, code in seen.refused if code not in PERMANENT]
    able += seen.eligible
    fitting = [key for key, group in groups_of(able).items() if len(group) >= count]
    best = max(fitting, key=lambda key: len(free.get(key, ())), default=None)
    return [] if best is None else [spot.device.uuid for spot in free.get(best, ())]
