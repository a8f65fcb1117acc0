"""Who is next: priority first, then a size that fair share and patience correct.

Jobs are ordered by the logarithm of their area (predicted run time times devices), smallest first:
short jobs hardly delay long ones, the reverse is the common complaint. A job of which nobody knows
how long it takes counts as of usual length, so that its devices alone order it. Waiting moves a
job forward softly, without a hard age limit, which would let long jobs block the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log, log2
from typing import Protocol

from gpuconsole.placement.learned import features
from gpuconsole.placement.model import Policy, Request

USUAL_S = 3600.0
"""Run time of a job of which nothing is known: between the median (minutes) and the mean (hours)
of public traces."""
URGENT_S = 86400.0
"""A job whose last moment to start is closer than this goes before its size says so."""


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


def sort_key(
    request: Request, policy: Policy, now: float, shares: Shares = EVEN
) -> tuple[float, float, float, str]:
    """Return what a request is ordered by: smaller goes first."""
    size = 0.0 if policy.order == "fifo" else size_of(request, policy, now, shares)
    return (-request.task.priority, size, request.waiting_since, request.job)


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
