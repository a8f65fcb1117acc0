"""What the session remembers of the last hours, for plots and for triage."""

from __future__ import annotations

from typing import Protocol

from gpuconsole.core.containers import Hosts
from gpuconsole.core.history import DeviceMetric, History, HostMetric, Series
from gpuconsole.session.clock import Clock

LOOK_EVERY_S = 1.0


class Samples(Protocol):
    """How devices and hosts moved up to now, or up to the moment that is looked at."""

    def device(self, uuid: str, metric: DeviceMetric, span_s: float) -> Series:
        """Return a device's figure over the last `span_s` seconds; empty for one never seen."""
        ...

    def host(self, name: str, metric: HostMetric, span_s: float) -> Series:
        """Return a host's own figure over the last `span_s` seconds."""
        ...


class LiveSamples:
    """Samples fed from the fleet once a second; costs what has changed."""

    def __init__(self, hosts: Hosts, clock: Clock) -> None:
        self._hosts = hosts
        self._clock = clock
        self._history = History()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Keep what is new."""
        self._history.feed(self._hosts.snapshot().hosts)

    def device(self, uuid: str, metric: DeviceMetric, span_s: float) -> Series:
        """Return a device's figure over the last `span_s` seconds; empty for one never seen."""
        now = self._clock.now()
        return self._history.device(uuid, metric, now - span_s, now)

    def host(self, name: str, metric: HostMetric, span_s: float) -> Series:
        """Return a host's own figure over the last `span_s` seconds."""
        now = self._clock.now()
        return self._history.host(name, metric, now - span_s, now)
