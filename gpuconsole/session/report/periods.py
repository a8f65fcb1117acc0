"""The times of which a report is asked for most: the last days, this month, the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from gpuconsole.session.report.model import DAY_S


def _last(days: int) -> Callable[[float], tuple[float, float]]:
    return lambda now: (now - days * DAY_S, now)


def _this_month(now: float) -> tuple[float, float]:
    # Just after a month began it has a second all the same.
    return min(_month_start(now), now - 1.0), now


def _last_month(now: float) -> tuple[float, float]:
    end = _month_start(now)
    return _month_start(end - 1.0), end


def _month_start(at: float) -> float:
    """Return when the month of a time began on this machine's clock."""
    moment = datetime.fromtimestamp(at)
    return datetime(moment.year, moment.month, 1).timestamp()


SPANS: Mapping[str, Callable[[float], tuple[float, float]]] = {
    "30 days": _last(30),
    "this month": _this_month,
    "last month": _last_month,
    "a year": _last(365),
    "7 days": _last(7),
}
"""From when until when, by name, for a time that is now."""
