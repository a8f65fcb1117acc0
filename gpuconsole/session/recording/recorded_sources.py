"""A recording in the places of a fleet, a journal and a history, so that everything else of a
session works on it as it does on the present."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path

from gpuconsole.core.containers import Engine
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot
from gpuconsole.core.history import DeviceMetric, HostMetric, Series, sampling_s
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg
from gpuconsole.errors import UnreachableError
from gpuconsole.session.recording.player import Reel
from gpuconsole.session.shown_journal import ShownJournal
from gpuconsole.state.recording.delta_codec import figure
from gpuconsole.state.recording.frames import Run
from gpuconsole.state.tables.dispatcher_lease import Role

_HOLDS = 2.5
"""A sample is valid for so many sampling intervals if the next one is missing."""
_SAME_S = 0.2
"""Samples that are no further apart are one, of which the time was rounded."""
_Column = Callable[[Run], tuple[list[int], float] | None]
"""Finds a figure's numbers and their step in a run; None where the run does not have it."""


class RecordedHosts:
    """The fleet as it was. Implements `core.containers.Hosts`."""

    def __init__(self, reel: Reel) -> None:
        self._reel = reel
        self._rows: list[tuple[Run, int]] = []
        self._snapshot = FleetSnapshot()

    async def start(self) -> None:
        """Begin to read ahead."""
        await self._reel.start()

    async def close(self) -> None:
        """Let go of the files."""
        await self._reel.close()

    def snapshot(self) -> FleetSnapshot:
        """Return the picture of the moment; hosts that did not change are the same objects."""
        stretch, now = self._reel.current()
        if stretch is None:
            return self._snapshot
        rows = stretch.rows(now)
        if rows != self._rows:
            hosts_by_row = dict(zip(self._rows, self._snapshot.hosts, strict=True))
            start = stretch.frames.start
            hosts = tuple(hosts_by_row.get(row) or row[0].record(row[1], start) for row in rows)
            self._rows = rows
            revision = self._snapshot.revision + 1
            self._snapshot = FleetSnapshot(revision, now, hosts, self._reel.header.simulated)
        return self._snapshot

    async def engine(self, host: str) -> Engine:
        """Refuse: there are no engines in the past."""
        raise UnreachableError(
            "This is a recording",
            msg("{host} cannot be asked in the past.", host=host),
            "Go back to now first.",
        )

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Refuse: what ran then cannot be ended now."""
        await self.engine(host)


class RecordedJournal(ShownJournal):
    """The queue as it was. What was not recorded is empty: runs that were observed, who
    dispatched, and drains, with which hosts were recorded. Events of the past are no news."""

    def __init__(self, reel: Reel, folder: Path) -> None:
        """`folder` is where logs of these jobs would lie."""
        super().__init__(folder)
        self.id = ""
        self._reel = reel
        self._shown: tuple[tuple[Path, int] | None, tuple[Job, ...]] = None, ()
        self._found: tuple[tuple[Path, int] | None, tuple[Incident, ...]] = None, ()

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs as they were, oldest first; the same tuple while nothing changed."""
        stretch, now = self._reel.current()
        if stretch is not None:
            key = stretch.path, stretch.jobs_until(now)
            if key != self._shown[0]:
                jobs = stretch.jobs(now)
                self._shown = key, self._shown[1] if jobs == self._shown[1] else jobs
        return self._shown[1]

    def incidents(self) -> tuple[Incident, ...]:
        """Return the incidents as they were known; the same tuple while nothing changed."""
        stretch, now = self._reel.current()
        if stretch is not None:
            key = stretch.path, stretch.incidents_until(now)
            if key != self._found[0]:
                incidents = stretch.incidents(now)
                self._found = key, self._found[1] if incidents == self._found[1] else incidents
        return self._found[1]

    def role(self) -> Role:
        """Return that somebody did: who it was, and whether, is not recorded."""
        return Role(0, "the console of then", 0, "", self._reel.clock.now())


class RecordedSamples:
    """How devices and hosts moved up to the moment. Implements `samples.Samples`."""

    def __init__(self, reel: Reel) -> None:
        self._reel = reel
        self._known: dict[tuple[str, str, float], Series] = {}
        self._known_of: tuple[object, ...] = ()

    def device(self, uuid: str, metric: DeviceMetric, span_s: float) -> Series:
        """Return a device's figure over the last `span_s` seconds, as far as it is loaded."""
        key = (uuid, metric, span_s)
        return self._remembered(key, lambda run: run.column_of(uuid, metric))

    def host(self, name: str, metric: HostMetric, span_s: float) -> Series:
        """Return a host's own figure over the last `span_s` seconds, as far as it is loaded."""

        def column(run: Run) -> tuple[list[int], float] | None:
            return run.column_of_host(metric) if run.host.name == name else None

        return self._remembered((f"/{name}", metric, span_s), column)

    def _remembered(self, key: tuple[str, str, float], column: _Column) -> Series:
        """Return a series, made once while neither the moment nor what is loaded changes."""
        self._reel.want(key[2])
        of = (self._reel.current()[1], self._reel.behind)
        if of != self._known_of:
            self._known, self._known_of = {}, of
        if key not in self._known:
            self._known[key] = self._series(key[2], column)
        return self._known[key]

    def _series(self, span_s: float, column: _Column) -> Series:
        stretch, end = self._reel.current()
        start = end - span_s
        times: list[float] = []
        values: list[float | None] = []
        for part in self._reel.behind if stretch is not None else ():
            if part.last < start:
                continue
            for runs in part.frames.hosts:
                for run in runs:
                    figures = column(run)
                    if figures is not None:
                        _add(run, part.frames.start, *figures, times, values)
        first, last = bisect_left(times, start), bisect_right(times, end)
        times, values = times[first:last], values[first:last]
        hold = self._every_s * _HOLDS
        nexts = [*times[1:], end]
        holds = [max(0.0, min(hold, after - at)) for at, after in zip(times, nexts, strict=False)]
        return Series(start, end, times, values, values, values, holds)

    @property
    def _every_s(self) -> float:
        stretch, _ = self._reel.current()
        if stretch is None:
            return 1.0
        return sampling_s(stretch.devices)


def _add(
    run: Run,
    start: float,
    numbers: list[int],
    step: float,
    times: list[float],
    values: list[float | None],
) -> None:
    """Add the samples of a run, each once: a host that says nothing has a record, but no sample."""
    for at, number in zip(run.sampled(start), numbers, strict=True):
        if at is not None and (not times or at > times[-1] + _SAME_S):
            times.append(at)
            values.append(figure(number, step))
