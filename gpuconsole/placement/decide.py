"""Where a job runs, or why it waits: the answers that people and screens ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.services import SERVICE
from gpuconsole.placement.engine import queue_pass
from gpuconsole.placement.engine.board import Board, Cell
from gpuconsole.placement.engine.eligibility import Survey, survey
from gpuconsole.placement.engine.job_profile import Profile, profile
from gpuconsole.placement.engine.queue_order import EVEN, Shares, ordered
from gpuconsole.placement.engine.queue_pass import Outcome
from gpuconsole.placement.engine.search import Pick, best_linked, best_single, pick
from gpuconsole.placement.explain.rejections import rejections
from gpuconsole.placement.explain.score_reasons import candidate
from gpuconsole.placement.explain.waiting import waiting
from gpuconsole.placement.model import (
    FREE,
    Candidate,
    Decision,
    Holder,
    Policy,
    Rejections,
    Request,
    Rules,
)

MAX_CANDIDATES = 20


def decide(
    request: Request,
    snapshot: FleetSnapshot,
    holders: Mapping[str, Holder],
    policy: Policy,
    now: float,
    rules: Rules = FREE,
) -> Decision:
    """Choose devices for one job, or say why it waits. `holders` maps device UUIDs to leases."""
    others = {uuid: each for uuid, each in holders.items() if each.job != request.job}
    return decide_on(request, Board.of(snapshot, others), policy, now, rules)


def decide_on(
    request: Request, board: Board, policy: Policy, now: float, rules: Rules = FREE
) -> Decision:
    """Decide for one job on a board, which stays as it is; refusals are worked out when read, and
    the board must not have changed then."""
    job_profile = profile(request, board, policy, now, rules)
    ruling = None if rules is FREE else rules.job(request, queue_pass.held_devices(board))
    choices = [] if ruling is not None else _choices(job_profile, board)

    def look() -> tuple[Survey, list[tuple[Cell, str]]]:
        seen = survey(job_profile, board)
        seen.ruling = ruling
        return seen, seen.refused + _lonely(seen, choices)

    refused = Rejections(lambda: rejections(*look()))
    if not choices:
        return Decision(request.job, None, (), refused, waiting(*look()))
    candidates = tuple(candidate(choice, job_profile, board) for choice in choices)
    return Decision(request.job, candidates[0], candidates, refused, None)


def plan(
    requests: Sequence[Request],
    snapshot: FleetSnapshot,
    holders: Mapping[str, Holder],
    policy: Policy | Mapping[str, Policy],
    now: float,
    rules: Rules = FREE,
    *,
    lab: Policy | None = None,
    shares: Shares = EVEN,
) -> tuple[Decision, ...]:
    """Decide for a queue; returned in the order in which jobs are considered.

    Each decision has the chosen candidate alone, without the rejections that `decide` adds.
    `policy` may also map job ids to policies, for tasks that name their own; `lab` orders the queue
    then.
    """
    outcome, queue = pass_over(
        requests, Board.of(snapshot, holders), policy, now, rules, lab=lab, shares=shares
    )
    candidates = {start.request.job: start.candidate for start in outcome.started}
    return tuple(
        _decision(request, candidates.get(request.job), outcome, policy, now, rules)
        for request in queue
    )


def pass_over(
    requests: Sequence[Request],
    board: Board,
    policy: Policy | Mapping[str, Policy],
    now: float,
    rules: Rules = FREE,
    *,
    lab: Policy | None = None,
    shares: Shares = EVEN,
) -> tuple[Outcome, list[Request]]:
    """Run one pass with reasons; return it and the queue in its order."""
    mode = policy if isinstance(policy, Policy) else lab or Policy()
    queue = ordered(requests, mode, now, shares)
    outcome = queue_pass.run(board, queue, policy, now, rules, lab=mode, explain=_explain)
    return outcome, queue


def why_waiting(
    request: Request, outcome: Outcome, policy: Policy, now: float, rules: Rules = FREE
) -> Decision:
    """Return why a job was passed over, on the board as the pass left it."""
    board = outcome.board
    head = outcome.head
    if outcome.reservation is not None and outcome.reservation.job != request.job:
        board.reserve(outcome.reservation)
    job_profile = profile(request, board, policy, now, rules)
    seen = survey(job_profile, board)
    seen.ruling = None if rules is FREE else rules.job(request, queue_pass.held_devices(board))
    if policy.backfill == "strict" and head is not None and head.job != request.job:
        seen.behind = f"{head.task.name} (job {head.job})"
    lonely = _lonely(seen, [])
    why = waiting(seen, seen.refused + lonely)
    board.reserve(None)
    return Decision(request.job, None, (), (), why)


def _explain(choice: Pick, job_profile: Profile, board: Board) -> Candidate:
    return candidate(choice, job_profile, board)


def _decision(
    request: Request,
    chosen: Candidate | None,
    outcome: Outcome,
    policy: Policy | Mapping[str, Policy],
    now: float,
    rules: Rules,
) -> Decision:
    if chosen is not None:
        return Decision(request.job, chosen, (chosen,), (), None)
    own = policy if isinstance(policy, Policy) else policy[request.job]
    return why_waiting(request, outcome, own, now, rules)


def _choices(job_profile: Profile, board: Board) -> list[Pick]:
    count = job_profile.request.devices
    if job_profile.request.task.kind == SERVICE:
        only = pick(job_profile, board)
        return [] if only is None else [only]
    if count > 1:
        choices = best_linked(job_profile, board, count, MAX_CANDIDATES)
    else:
        choices = best_single(job_profile, board, MAX_CANDIDATES)
    if choices:
        return choices
    last = pick(job_profile, board)
    return [] if last is None else [last]


def _lonely(seen: Survey, choices: Sequence[Pick]) -> list[tuple[Cell, str]]:
    """Return the eligible cells that too few others stand beside."""
    if seen.profile.request.devices == 1 or len(choices) == 1:
        used = {id(cell) for choice in choices for cell, _ in choice.chosen}
        if seen.profile.request.devices == 1:
            return []
    else:
        used = set()
    together: dict[tuple[int, int], int] = {}
    for cell in seen.eligible:
        key = (cell.site.place, cell.kind)
        together[key] = together.get(key, 0) + len(cell.spots)
    return [
        (cell, "count")
        for cell in seen.eligible
        if together[cell.site.place, cell.kind] < seen.profile.request.devices
        and id(cell) not in used
    ]
