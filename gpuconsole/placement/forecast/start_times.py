"""When waiting jobs should start: the engine run forward over the jobs that run and wait now."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine import queue_pass
from gpuconsole.placement.engine.board import Board
from gpuconsole.placement.engine.expected_end import expected_end
from gpuconsole.placement.engine.job_profile import Profile, profile
from gpuconsole.placement.engine.queue_order import EVEN, USUAL_S, ordered
from gpuconsole.placement.engine.queue_pass import Failures
from gpuconsole.placement.model import FREE, Holder, Policy, Request, Rules
from gpuconsole.placement.rules.fair_share import Usage

HORIZON_S = 30 * 86400.0
"""A start further away than this is not worth a figure."""
TOGETHER = 0.02
"""Ends closer than this share of the time ahead are looked at together: they are guesses."""


@dataclass(frozen=True, slots=True)
class Expected:
    """When and where a waiting job should start."""

    starts_at: float
    hosts: tuple[str, ...]
    guess: bool
    """Whether the length of a job before it is not known and was taken as usual."""


def forecast(
    requests: Sequence[Request],
    snapshot: FleetSnapshot,
    holders: Mapping[str, Holder],
    policy: Policy | Mapping[str, Policy],
    now: float,
    rules: Rules = FREE,
    *,
    lab: Policy | None = None,
    usage: Usage | None = None,
) -> dict[str, Expected]:
    """Return by job when it should start, for all that should within the horizon.

    Running jobs end as predicted; without a prediction a running job takes as long again as it has
    run, and a waiting one as long as usual. No further submissions are assumed, which favours all
    alike.
    """
    mode = policy if isinstance(policy, Policy) else lab or Policy()
    board = Board.of(snapshot, holders)
    ends = [(expected_end(holder, now), job) for job, holder in _running(board).items()]
    heapq.heapify(ends)
    guess = any(holder.ends_at is None for holder in _running(board).values())
    shares = _Shares(requests, mode, usage)
    waiting = shares.ordered(requests, now)
    expected: dict[str, Expected] = {}
    profiles: dict[str, Profile] = {}

    def seen(request: Request) -> Profile:
        job_profile = profiles.get(request.job)
        if job_profile is None or (job_profile.preference_ends or math.inf) <= moment:
            own = policy if isinstance(policy, Policy) else policy[request.job]
            job_profile = profiles[request.job] = profile(request, board, own, moment, rules)
        return job_profile

    moment, failures = now, Failures()
    while waiting:
        outcome = queue_pass.run(
            board, waiting, policy, moment, rules, lab=mode, failures=failures, profiles=seen
        )
        for start in outcome.started:
            request = start.request
            expected[request.job] = Expected(moment, _hosts(start), guess and moment != now)
            shares.begin(request, moment)
            guess = guess or request.run_time_s is None
            heapq.heappush(ends, (moment + (request.run_time_s or USUAL_S), request.job))
        waiting = outcome.blocked
        wakes = _preference_ends(waiting, profiles, moment)
        if min(wakes, ends[0][0] if ends else math.inf) > now + HORIZON_S:
            break
        if not ends or wakes < ends[0][0]:
            moment = wakes
        else:
            moment = _release(board, ends, now, shares)
            waiting = shares.ordered(waiting, moment)
        failures.clear()
    return expected


def _hosts(start: queue_pass.Start) -> tuple[str, ...]:
    """Return the hosts of the devices on which a job starts."""
    return tuple(dict.fromkeys(cell.site.host.name for cell, _ in start.pick.chosen))


def _preference_ends(
    waiting: Sequence[Request], profiles: Mapping[str, Profile], moment: float
) -> float:
    """Return when the first waiting job after a moment insists on preferred devices no longer."""
    ends = (profiles[request.job].preference_ends for request in waiting if request.job in profiles)
    return min((end for end in ends if end is not None and end > moment), default=math.inf)


class _Shares:
    """The order of a queue in which users compete, as they get their shares."""

    def __init__(self, requests: Sequence[Request], policy: Policy, usage: Usage | None) -> None:
        compete = len({(request.user, request.task.account) for request in requests}) > 1
        weighs = bool(policy.fair_share or policy.front_after_s)
        self._policy = policy
        self._usage = usage.copy() if usage is not None and compete and weighs else None

    def ordered(self, waiting: Sequence[Request], moment: float) -> Sequence[Request]:
        """Return the requests in the order of a moment."""
        return ordered(waiting, self._policy, moment, self._usage or EVEN)

    def begin(self, request: Request, moment: float) -> None:
        """Note that a request has its devices."""
        if self._usage is not None:
            account = request.task.account
            self._usage.begin(request.job, request.user, account, request.devices, moment)

    def end(self, job: str, moment: float) -> None:
        """Note that it has given them back."""
        if self._usage is not None:
            self._usage.end(job, moment)


def _release(board: Board, ends: list[tuple[float, str]], now: float, shares: _Shares) -> float:
    """Give back what ends next; return when the last of it does."""
    first = ends[0][0]
    until = first + TOGETHER * (first - now)
    moment = first
    while ends and ends[0][0] <= until:
        moment, job = heapq.heappop(ends)
        board.release(job)
        shares.end(job, moment)
    return moment


def _running(board: Board) -> dict[str, Holder]:
    return {
        job: cell.holder
        for job, cells in board.held.items()
        for cell in cells
        if cell.holder is not None and cell.holder.job == job
    }
