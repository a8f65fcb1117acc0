"""Hosts that sleep, wake, or are being put to sleep: their marks, and what they mean for jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuconsole.core.devices.host_power import Elastic
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import sentences
from gpuconsole.placement.elastic.wake import Past, bar_words, typical_s
from gpuconsole.session.fleet.view import Overlay
from gpuconsole.session.queue.planner import Plan, Step, Why
from gpuconsole.state.files.host_power import ElasticNotes

TIRED = "it has been awake for as long as it may; it sleeps when its jobs have ended"
WOKEN = "it has just woken"
SLEEPING = "it is being put to sleep"


@dataclass(frozen=True, slots=True)
class PowerMarks:
    """What is remembered of the resuming and suspending of hosts."""

    limits: Mapping[str, Elastic]
    past: Mapping[str, Past]

    def mark(self, host: Host) -> Host:
        """Return a host's record with what is remembered of it."""
        limits, past = self.limits.get(host.name), self.past.get(host.name)
        return host if limits is None or past is None else _marked(host, past, limits)


def power_overlay(limits: Mapping[str, Elastic], notes: ElasticNotes) -> Overlay:
    """Return the overlay of the hosts that can be resumed; `limits` by host."""

    def marks() -> PowerMarks | None:
        past = notes.all() if limits else {}
        return PowerMarks(limits, past) if past else None

    return marks


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


def with_power(limits: Mapping[str, Elastic], notes: ElasticNotes) -> Step:
    """Return the step of planning that says of waiting jobs which hosts are being resumed for them,
    or would be if they might."""
    return lambda situation, plan: _with_power(
        situation.snapshot, plan, limits, notes, situation.now
    )


def _with_power(
    snapshot: FleetSnapshot,
    plan: Plan,
    limits: Mapping[str, Elastic],
    notes: ElasticNotes,
    now: float,
) -> Plan:
    more: dict[str, tuple[str, float | None]] = {}
    for name, past in notes.all().items() if limits else ():
        limit, host = limits.get(name), snapshot.host(name)
        if limit is None:
            continue
        asleep = host is not None and host.power == "asleep" and not host.drained
        if asleep and past.wanted and (bar := bar_words(limit, past, now)):
            said = f"{name} sleeps; were it awake, this job could start. {bar}"
            more = {**dict.fromkeys(past.wanted, (said, None)), **more}
        elif past.phase == "waking":
            takes = typical_s(limit, past)
            said = f"Waking {name}: {format_duration(takes)} typically."
            more |= dict.fromkeys(past.jobs, (said, past.since + takes))
    return replace(plan, waiting=Told(plan.waiting, more)) if more else plan


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
        undated = sentences(sentence, why.undated) if why.undated else ""
        reason = sentences(sentence, why.reason)
        return replace(why, reason=reason, undated=undated, estimated_start=sooner)

    def __contains__(self, job: object) -> bool:
        return job in self._reasons

    def __iter__(self) -> Iterator[str]:
        return iter(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)
