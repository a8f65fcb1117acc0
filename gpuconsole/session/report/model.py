"""A report as data: what is asked, its rows, its total, and who holds devices without using them.

Device-hours are those of whole devices: of a device that two jobs hold each has a half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Literal, get_args

from gpuconsole.core.text import clean
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError


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


Key = Literal["user", "account", "project", "host", "model", "month"]
KEYS: tuple[Key, ...] = get_args(Key)
DAY_S = 86400.0
USUAL_DAYS = 30
LATEST = 2.5e10
"""A time in the year 2762."""
HOUR_S = 3600.0
KWH_J = 3.6e6
MOST_ROWS = 5000
"""The largest are kept; what the others have is summed up in one row."""
OTHERS = "(others)"
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked: the time, and by which keys it is grouped."""

    since: float
    until: float
    by: tuple[Key, ...] = ("user",)

    @classmethod
    def over(cls, since: float | None, until: float | None, by: Sequence[Key], now: float) -> Query:
        """Return a query of a time that ends now where it has no end, and begins `USUAL_DAYS`
        before that where it has no beginning."""
        end = now if until is None else until
        begin = max(0.0, end - USUAL_DAYS * DAY_S) if since is None else since
        return cls(begin, end, tuple(by))

    def __post_init__(self) -> None:
        """UsageError for a time that ends before it begins, or keys that are none."""
        if not 0.0 <= self.since < self.until <= LATEST:
            raise UsageError("Wrong time", "A report begins after 1970, and ends after it begins.")
        if not self.by or len(set(self.by)) < len(self.by) or not set(self.by) <= set(KEYS):
            raise UsageError(
                "Wrong keys", msg("--by takes each of {names} once.", names=", ".join(KEYS))
            )


@dataclass(frozen=True, slots=True)
class Sums:
    """What a group of jobs held and used. Times are device-seconds."""

    jobs: int = 0
    attempts: int = 0
    held_s: float = 0.0
    used_s: float = 0.0
    use_known_s: float = 0.0
    """Of what was held: the time in which the use was measured."""
    energy_j: float = 0.0
    energy_known_s: float = 0.0
    cost: float | None = None
    """None where nothing of it has a price."""
    unpriced_s: float = 0.0
    """Of what was held: the time of devices that have no price."""
    cost_complete: bool = True
    """Whether all hours have a price, and all energy where energy has one."""

    @property
    def use(self) -> float | None:
        """Percent of use over the time in which it was measured; None where it never was."""
        return 100.0 * self.used_s / self.use_known_s if self.use_known_s > 0.0 else None

    @property
    def wasted_s(self) -> float | None:
        """Device-seconds held and not used, of those with measured use."""
        return max(0.0, self.use_known_s - self.used_s) if self.use_known_s > 0.0 else None

    @property
    def unknown_s(self) -> float:
        """Device-seconds without measured use."""
        return max(0.0, self.held_s - self.use_known_s)

    @property
    def kwh(self) -> float | None:
        """Kilowatt-hours that were measured; None where none were."""
        return self.energy_j / KWH_J if self.energy_known_s > 0.0 else None

    def share(self, known_s: float) -> float:
        """Return which share of what was held was measured, 0-1."""
        return min(1.0, known_s / self.held_s) if self.held_s > 0.0 else 0.0

    def as_json(self) -> dict[str, object]:
        """Return the figures as `report --json` shows them."""
        wasted, use, kwh = self.wasted_s, self.use, self.kwh
        return {
            "jobs": self.jobs,
            "attempts": self.attempts,
            "device_hours": _hours(self.held_s),
            "used_hours": _hours(self.used_s) if use is not None else None,
            "wasted_hours": None if wasted is None else _hours(wasted),
            "unknown_hours": _hours(self.unknown_s),
            "use_percent": None if use is None else round(use, 2),
            "use_measured_share": round(self.share(self.use_known_s), 4),
            "kwh": None if kwh is None else round(kwh, 4),
            "energy_measured_share": round(self.share(self.energy_known_s), 4),
            "cost": None if self.cost is None else round(self.cost, 4),
            "cost_complete": self.cost is not None and self.cost_complete,
            "unpriced_hours": _hours(self.unpriced_s),
        }


@dataclass(frozen=True, slots=True)
class Row:
    """A group: its words, in the order of the query's keys, and its figures."""

    words: tuple[str, ...]
    sums: Sums


@dataclass(frozen=True, slots=True)
class IdleLease:
    """A job that holds devices now and does not use them."""

    job: str
    name: str
    user: str
    host: str
    model: str
    devices: int
    since: float
    """Since when none of them was used."""

    def as_json(self) -> dict[str, object]:
        """Return it as `report --json` shows it."""
        return asdict(self) | {"since": iso_utc(self.since)}


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was held, used and drawn in a time, and what it cost."""

    query: Query
    rows: tuple[Row, ...]
    total: Sums
    idle: tuple[IdleLease, ...]
    """The longest first."""
    user: str = ""
    """The user of the jobs; "" for all."""
    currency: str = ""
    zone: str = ""
    """The time zone of the months."""

    def as_json(self) -> dict[str, Any]:
        """Return the document of `report --json`."""
        by = self.query.by
        return {
            "since": iso_utc(self.query.since),
            "until": iso_utc(self.query.until),
            "zone": self.zone,
            "by": list(by),
            "user": self.user or None,
            "currency": self.currency,
            "idle": [lease.as_json() for lease in self.idle],
            "rows": [
                dict(zip(by, row.words, strict=True)) | row.sums.as_json() for row in self.rows
            ],
            "total": self.total.as_json(),
        }

    def made_safe(self) -> UsageReport:
        """Return the report with all words of users and hosts fit for a terminal."""
        rows = tuple(replace(row, words=tuple(map(_safe, row.words))) for row in self.rows)
        idle = tuple(replace(lease, **_safe_words(lease)) for lease in self.idle)
        return replace(
            self, rows=rows, idle=idle, user=_safe(self.user), zone=_safe(self.zone),
            currency=clean(self.currency, 20),
        )  # fmt: skip


def _safe(word: str) -> str:
    return clean(word, LONGEST)


def _safe_words(lease: IdleLease) -> Mapping[str, Any]:
    names = ("job", "name", "user", "host", "model")
    return {name: _safe(getattr(lease, name)) for name in names}


def _hours(seconds: float) -> float:
    return round(seconds / HOUR_S, 4)
