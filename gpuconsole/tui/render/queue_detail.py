"""What is shown beside the reasons of a job on a large terminal: its need against the devices that
there are, and what has happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuconsole.core.fleet import Device, FleetSnapshot, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.device_rows import short_model
from gpuconsole.tui.render.fleet_map.metrics import is_free
from gpuconsole.tui.render.incidents import moment
from gpuconsole.tui.render.job import Lines, places
from gpuconsole.tui.render.text_cells import Piece, bar, fit, labelled, wrapped
from gpuconsole.tui.style.styles import Ink

if TYPE_CHECKING:
    from gpuconsole.placement.forecast.start_times import Expected

MOST_KINDS = 14
MOST_AHEAD = 4
"""Jobs before this one that are named."""
_LIMIT, _BAR, _SHARE, _FREE, _TIME = 10, 12, 6, 12, 10
"""Cells of the columns."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Devices of one model."""

    model: str
    limit_mib: float | None
    """What a job may fill of one."""
    count: int
    free: int
    other: bool
    """Whether they are of another back end than the job's."""


def kinds_for(job: Job, snapshot: FleetSnapshot, share: float) -> list[Kind]:
    """Return the kinds of devices that there are: those that the job can use first, by memory.

    `share` is how much of a device's memory the job may fill, 0-1. What is free is counted on hosts
    that are up, as on the map.
    """
    counted: dict[tuple[str, float, str], list[int]] = {}
    for host in snapshot.hosts:
        for device in host.devices:
            if device.mig and device.divided:
                continue
            key = (short_model(device.model), device.memory_total_mib or 0.0, device.backend)
            counts = counted.setdefault(key, [0, 0])
            counts[0] += 1
            counts[1] += host.state is HostState.UP and is_free(device)
    kinds = [
        Kind(model, total * share or None, count, free, backend != job.task.backend)
        for (model, total, backend), (count, free) in counted.items()
    ]
    return sorted(kinds, key=lambda kind: (kind.other, -(kind.limit_mib or 0.0), kind.model))


def need_lines(ink: Ink, job: Job, kinds: Sequence[Kind], width: int) -> Lines:
    """Return the job's need on each device against every kind of device."""
    say, need = ink.say, job.estimate_mib
    room = max(8, width - _LIMIT - _BAR - _SHARE - _FREE - 1)
    lines: Lines = [
        [
            (fit(say("device"), room), ink.muted),
            (fit(say("may use"), _LIMIT, "right"), ink.muted),
            (" " + fit(say("need"), _BAR + _SHARE), ink.muted),
            (fit(say("free"), _FREE, "right"), ink.muted),
        ]
    ]
    for kind in kinds[:MOST_KINDS]:
        usable = not kind.other and _fits(need, kind.limit_mib)
        free = say(msg("{n} of {all}", n=kind.free, all=kind.count))
        lines.append(
            [
                (fit(kind.model, room), ink.text if usable else ink.muted),
                (fit(format_mib(kind.limit_mib), _LIMIT, "right"), ink.muted),
                (" ", ink.text),
                *_need(ink, kind, need),
                (fit(free, _FREE, "right"), ink.free if usable and kind.free else ink.muted),
            ]
        )
    if len(kinds) > MOST_KINDS:
        lines.append([(say(f"and {len(kinds) - MOST_KINDS} more"), ink.muted)])
    return lines


def _fits(need: float | None, limit: float | None) -> bool:
    return need is None or (limit is not None and need <= limit)


def _need(ink: Ink, kind: Kind, need: float | None) -> list[Piece]:
    if kind.other:
        return [(fit(ink.say("another back end"), _BAR + _SHARE), ink.muted)]
    if need is None or not kind.limit_mib:
        return [(fit(ink.say("not counted"), _BAR + _SHARE), ink.muted)]
    percent = 100.0 * need / kind.limit_mib
    if percent > 100.0:
        return [(fit(ink.say("too small"), _BAR + _SHARE), ink.bad)]
    return [*bar(ink, percent, _BAR, ink.heat[7]), (fit(f" {percent:.0f}%", _SHARE), ink.text)]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a waiting job."""

    number: int
    """From 1, by when jobs should start."""
    count: int
    starts_at: float | None
    guess: bool
    hosts: Sequence[str]
    """Where it should start; empty where that is not known."""
    ahead: Sequence[str]
    """Names of the jobs before it, the next first."""


def history_lines(ink: Ink, job: Job, place: Place | None, now: float, width: int) -> Lines:
    """Return the place of a waiting job, and the events of its life, the newest first."""
    say = ink.say
    lines: Lines = []
    if place is not None:
        where = msg("{n} of {all} that wait", n=place.number, all=place.count)
        lines += labelled(ink, "place", where, width)
        if place.starts_at is not None:
            left = format_duration(max(0.0, place.starts_at - now))
            on = " on {hosts}" if place.hosts else ""
            guess = ", a guess" if place.guess else ""
            hosts = ", ".join(place.hosts[:3])
            words = msg(f"in about {{time}}{on}{guess}", time=left, hosts=hosts)
            lines += labelled(ink, "start", words, width)
        if place.ahead:
            more = len(place.ahead) - MOST_AHEAD
            names = ", ".join(place.ahead[:MOST_AHEAD])
            lines += labelled(ink, "before it", names, width)
            lines += labelled(ink, "", f"and {more} more", width) if more > 0 else []
    for label, seconds in (("run time", job.task.run_time_s), ("limit", job.task.time_limit_s)):
        if seconds is not None:
            lines += labelled(ink, label, format_duration(seconds), width)
    if lines:
        lines.append([])
    for at, words, bad in sorted(_events(job), key=lambda event: -event[0]):
        parts = wrapped(say(words), max(8, width - _TIME))
        lines += [
            [
                (fit(moment(at, now) if first == 0 else "", _TIME), ink.muted),
                (part, ink.bad if bad else ink.text),
            ]
            for first, part in enumerate(parts)
        ]
    return lines


def _events(job: Job) -> Iterator[tuple[float, str, bool]]:
    yield job.submitted_at, msg("submitted by {user}", user=job.user), False
    for attempt in job.attempts:
        if attempt.started_at is not None:
            yield attempt.started_at, msg("started on {place}", place=places(attempt)), False
        if attempt.ended_at is not None:
            yield attempt.ended_at, _end(job, attempt), bool(attempt.cause or attempt.exit_code)


def _end(job: Job, attempt: Attempt) -> str:
    if attempt.cause:
        return attempt.cause
    latest = attempt is job.attempt and job.state.ended
    return msg("ended: {state_word}", state_word=job.state_word) if latest else "ended"


def place_of(job: Job, waiting: Sequence[Job], starts: Mapping[str, Expected]) -> Place | None:
    """Return the place of a job among those that wait, in their order; None when it does not wait.

    `starts` are the expected starts by job, as `session.foresight.known` has them.
    """
    ids = [other.id for other in waiting]
    if job.state is not JobState.QUEUED or job.id not in ids:
        return None
    at = ids.index(job.id)
    start = starts.get(job.id)
    return Place(
        at + 1,
        len(ids),
        None if start is None else start.starts_at,
        start is not None and start.guess,
        () if start is None else start.hosts,
        tuple(other.task.name for other in waiting[:at]),
    )


def fullest(attempt: Attempt, snapshot: FleetSnapshot) -> Device | None:
    """Return the device of an attempt that holds most."""
    hosts = [snapshot.host(part.host) for part in attempt.parts]
    uuids = {uuid for part in attempt.parts for uuid in part.device_uuids}
    mine = [other for host in hosts if host for other in host.devices if other.uuid in uuids]
    return max(mine, key=lambda other: other.memory_used_mib or 0.0, default=None)
