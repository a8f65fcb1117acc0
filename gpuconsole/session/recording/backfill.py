"""What a session remembers of the last hours, and what was recorded before it began: for plots and
for triage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpuconsole.core.containers import Hosts
from gpuconsole.core.history import DeviceMetric, History, HostMetric, Series
from gpuconsole.errors import ConsoleError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.clock import Clock
from gpuconsole.session.recording.player import MOST_HISTORY_S, Reel
from gpuconsole.session.recording.recorded_sources import RecordedSamples
from gpuconsole.state.recording.archive import Shelf

__all__ = ["LiveSamples", "Samples"]

LOOK_EVERY_S = 1.0
LOOKS = 8
"""How often at least a host is looked at between two samples that are kept of it."""


class LiveSamples:
    """Samples fed from the fleet once a second, from a large one less often; costs what has
    changed."""

    def __init__(self, hosts: Hosts, clock: Clock, recordings: Path) -> None:
        """`recordings` is the folder in which earlier sessions may have recorded."""
        self._hosts = hosts
        self._clock = clock
        self._history = History()
        self._earlier = Earlier(hosts, recordings, clock.now())

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                self.look()
                await self._clock.sleep(max(LOOK_EVERY_S, self._history.every_s / LOOKS))
        finally:
            await self._earlier.close()

    def look(self) -> None:
        """Keep what is new."""
        self._history.feed(self._hosts.snapshot().hosts)

    def device(self, uuid: str, metric: DeviceMetric, span_s: float) -> Series:
        """Return a device's figure over the last `span_s` seconds; empty for one never seen."""
        now = self._clock.now()
        series = self._history.device(uuid, metric, now - span_s, now)
        return self._earlier.joined(series, lambda old, span: old.device(uuid, metric, span))

    def host(self, name: str, metric: HostMetric, span_s: float) -> Series:
        """Return a host's own figure over the last `span_s` seconds."""
        now = self._clock.now()
        series = self._history.host(name, metric, now - span_s, now)
        return self._earlier.joined(series, lambda old, span: old.host(name, metric, span))


class Samples(Protocol):
    """How devices and hosts moved up to now, or up to the moment that is looked at."""

    def device(self, uuid: str, metric: DeviceMetric, span_s: float) -> Series:
        """Return a device's figure over the last `span_s` seconds; empty for one never seen."""
        ...

    def host(self, name: str, metric: HostMetric, span_s: float) -> Series:
        """Return a host's own figure over the last `span_s` seconds."""
        ...


class Earlier:
    """Recordings up to the time when a session began; opened when somebody first asks for them."""

    def __init__(self, hosts: Hosts, folder: Path, began: float) -> None:
        self._hosts = hosts
        self._folder = folder
        self._began = began
        self._reel: Reel | None = None
        self._samples: RecordedSamples | None = None
        self._opening: asyncio.Task[None] | None = None

    def joined(self, series: Series, ask: Callable[[Samples, float], Series]) -> Series:
        """Return a series with what was recorded before it; `ask` returns the last so many seconds
        of a recording. What is not read yet is there when it is asked for again."""
        if series.start >= self._began:
            return series
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        reel, samples = self._reel, self._samples
        if samples is None or reel is None:
            return series
        until = reel.clock.now()
        if until <= series.start:
            return series
        old = ask(samples, until - series.start)
        count = sum(at < self._began for at in old.times)
        return Series(
            series.start,
            series.end,
            [*old.times[:count], *series.times],
            [*old.values[:count], *series.values],
            [*old.lows[:count], *series.lows],
            [*old.highs[:count], *series.highs],
            [*old.holds[:count], *series.holds],
        )

    async def close(self) -> None:
        """Let go of the files."""
        if self._opening is not None:
            await cancel_all([self._opening])
        if self._reel is not None:
            await self._reel.close()

    async def _open(self) -> None:
        names = [host.name for host in self._hosts.snapshot().hosts]
        self._reel = reel = Reel(lambda: Shelf(self._folder, hosts=names))
        try:
            landed = await reel.open(self._began, -1)
        except ConsoleError:
            # Nothing was recorded, or nothing that can be read: plots begin with the session.
            return
        if self._began - MOST_HISTORY_S < landed <= self._began:
            self._samples = RecordedSamples(reel)
