"""The fleet with hosts marked that sleep, wake, or are being put to sleep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuconsole.core.containers import Engine, Hosts
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.power import Elastic
from gpuconsole.core.units import format_duration
from gpuconsole.placement.waking import Past, typical_s
from gpuconsole.session.queue.planner import Why
from gpuconsole.state.elastic import ElasticNotes

TIRED = "it has been awake for as long as it may; it sleeps when its jobs have ended"
WOKEN = "it has just woken"
SLEEPING = "it is being put to sleep"


class PoweredHosts:
    """Hosts whose pictures say what is remembered of their waking and sleeping."""

    def __init__(self, hosts: Hosts, limits: Mapping[str, Elastic], notes: ElasticNotes) -> None:
        self.plain = hosts
        self.limits = limits
        self.notes = notes
        self._known: Mapping[str, Past] = {}
        self._changes = 0
        self._made: tuple[FleetSnapshot, int, FleetSnapshot] | None = None
        self._marked: dict[str, tuple[Host, Past | None, Host]] = {}

    async def start(self) -> None:
        """Begin to poll."""
        await self.plain.start()

    async def close(self) -> None:
        """End all links."""
        await self.plain.close()

    async def engine(self, host: str) -> Engine:
        """Return the engine of a host."""
        return await self.plain.engine(host)

    async def signal(self, host: str, process: DeviceProcess, signal: str) -> None:
        """Send a signal to a process of a host."""
        await self.plain.signal(host, process, signal)

    def snapshot(self) -> FleetSnapshot:
        """Return the present picture; the same one while nothing changed."""
        plain = self.plain.snapshot()
        known = self.notes.all() if self.limits else self._known
        if known is not self._known:
            self._known, self._changes = known, self._changes + 1
        if not self._changes:
            return plain
        if self._made is None or self._made[0] is not plain or self._made[1] != self._changes:
            hosts = tuple(map(self._mark, plain.hosts))
            # Both only grow, so equal sums are equal pictures.
            revision = plain.revision + self._changes
            self._made = (plain, self._changes, replace(plain, hosts=hosts, revision=revision))
        return self._made[2]

    def _mark(self, host: Host) -> Host:
        """Return a host's record; the same one while neither it nor its past changed."""
        limits, past = self.limits.get(host.name), self._known.get(host.name)
        if limits is None or past is None:
            return host
        before = self._marked.get(host.name)
        if before is None or before[0] is not host or before[1] != past:
            before = (host, past, _marked(host, past, limits))
            self._marked[host.name] = before
        return before[2]


def _marked(host: Host, past: Past, limits: Elastic) -> Host:
    if host.state is HostState.UP:
        if past.phase in ("waking", "asleep"):
            # Up, and not yet given free by the console that woke it.
            return replace(host, power="waking", drained=host.drained or WOKEN)
        if past.phase == "sleeping":
            return replace(host, power="sleeping", drained=host.drained or SLEEPING)
        return replace(host, drained=host.drained or TIRED) if past.phase == "tired" else host
    if past.phase == "waking":
        return replace(host, state=HostState.DOWN, power="waking", error=waking_words(past, limits))
    if past.phase in ("asleep", "sleeping"):
        trouble = f" It did not wake: {past.error}" if past.error and past.failures else ""
        words = f"It sleeps, and is woken when a job needs it.{trouble}"
        return replace(host, state=HostState.DOWN, power="asleep", error=words)
    return host


def waking_words(past: Past, limits: Elastic) -> str:
    """Say how long waking takes, as a sentence."""
    return f"It is waking: {format_duration(typical_s(limits, past))} typically."


class Told(Mapping[str, Why]):
    """Reasons of waiting jobs, with what is being done about some of them."""

    def __init__(
        self, reasons: Mapping[str, Why], more: Mapping[str, tuple[str, float | None]]
    ) -> None:
        """`more` are a sentence and a time by which the job may start, if that is known, by job."""
        self._reasons = reasons
        self._more = more

    def __getitem__(self, job: str) -> Why:
        why = self._reasons[job]
        if job not in self._more:
            return why
        sentence, ready_at = self._more[job]
        starts = [at for at in (why.estimated_start, ready_at) if at is not None]
        sooner = min(starts, default=None)
        return replace(why, reason=f"{sentence} {why.reason}", estimated_start=sooner)

    def __contains__(self, job: object) -> bool:
        return job in self._reasons

    def __iter__(self) -> Iterator[str]:
        return iter(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)
