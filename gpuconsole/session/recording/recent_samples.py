"""What the session remembers of the last hours, for plots and for triage."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.core.containers import Hosts
from gpuconsole.core.history import DeviceMetric, History, HostMetric, Series
from gpuconsole.session.clock import Clock
from gpuconsole.session.recording.backfill import Earlier, Samples

__all__ = ["LiveSamples", "Samples"]

LOOK_EVERY_S = 1.0


class LiveSamples:
    """Samples fed from the fleet once a second; costs what has changed."""

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
                await self._clock.sleep(LOOK_EVERY_S)
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
