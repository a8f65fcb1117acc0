"""When a job that runs should end."""

from __future__ import annotations

from gpuconsole.placement.model import Holder

LEAST_LEFT_S = 60.0
"""A job that outlived its prediction runs on for at least so long."""


def expected_end(holder: Holder, now: float) -> float:
    """Return when a holder is expected to end: as predicted, or, if that has passed or there is no
    prediction, after as long again as it has run (the expectation for heavy-tailed run times)."""
    if holder.ends_at is not None and holder.ends_at > now:
        return holder.ends_at
    return now + max(LEAST_LEFT_S, now - holder.since)
