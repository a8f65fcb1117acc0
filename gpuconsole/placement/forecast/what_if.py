"""What would change if: a host went, devices came, a job's priority rose. On a copy, never live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import get_args

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.fleet import Backend, Device, FleetSnapshot, Host, HostState
from gpuconsole.core.units import format_duration, iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.placement.forecast.start_times import HORIZON_S, Expected
from gpuconsole.placement.model import Request

PER_HOST = 8
"""Devices that an imagined host has at most."""
_HORIZON = f"{HORIZON_S / 86400:.0f} days"
NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Moved:
    """A waiting job with a start that would change; None means unknown."""

    job: str
    name: str
    user: str
    before: float | None
    after: float | None

    def as_json(self) -> dict[str, str | None]:
        """Return the job as documents show it."""
        return {
            "id": self.job,
            "name": self.name,
            "user": self.user,
            "start_before": iso_utc(self.before),
            "start_after": iso_utc(self.after),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a change does to all waiting jobs."""

    moved: tuple[Moved, ...]
    """Those that would start at another time, the largest change first."""
    waiting: int
    mean_before_s: float | None
    """Mean wait from now of the jobs that start either way."""
    mean_after_s: float | None
    guess: bool
    """Whether the lengths of some jobs are not known."""
    untold_before: int = 0
    """Waiting jobs of which nothing tells when they could start."""
    untold_after: int = 0
    seen: bool = True
    """Whether a host of the lab has shown its devices."""
    labels: tuple[str, ...] = ()
    """The labels that imagined hosts were given, as `key=value`."""
    lacking: tuple[str, ...] = ()
    """Labels that waiting jobs ask for and that imagined hosts do not have: a host has one value
    of a label."""


def without_host(snapshot: FleetSnapshot, name: str) -> FleetSnapshot:
    """Return the fleet with a host drained: what runs there ends, nothing new starts.

    KeyError when there is no such host.
    """
    if snapshot.host(name) is None:
        raise KeyError(name)
    hosts = (
        replace(host, drained="what if", faults=()) if host.name == name else host
        for host in snapshot.hosts
    )
    return replace(snapshot, hosts=tuple(hosts))


def wanted_labels(requests: Sequence[Request]) -> dict[str, str]:
    """Return the labels that waiting jobs ask for; where they ask for several values of a label,
    the one that most of them ask for."""
    labels: dict[str, str] = {}
    for (key, value), _ in _asked_for(requests).most_common():
        labels.setdefault(key, value)
    return labels


def _asked_for(requests: Sequence[Request]) -> Counter[tuple[str, str]]:
    return Counter(pair for request in requests for pair in sorted(request.task.labels.items()))


def with_labels_named(
    comparison: Comparison, labels: Mapping[str, str], requests: Sequence[Request]
) -> Comparison:
    """Return a comparison that names the labels of imagined hosts, and those that they lack."""
    lacking = [pair for pair in _asked_for(requests) if labels.get(pair[0]) != pair[1]]
    return replace(comparison, labels=_words(labels.items()), lacking=_words(lacking))


def _words(labels: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in sorted(labels))


def with_devices(
    snapshot: FleetSnapshot, count: int, model: str, labels: Mapping[str, str] = NO_LABELS
) -> FleetSnapshot:
    """Return the fleet with imagined hosts that have these labels and hold so many devices of a
    model.

    KeyError when neither the fleet nor the catalogue knows the model.
    """
    like = _device(snapshot, model)
    hosts = []
    for first in range(0, count, PER_HOST):
        name = f"new-{first // PER_HOST + 1}"
        devices = tuple(
            replace(like, uuid=f"{name}-{index}", index=index)
            for index in range(min(PER_HOST, count - first))
        )
        hosts.append(Host(name, HostState.UP, labels=labels, devices=devices))
    return replace(snapshot, hosts=(*snapshot.hosts, *hosts))


def with_priority(requests: Sequence[Request], job: str, priority: int) -> list[Request]:
    """Return the queue with one job's priority changed. KeyError when it does not wait."""
    if all(request.job != job for request in requests):
        raise KeyError(job)
    return [
        replace(request, task=replace(request.task, priority=priority))
        if request.job == job
        else request
        for request in requests
    ]


def compare(
    requests: Sequence[Request],
    before: Mapping[str, Expected],
    after: Mapping[str, Expected],
    now: float,
    *,
    seen: bool = True,
) -> Comparison:
    """Hold two forecasts of one queue against each other; `seen` tells whether a host of the lab
    has shown its devices."""
    moved = []
    both: list[tuple[float, float]] = []
    for request in requests:
        old, new = before.get(request.job), after.get(request.job)
        if old is not None and new is not None:
            both.append((old.starts_at - now, new.starts_at - now))
        if _start(old) != _start(new):
            moved.append(
                Moved(request.job, request.task.name, request.user, _start(old), _start(new))
            )
    moved.sort(key=_change)
    guess = any(each.guess for each in (*before.values(), *after.values()))
    return Comparison(
        tuple(moved),
        len(requests),
        sum(old for old, _ in both) / len(both) if both else None,
        sum(new for _, new in both) / len(both) if both else None,
        guess,
        sum(request.job not in before for request in requests),
        sum(request.job not in after for request in requests),
        seen,
    )


def sentences(change: str, comparison: Comparison) -> list[str]:
    """Return what a comparison says in a few sentences."""
    jobs = "1 job waits" if comparison.waiting == 1 else f"{comparison.waiting} jobs wait"
    if not comparison.waiting:
        return [msg("{change}: no job waits for a place, so nothing would change.", change=change)]
    lines = [f"{change}: {jobs}; {len(comparison.moved)} would start at another time."]
    if not comparison.seen:
        unseen = "no host has shown its devices yet"
        lines = (
            [*lines, f"This is of new devices alone: {unseen}."]
            if comparison.moved
            else [f"{change}: {jobs}; {unseen}."]
        )
    lines += _label_sentences(comparison)
    lines += _untold(comparison)
    if (
        comparison.mean_before_s is not None
        and comparison.mean_after_s is not None
        and comparison.moved
    ):
        lines.append(
            f"The mean wait from now would go from {format_duration(comparison.mean_before_s)}"
            f" to {format_duration(comparison.mean_after_s)}."
        )
    if comparison.guess:
        lines.append("The lengths of some jobs are not known: these are guesses.")
    return lines


def _label_sentences(comparison: Comparison) -> list[str]:
    """Say which labels imagined hosts were given, and which of those asked for they lack."""
    lines = []
    if comparison.labels:
        lines.append(
            msg("The new hosts are given the labels {labels}.", labels=", ".join(comparison.labels))
        )
    if comparison.lacking:
        lines.append(
            msg(
                "They lack labels that other jobs ask for: {labels}.",
                labels=", ".join(comparison.lacking),
            )
        )
    return lines


def _untold(comparison: Comparison) -> list[str]:
    """Say of how many jobs nothing tells when they could start, where there are such."""
    before, after = comparison.untold_before, comparison.untold_after
    if not before and not after:
        return []
    if before != after:
        return [
            f"Without the change {before} of them {_have(before)} no estimate, with it {after}:"
            f" no start within {_HORIZON} can be foreseen of those."
        ]
    who = "It" if comparison.waiting == 1 else f"{after} of them"
    return [f"{who} {_have(after)} no estimate: no start within {_HORIZON} can be foreseen."]


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _change(moved: Moved) -> tuple[float, str]:
    if moved.before is None or moved.after is None:
        return (float("-inf"), moved.job)
    return (-abs(moved.after - moved.before), moved.job)


def _start(expected: Expected | None) -> float | None:
    return None if expected is None else expected.starts_at


def _device(snapshot: FleetSnapshot, model: str) -> Device:
    catalogue = Catalogue.load()
    for host in snapshot.hosts:
        for device in host.devices:
            total = device.memory_total_mib
            if not device.divided and catalogue.matches(model, device.model, total):
                return Device("", 0, device.model, device.backend, total, 0.0, 0.0)
    for spec in catalogue.specs:
        memory = None if spec.memory_gib is None else spec.memory_gib * 1024.0
        backend = _backend(spec.backend)
        if backend is not None and catalogue.matches(model, spec.model, memory):
            return Device("", 0, spec.model, backend, memory, 0.0, 0.0)
    raise KeyError(model)


def _backend(word: str) -> Backend | None:
    return next((backend for backend in get_args(Backend) if backend == word), None)
