"""Who is next: priority first, then who has waited too long, then a size that fair share and
patience correct.

Jobs are ordered by the logarithm of their area (predicted run time times devices), smallest first:
short jobs hardly delay long ones, the reverse is the common complaint. A job of which nobody knows
how long it takes counts as of usual length, so that its devices alone order it. Waiting moves a
job forward softly. That bounds no wait: a stream of small jobs passes a large one for ever. So a
job that has waited for a day, and 24 times as long as it runs, goes to the front, and sooner where
its user has had less than their due; those there are in the order in which they came, and the first
of them has devices kept for it (EASY). `python -m benchmarks.placement_order` says what that costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, log, log2
from typing import Protocol

from gpuconsole.placement.learned import features
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
URGENT_S = 86400.0
"""A job whose last moment to start is closer than this goes before its size says so."""


Key = tuple[float, bool, float, float, str]
"""Priority, whether it is young, size, since when it waits, name: smaller goes first."""


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
    young = now < front_at(request, policy, now, shares)
    by_size = young and policy.order != "fifo"
    size = size_of(request, policy, now, shares) if by_size else 0.0
    return (-request.task.priority, young, size, request.waiting_since, request.job)


def front_at(request: Request, policy: Policy, now: float, shares: Shares = EVEN) -> float:
    """Return the moment from which a request goes before all others of its priority, by what its
    user has had until now; inf where the policy has no such rule."""
    if not policy.front_after_s:
        return inf
    wait = max(policy.front_after_s, FRONT_TIMES * (request.run_time_s or USUAL_S))
    had = 1.0 + shares.overuse(request.user, request.task.account, now)
    return request.waiting_since + wait * max(FRONT_LEAST, min(1.0, had))


def size_of(request: Request, policy: Policy, now: float, shares: Shares = EVEN) -> float:
    """Return the logarithm of a request's area, corrected."""
    seconds = max(1.0, request.run_time_s or USUAL_S)
    size = log(seconds) + (log(request.devices) if policy.order == "area" else 0.0)
    if policy.fair_share:
        size += policy.fair_share * shares.overuse(request.user, request.task.account, now)
    if policy.patience:
        waited = max(0.0, now - request.waiting_since)
        size -= policy.patience * log2(1.0 + waited / seconds)
    if request.deadline is not None:
        slack = request.deadline - seconds - now
        size -= log(URGENT_S / max(60.0, slack)) if slack < URGENT_S else 0.0
    if policy.learned is not None:
        found = features.order_features(request, seconds)
        moved = sum(policy.learned.order.get(name, 0.0) * value for name, value in found.items())
        size += max(-policy.learned.order_clip, min(policy.learned.order_clip, moved))
    return size
