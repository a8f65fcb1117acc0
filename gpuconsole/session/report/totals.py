"""Adds up what attempts held, used and drew, by any keys; pure, so that a thread may do it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from gpuconsole.core.devices.device_use import DeviceUse, HeldSums, Holding, merged_spans
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.report.model import (
    HOUR_S,
    KWH_J,
    MOST_ROWS,
    OTHERS,
    IdleLease,
    Key,
    Query,
    Row,
    Sums,
)

NO_USE = DeviceUse("", 0, 0.0, "", "", 0)
FRESH_S = 300.0
"""A lease is called idle only by samples as new as this: they are written once a minute."""
_WORDS: Mapping[Key, Callable[[Holding], str]] = {
    "user": attrgetter("user"),
    "account": attrgetter("account"),
    "project": attrgetter("project"),
    "host": attrgetter("host"),
}


_MONTH = HeldSums._fields.index("month")


class _Segment(NamedTuple):
    """So many devices held for a time."""

    begin: float
    end: float
    devices: float
    uuid: str = ""
    """Of a part of one device: which."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What devices and energy cost."""

    hourly: Callable[[str, str], float | None]
    """By host and model: of one device for an hour."""
    per_kwh: float | None = None


@dataclass(slots=True)
class _Group:
    """Sums of one row while they grow."""

    jobs: set[str] = field(default_factory=set)
    attempts: set[tuple[str, int]] = field(default_factory=set)
    single: int = 0
    """Jobs that are in no other group, with one attempt each."""
    held_s: float = 0.0
    used_s: float = 0.0
    use_known_s: float = 0.0
    energy_j: float = 0.0
    energy_known_s: float = 0.0
    priced: float = 0.0
    unpriced_s: float = 0.0

    def absorb(self, other: _Group) -> None:
        """Add another group."""
        self.jobs |= other.jobs
        self.attempts |= other.attempts
        for name in ("single", "held_s", "used_s", "use_known_s", "energy_j", "energy_known_s",
                     "priced", "unpriced_s"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def sums(self, per_kwh: float | None) -> Sums:
        """Return the figures."""
        energy_cost = self.energy_j / KWH_J * per_kwh if per_kwh is not None else 0.0
        any_hours = self.held_s - self.unpriced_s > 1e-9
        any_energy = per_kwh is not None and self.energy_known_s > 0.0
        all_energy = per_kwh is None or self.energy_known_s >= self.held_s * 0.99
        return Sums(
            len(self.jobs) + self.single,
            len(self.attempts) + self.single,
            self.held_s,
            self.used_s,
            self.use_known_s,
            self.energy_j,
            self.energy_known_s,
            self.priced + energy_cost if any_hours or any_energy else None,
            self.unpriced_s,
            self.unpriced_s <= 1e-9 and all_energy,
        )


class Tally:
    """Sums by keys over holdings."""

    def __init__(
        self, query: Query, prices: Prices, models: Mapping[tuple[str, str], str], now: float
    ) -> None:
        """`models` tells the model of a device, by host and UUID, where it was not written down."""
        self._query = query
        self._prices = prices
        self._models = models
        self._now = now
        self._edges = month_edges(query.since, query.until) if "month" in query.by else ()
        self._names = [month_of(edge) for edge in (query.since, *self._edges)]
        self._model_at = query.by.index("model") if "model" in query.by else None
        self._month_at = query.by.index("month") if "month" in query.by else None
        self._words = [_WORDS.get(key) for key in query.by]
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._hourly: dict[tuple[str, str], float | None] = {}

    def take(self, holdings: Sequence[Holding], user: str = "") -> None:
        """Add what was held: of all, or of one user. Others' holdings decide on shares alone."""
        shared = shared_times(holdings, self._now)
        for number, holding in enumerate(holdings):
            if not user or holding.user == user:
                self._take(holding, shared.get(number, ()))

    def add(self, sums: Iterable[HeldSums]) -> None:
        """Add what was summed up already, of jobs that `take` is not given."""
        places = [HeldSums._fields.index(key) for key in self._query.by]
        for use in sums:
            words = [self._names[use.month] if place == _MONTH else use[place] for place in places]
            group = self._groups.setdefault(tuple(map(str, words)), _Group())
            group.single += use.jobs
            group.held_s += use.held_s
            group.used_s += use.used_s
            group.use_known_s += use.use_known_s
            group.energy_j += use.energy_j
            group.energy_known_s += use.energy_known_s
            price = self._price(use.host, use.model)
            if price is None:
                group.unpriced_s += use.held_s
            else:
                group.priced += use.held_s / HOUR_S * price

    def rows(self) -> tuple[Row, ...]:
        """Return the rows: by month where that is a key, then the largest first."""
        groups = sorted(self._groups.items(), key=lambda group: -group[1].held_s)
        if len(groups) > MOST_ROWS:
            rest = _Group()
            for _, group in groups[MOST_ROWS:]:
                rest.absorb(group)
            groups = [*groups[:MOST_ROWS], ((OTHERS,) * len(self._query.by), rest)]
        rows = [Row(words, group.sums(self._prices.per_kwh)) for words, group in groups]
        if "month" in self._query.by:
            place = self._query.by.index("month")
            rows.sort(key=lambda row: row.words[place])
        return tuple(rows)

    def total(self) -> Sums:
        """Return the figures of all rows together."""
        everything = _Group()
        for group in self._groups.values():
            everything.absorb(group)
        return everything.sums(self._prices.per_kwh)

    def _take(self, holding: Holding, common: Sequence[_Segment]) -> None:
        """Add a holding; `common` are its parts of devices that others held meanwhile."""
        begin, end = holding.since, self._now if holding.until is None else holding.until
        if common:
            alone = holding.devices - len({segment.uuid for segment in common})
            segments = (_Segment(begin, end, alone), *common)
            whole_s = sum((segment.end - segment.begin) * segment.devices for segment in segments)
            months = self._months(segments)
        else:
            whole_s = (end - begin) * holding.devices
            months = self._whole_months(begin, end, holding.devices)
        if not months or whole_s <= 0.0:
            return
        words = [word(holding) if word is not None else "" for word in self._words]
        for model, part, use in _by_model(holding, self._models):
            # Clocks of hosts may run a little ahead: nothing is measured for longer than held.
            most = whole_s * part
            share = part / max(most, use.use_known_s)
            energy_share = part / max(most, use.energy_known_s)
            price = self._price(holding.host, model)
            for month, held_s in months.items():
                use_s, energy_s = held_s * share, held_s * energy_share
                group = self._group(words, model, month)
                group.jobs.add(holding.job)
                group.attempts.add((holding.job, holding.attempt))
                group.held_s += held_s * part
                group.used_s += use.used_s * use_s
                group.use_known_s += use.use_known_s * use_s
                group.energy_j += use.energy_j * energy_s
                group.energy_known_s += use.energy_known_s * energy_s
                if price is None:
                    group.unpriced_s += held_s * part
                else:
                    group.priced += held_s * part / HOUR_S * price

    def _group(self, words: list[str], model: str, month: str) -> _Group:
        if self._model_at is not None:
            words[self._model_at] = model
        if self._month_at is not None:
            words[self._month_at] = month
        key = tuple(words)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        return group

    def _price(self, host: str, model: str) -> float | None:
        key = host, model
        if key not in self._hourly:
            self._hourly[key] = self._prices.hourly(host, model)
        return self._hourly[key]

    def _whole_months(self, begin: float, end: float, devices: int) -> dict[str, float]:
        """Return the same as `_months`, for devices that no other job held meanwhile: the usual
        case."""
        if self._edges:
            return self._months((_Segment(begin, end, devices),))
        since, until = self._query.since, self._query.until
        held_s = (end if end < until else until) - (begin if begin > since else since)
        return {self._names[0]: held_s * devices} if held_s > 0.0 else {}

    def _months(self, segments: Iterable[_Segment]) -> dict[str, float]:
        """Return the device-seconds within the time that is asked for, by month where months
        are."""
        since, until, edges = self._query.since, self._query.until, self._edges
        months: dict[str, float] = {}
        for segment in segments:
            begin, end = max(segment.begin, since), min(segment.end, until)
            while begin < end:
                place = bisect_right(edges, begin)
                cut = min(end, edges[place]) if place < len(edges) else end
                name = self._names[place]
                months[name] = months.get(name, 0.0) + (cut - begin) * segment.devices
                begin = cut
        return months


def idle_leases(
    holdings: Iterable[Holding], models: Mapping[tuple[str, str], str], now: float, idle_s: float
) -> tuple[IdleLease, ...]:  # fmt: skip
    """Return who holds devices now that were not used for so long, the longest first.

    Of a gang all hosts must be idle: one that works may keep the others waiting.
    """
    by_attempt: dict[tuple[str, int], list[tuple[Holding, float | None]]] = {}
    for holding in holdings:
        if holding.until is None:
            held = by_attempt.setdefault((holding.job, holding.attempt), [])
            held.append((holding, _idle_since(holding, now)))
    idle = []
    for parts in by_attempt.values():
        since = [moment for _, moment in parts if moment is not None]
        if len(since) == len(parts) and now - max(since) >= idle_s:
            idle += [_idle_lease(holding, max(since), models) for holding, _ in parts]
    return tuple(sorted(idle, key=lambda lease: (lease.since, lease.job, lease.host)))


def _idle_since(holding: Holding, now: float) -> float | None:
    """Return since when a holding's devices were not used; None where that is not known."""
    measured = sum(use.devices for use in holding.uses) >= holding.devices > 0
    if not measured or any(now - use.seen_at > FRESH_S for use in holding.uses):
        return None
    return max(use.busy_at or holding.since for use in holding.uses)


def _idle_lease(holding: Holding, since: float, models: Mapping[tuple[str, str], str]) -> IdleLease:
    words = dict.fromkeys(model for model, _, _ in _by_model(holding, models))
    return IdleLease(
        holding.job, holding.name, holding.user, holding.host, ", ".join(words), holding.devices,
        since,
    )  # fmt: skip


def month_of(at: float) -> str:
    """Return the month of a time, in this machine's zone: `2030-01`."""
    return datetime.fromtimestamp(at).strftime("%Y-%m")


def month_edges(since: float, until: float) -> tuple[float, ...]:
    """Return when months begin after `since` and before `until`, in this machine's zone."""
    first = datetime.fromtimestamp(since)
    year, month = first.year, first.month
    edges = []
    while True:
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        edge = datetime(year, month, 1).timestamp()
        edges.append(edge)
        if edge >= until:
            return tuple(edges)


def _by_model(
    holding: Holding, models: Mapping[tuple[str, str], str]
) -> list[tuple[str, float, DeviceUse]]:
    """Return the models of a holding's devices, which part of them is of each, and what was
    measured there."""
    uses, total = holding.uses, holding.devices
    if len(uses) == 1 and uses[0].devices == total:
        return [(uses[0].model, 1.0, uses[0])]
    if uses:
        counted = sum(use.devices for use in uses)
        total = max(total, counted)
        shares = [(use.model, use.devices / total, use) for use in uses]
        if counted < total:
            shares.append((_known_model(holding, models), (total - counted) / total, NO_USE))
        return shares
    use = NO_USE
    if holding.mean_use is not None and holding.until is not None:
        held_s = max(0.0, holding.until - holding.since) * total
        use = DeviceUse(
            "", 0, 0.0, "", "", total, min(max(holding.mean_use, 0.0), 100.0) / 100 * held_s, held_s
        )
    return [(holding.mean_model or _known_model(holding, models), 1.0, use)]


def _known_model(holding: Holding, models: Mapping[tuple[str, str], str]) -> str:
    names = (models.get((holding.host, uuid), "") for uuid in holding.uuids)
    return next(filter(None, names), "")


_Held = tuple[float, float, int]
"""From when and until when a device was held, and the number of the holding."""


def shared_times(holdings: Sequence[Holding], now: float) -> dict[int, list[_Segment]]:
    """Return the parts that holdings have of devices which others held meanwhile, by the number
    of the holding: a half of the device while two hold it."""
    held: dict[tuple[str, str], list[_Held]] = {}
    for number, holding in _beside_shared(holdings, now):
        end = now if holding.until is None else holding.until
        for uuid in holding.uuids:
            held.setdefault((holding.host, uuid), []).append((holding.since, end, number))
    segments: dict[int, list[_Segment]] = {}
    for (_, uuid), times in held.items():
        for group in _overlapping(times):
            for span in group:
                segments.setdefault(span[2], []).extend(_parts(span, group, uuid))
    return segments


def _beside_shared(holdings: Sequence[Holding], now: float) -> Iterable[tuple[int, Holding]]:
    """Give the holdings that may overlap with one that came beside another, with their numbers:
    only near those is it worth looking at single devices, and they are few."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for holding in holdings:
        if holding.shared:
            spans.setdefault(holding.host, []).append(
                (holding.since, now if holding.until is None else holding.until)
            )
    merged = {host: merged_spans(host_spans) for host, host_spans in spans.items()}
    windows = {
        host: ([b for b, _ in host_spans], [e for _, e in host_spans])
        for host, host_spans in merged.items()
    }
    for number, holding in enumerate(holdings) if windows else ():
        on_host = windows.get(holding.host)
        end = now if holding.until is None else holding.until
        if on_host is not None and end > holding.since:
            begins, ends = on_host
            place = bisect_right(ends, holding.since)
            if place < len(begins) and begins[place] < end:
                yield number, holding


def _overlapping(times: list[_Held]) -> Iterable[list[_Held]]:
    """Give those that held a device at one time with others, in groups that do not touch."""
    times.sort()
    group: list[_Held] = []
    over = -math.inf
    for time in times:
        if time[0] < over:
            group.append(time)
        else:
            if len(group) > 1:
                yield group
            group = [time]
        over = max(over, time[1])
    if len(group) > 1:
        yield group


def _parts(held: _Held, group: Sequence[_Held], uuid: str) -> Iterable[_Segment]:
    """Give a holder's part of one device over time."""
    begin, end, _ = held
    beside = [other for other in group if other[0] < end and other[1] > begin]
    cuts = sorted({begin, end, *(cut for held in beside for cut in held[:2] if begin < cut < end)})
    for left, right in pairwise(cuts):
        count = sum(held[0] <= left and held[1] >= right for held in beside)
        yield _Segment(left, right, 1.0 / count, uuid)
