"""Who is next: priority first, then who has waited too long, then a size that fair share and
patience correct.

Jobs are ordered by the logarithm of their area (predicted run time times devices), smallest first:
short jobs hardly delay long ones, the reverse is the common complaint. A job of unknown length
counts as of usual length, so that its devices alone order it. Waiting moves a job forward softly.
That bounds no wait: a stream of small jobs passes a large one for ever. So a job that has waited
for a day, and 24 times as long as it runs, goes to the front, and sooner where its user has had
less than their due. Those are ordered by their due times: when each came to the front,
and `FRONT_AREAS` times its area later, so that in a lab which is too small for its jobs those that
cost little do not wait for all that came before them. Time alone does not move a due time, and jobs
that are submitted after it cannot pass: the wait is bounded. The first of those in front has
devices kept for it (EASY). `python -m benchmarks.placement_order` says what that costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, log, log2
from typing import Protocol

from gpuconsole.placement.engine import features
from gpuconsole.placement.model import Policy, Request

USUAL_S = 3600.0
"""Run time of a job of which nothing is known: between the median (minutes) and the mean (hours)
of public traces."""
FRONT_TIMES = 24.0
"""So many times its own predicted run time a job waits before its age may take it to the front: one
that runs for days has no claim to start within a day."""
FRONT_LEAST = 0.3
"""Part of that wait after which the jobs of a user who has had nothing lately go to the front; who
has had the half of their due waits for the half."""
FRONT_AREAS = 8.0
"""So many times its own area (predicted run time times devices) a job's due time is after the
moment at which it comes to the front."""
URGENT_S = 86400.0
"""A job with less time (s) than this before it must start is considered ahead of its place by
size."""


Key = tuple[float, bool, float, float, str]
"""Priority, whether it is young, size or due time, submission, name: smaller goes first."""


class Shares(Protocol):
    """How much of the lab users and accounts have had lately."""

    def overuse(self, user: str, account: str, now: float) -> float:
        """Return use beyond one's share: 0 is exactly the share, 1 twice as much, -1 nothing."""
        ...


class Even:
    """Everybody has had the same."""

    def overuse(self, user: str, account: str, now: float) -> float:
        """Return 0."""
        return 0.0


EVEN = Even()


def ordered(
    requests: Iterable[Request], policy: Policy, now: float, shares: Shares = EVEN
) -> list[Request]:
    """Return requests in the order in which they are considered."""
    return sorted(requests, key=lambda request: sort_key(request, policy, now, shares))


def sort_key(request: Request, policy: Policy, now: float, shares: Shares = EVEN) -> Key:
    """Return what a request is ordered by: smaller goes first."""
    over = _over(request, policy, now, shares)
    front = _front(request, policy, over)
    young = now < front
    if policy.order == "fifo":
        size = 0.0
    elif young:
        size = _size(request, policy, now, over)
    else:
        size = front + FRONT_AREAS * (request.run_time_s or USUAL_S) * request.devices
    return (-request.task.priority, young, size, request.waiting_since, request.job)


def _over(request: Request, policy: Policy, now: float, shares: Shares) -> float:
    """Return what its user or account has had beyond their due, where the policy asks for it."""
    if not (policy.fair_share or policy.front_after_s):
        return 0.0
    return shares.overuse(request.user, request.task.account, now)


def _front(request: Request, policy: Policy, over: float) -> float:
    if not policy.front_after_s:
        return inf
    wait = max(policy.front_after_s, FRONT_TIMES * (request.run_time_s or USUAL_S))
    return request.waiting_since + wait * max(FRONT_LEAST, min(1.0, 1.0 + over))


def _size(request: Request, policy: Policy, now: float, over: float) -> float:
    """Return the logarithm of a request's area, corrected."""
    seconds = max(1.0, request.run_time_s or USUAL_S)
    size = log(seconds) + (log(request.devices) if policy.order == "area" else 0.0)
    size += policy.fair_share * over
    if policy.patience:
        waited = max(0.0, now - request.waiting_since)
        size -= policy.patience * log2(1.0 + waited / seconds)
    if request.deadline is not None:
        slack = request.deadline - seconds - now
        size -= log(URGENT_S / max(60.0, slack)) if slack < URGENT_S else 0.0
    if policy.learned is not None:
        values = features.order_features(request, seconds)
        moved = sum(policy.learned.order.get(name, 0.0) * value for name, value in values.items())
        size += max(-policy.learned.order_clip, min(policy.learned.order_clip, moved))
    return size
