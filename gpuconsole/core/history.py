"""Recent history of devices and hosts: bounded columns of samples, and summaries for plots.

Two resolutions are kept: every sample of the last 15 minutes, and the minimum, mean and maximum of
each 20 seconds of the last hours. A large fleet is sampled less often, so that its history takes as
much room as that of `FULL_DEVICES` devices. Times are seconds since the epoch; `None` means that
nothing was reported.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal

from gpuconsole.core.fleet import Host
from gpuconsole.core.roll import roll_of
from gpuconsole.core.util.lazy_dataclass import dataclass

DeviceMetric = Literal["utilization", "memory_used_mib", "temperature_c", "power_w", "sm_clock_mhz"]
HostMetric = Literal["cpu_percent", "memory_used_mib"]
"""The fields of `Device` and `HostFacts` that are kept, by their names there."""

FINE_S = 900.0
"""For so long every sample is kept."""
COARSE_S = 4 * 3600.0
"""For so long the summaries are kept."""
BUCKET_S = 20.0
"""What one summary covers."""
FULL_DEVICES = 512
"""Up to so many devices are sampled once a second."""
_SLACK = 1.125
"""Columns may grow so much beyond their size before their old end is cut off at once."""
_SPREAD = 0.6180339887
"""Golden: turns of neighbours lie far apart."""
_HOLDS = 2.5
"""A sample is valid for so many sampling intervals if the next one is missing."""


_HOST: tuple[HostMetric, ...] = ("cpu_percent", "memory_used_mib")
_DEVICE: tuple[DeviceMetric, ...] = (
    "utilization", "memory_used_mib", "temperature_c", "power_w", "sm_clock_mhz",
)  # fmt: skip
_PARTS = 3
"""A summary is least, mean and most."""

Column = tuple[float, float, float]
"""Least, mean and most in one column of a plot."""


@dataclass(frozen=True, slots=True)
class Series:
    """One figure from `start` to `end`, oldest first. The sequences are equally long.

    Sample i is valid from `times[i]` for `holds[i]` seconds; `lows` and `highs` differ from
    `values` where it is a summary.
    """

    start: float
    end: float
    times: Sequence[float] = ()
    values: Sequence[float | None] = ()
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()
    holds: Sequence[float] = ()

    @property
    def latest(self) -> float | None:
        """The newest figure that was reported."""
        return next((value for value in reversed(self.values) if value is not None), None)

    @property
    def peak(self) -> tuple[float, float] | None:
        """When it was highest (the first time), and how high."""
        peaks = [
            (high, -at) for at, high in zip(self.times, self.highs, strict=True) if high is not None
        ]
        if not peaks:
            return None
        high, at = max(peaks)
        return -at, high


def downsample(series: Series, columns: int) -> tuple[Column | None, ...]:
    """Return least, mean (by time) and most of each of `columns` equal parts of the series' span;
    None where nothing was reported."""
    span = series.end - series.start
    if columns <= 0 or span <= 0:
        return (None,) * max(0, columns)
    width = span / columns
    parts: list[list[float] | None] = [None] * columns
    for at, value, low, high, hold in zip(
        series.times, series.values, series.lows, series.highs, series.holds, strict=True
    ):
        if value is None or low is None or high is None:
            continue
        first = max(0, math.floor((at - series.start) / width))
        last = min(columns - 1, math.floor((at + hold - series.start) / width))
        for place in range(first, last + 1):
            begins = series.start + place * width
            weight = min(at + hold, begins + width) - max(at, begins)
            # What ends just where a column begins is not in it.
            if weight <= width * 1e-9 and place > first:
                continue
            weight = max(weight, width * 1e-9)
            part = parts[place]
            if part is None:
                parts[place] = [low, value * weight, weight, high]
            else:
                part[0], part[3] = min(part[0], low), max(part[3], high)
                part[1] += value * weight
                part[2] += weight
    return tuple(None if part is None else (part[0], part[1] / part[2], part[3]) for part in parts)


def sampling_s(devices: int) -> float:
    """Return how many seconds lie between two kept samples of a fleet of so many devices."""
    return float(max(1, math.ceil(devices / FULL_DEVICES)))


class _Rows:
    """Rows of figures, each with a time; the oldest are cut off. A missing figure is NaN.

    All rows are in one array: appending a row is one operation, and a column is a slice.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.times = array("d")
        self.cells = array("f")

    def add(self, at: float, row: list[float]) -> None:
        """Add a row."""
        self.times.append(at)
        self.cells.fromlist(row)

    def cut(self, rows: int) -> int:
        """Keep about the newest `rows` rows; return how many are gone."""
        over = len(self.times) - rows
        if over <= rows * (_SLACK - 1.0):
            return 0
        del self.times[:over]
        del self.cells[: over * self.width]
        return over

    def column(self, place: int, start: int, stop: int) -> array[float]:
        """Return a column of the rows from `start` to before `stop`."""
        return self.cells[start * self.width + place : stop * self.width : self.width]

    def rows(self, start: int) -> Iterator[list[float]]:
        """Yield the rows from `start` on."""
        cells, width = self.cells[start * self.width :].tolist(), self.width
        return (cells[at : at + width] for at in range(0, len(cells), width))

    def laid_out(self, places: Sequence[int | None]) -> _Rows:
        """Return the rows with these columns; one that is None knows nothing of the past."""
        rows, count = _Rows(len(places)), len(self.times)
        unknown = array("f", [math.nan]) * count
        columns = [unknown if place is None else self.column(place, 0, count) for place in places]
        rows.times = self.times
        rows.cells = array("f", chain.from_iterable(zip(*columns, strict=True)))
        return rows


class _Track:
    """What is kept of one host and its devices."""

    def __init__(self) -> None:
        self.uuids: tuple[str, ...] = ()
        self.places = _places(())
        """The column of each figure, by `UUID/metric`, and `/metric` for the host's own."""
        self.fine = _Rows(len(self.places))
        self.coarse = _Rows(len(self.places) * _PARTS)
        self._bucket_from = 0
        self.turn = -1
        """In which turn the newest sample was taken, where hosts take turns."""
        self.newest = -math.inf
        """When the newest sample was taken."""

    def push(self, host: Host, at: float, every_s: float) -> bool:
        """Keep one frame; return whether its devices are others than before."""
        uuids = tuple([device.uuid for device in host.devices])
        others = uuids != self.uuids
        if others:
            self._lay_out(uuids)
        bucket = _bucket_s(every_s)
        if self.fine.times and at // bucket != self.newest // bucket:
            self._summarise(bucket)
        facts = host.facts
        figures = [facts.cpu_percent, facts.memory_used_mib]
        for device in host.devices:
            figures += (
                device.utilization, device.memory_used_mib, device.temperature_c, device.power_w,
                device.sm_clock_mhz,
            )  # fmt: skip
        self.newest = at
        self.fine.add(at, [math.nan if figure is None else figure for figure in figures])
        self._bucket_from = max(0, self._bucket_from - self.fine.cut(int(FINE_S / every_s)))
        return others

    def _lay_out(self, uuids: tuple[str, ...]) -> None:
        before, self.uuids, self.places = self.places, uuids, _places(uuids)
        places = [before.get(key) for key in self.places]
        self.fine = self.fine.laid_out(places)
        self.coarse = self.coarse.laid_out(
            [
                None if place is None else place * _PARTS + part
                for place in places
                for part in range(_PARTS)
            ]
        )

    def _summarise(self, bucket_s: float) -> None:
        """Write least, mean and most of the bucket that has ended."""
        fine = self.fine
        start, self._bucket_from = self._bucket_from, len(fine.times)
        row: list[float] = []
        for figures in zip(*fine.rows(start), strict=True):
            total = math.fsum(figures)
            if total != total:
                # Some were not reported.
                figures = tuple(figure for figure in figures if figure == figure)
                total = math.fsum(figures)
            if figures:
                row += (min(figures), total / len(figures), max(figures))
            else:
                row += (math.nan,) * _PARTS
        self.coarse.add(fine.times[start], row)
        self.coarse.cut(int(COARSE_S / bucket_s))

    def series(self, key: str, start: float, end: float, every_s: float) -> Series:
        """Return one column: summaries as far back as they reach, samples after."""
        place = self.places.get(key)
        if place is None:
            return Series(start, end)
        fine, coarse, bucket = self.fine, self.coarse, _bucket_s(every_s)
        hold = every_s * _HOLDS
        first = bisect_left(fine.times, start - hold)
        stop = bisect_left(fine.times, end)
        reach = fine.times[0] if fine.times else math.inf
        old = bisect_left(coarse.times, start - bucket)
        last = bisect_left(coarse.times, min(end, reach), old)
        times = [*coarse.times[old:last], *fine.times[first:stop]]
        lows, means, highs = (
            _told(coarse.column(place * _PARTS + part, old, last)) for part in range(_PARTS)
        )
        samples = _told(fine.column(place, first, stop))
        lengths = [bucket] * len(means) + [hold] * len(samples)
        holds = list(_until_next(times, lengths, end))
        return Series(start, end, times, means + samples, lows + samples, highs + samples, holds)


def _places(uuids: Sequence[str]) -> dict[str, int]:
    keys = [f"/{metric}" for metric in _HOST]
    keys += [f"{uuid}/{metric}" for uuid in uuids for metric in _DEVICE]
    return {key: place for place, key in enumerate(keys)}


def _told(column: array[float]) -> list[float | None]:
    return [figure if math.isfinite(figure) else None for figure in column]


def _until_next(times: list[float], lengths: list[float], end: float) -> Iterator[float]:
    for at, then, length in zip(times, [*times[1:], end][: len(times)], lengths, strict=True):
        yield max(0.0, min(length, then - at))


def _bucket_s(every_s: float) -> float:
    return BUCKET_S * every_s


class History:
    """Samples of a fleet. Feed it each new record of a host; feeding the same again is free."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._fed: Sequence[Host | None] = ()
        """The fleet as it was fed last."""
        self._names: tuple[str, ...] = ()
        self._looked = array("d")
        """Of the host at each place of a large fleet: when it was looked at last."""
        self._due = array("d")
        """The same: from when on its next sample is due."""
        self._home: dict[str, str] = {}
        """Device UUID to the host it was last seen on."""
        self.every_s = 1.0
        """Seconds between two samples that are kept."""

    def feed(self, hosts: Sequence[Host]) -> None:
        """Keep what is new of these hosts, which are the whole fleet."""
        names, _, _, sampled_at, devices = roll_of(hosts)
        every = sampling_s(devices)
        if names != self._names or every != self.every_s:
            self._fed, self._names = (None,) * len(hosts), names
            # No time lies between these: everything is due.
            self._looked = array("d", [math.inf]) * len(hosts)
            self._due = array("d", [-math.inf]) * len(hosts)
        fed, looked, due = self._fed, self._looked, self._due
        self._fed, self.every_s = hosts, every
        for place, (at, since, until) in enumerate(zip(sampled_at, looked, due, strict=True)):
            # Records are looked at last: those of a large fleet take long to fetch.
            if at is None or since <= at < until or (host := hosts[place]) is fed[place]:
                continue
            # The hosts of a large fleet take turns, of which each is long.
            turn = math.floor(at / every + place * _SPREAD)
            self._keep(host, at, turn)
            if every > 1.0:
                looked[place], due[place] = at, (turn + 1 - place * _SPREAD) * every
        if len(self._tracks) > len(hosts):
            present = set(names)
            self._tracks = {name: track for name, track in self._tracks.items() if name in present}

    def device(self, uuid: str, metric: DeviceMetric, start: float, end: float) -> Series:
        """Return a device's figure from `start` to `end`; empty for one never seen."""
        return self._series(self._home.get(uuid, ""), f"{uuid}/{metric}", start, end)

    def host(self, name: str, metric: HostMetric, start: float, end: float) -> Series:
        """Return a host's own figure from `start` to `end`; empty for one never seen."""
        return self._series(name, f"/{metric}", start, end)

    def _series(self, name: str, key: str, start: float, end: float) -> Series:
        track = self._tracks.get(name)
        return track.series(key, start, end, self.every_s) if track else Series(start, end)

    def _keep(self, host: Host, at: float, turn: int) -> None:
        track = self._tracks.get(host.name)
        if track is None or at < track.newest - self.every_s * 5:
            # A clock that was set back begins again.
            track = self._tracks[host.name] = _Track()
            if self.every_s > 1.0:
                track.turn = turn
        # The same frame in another state is no sample.
        if at - track.newest < 0.5 or (self.every_s > 1.0 and turn == track.turn):
            return
        track.turn = turn
        if track.push(host, at, self.every_s):
            self._home.update((device.uuid, host.name) for device in host.devices)
