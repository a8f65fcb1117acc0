"""What a simulated run comes to, in figures."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.simulate.workload import SimJob


@dataclass(frozen=True, slots=True)
class Ran:
    """How one job fared. Times are seconds from the start of the window."""

    job: SimJob
    started_s: float | None
    """Its last start; None when it never ran."""
    ended_s: float | None
    """None when it did not end."""
    held_s: float = 0.0
    """Device-seconds that it held, lost attempts too."""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Busy:
    """Devices in use from a moment on, until the next one."""

    at_s: float
    held: int
    """Devices with a job."""
    working: float
    """Devices' worth of work: each held one by its utilisation."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run under one policy."""

    policy: str
    devices: int
    ran: tuple[Ran, ...]
    busy: tuple[Busy, ...]
    counted_from: float
    last_arrival: float


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one policy. Times are seconds over the counted jobs that ended."""

    policy: str
    mean_jct_s: float | None
    """From submission to the end."""
    p50_jct_s: float | None
    p95_jct_s: float | None
    mean_wait_s: float | None
    """From submission to the last start."""
    p99_wait_s: float | None
    longest_wait_s: float | None
    allocation_rate: float
    """Share of device time with a job on it, from the first counted to the last submitted job."""
    device_utilisation: float
    """The same, each device counted by how busy its jobs keep it."""
    makespan_s: float
    """From the first submission to the last end, of all jobs."""
    fairness_jain: float | None
    """Jain's index over users of (sum of run times / sum of completion times); 1 = all alike."""
    jobs: int
    """Counted jobs."""
    unfinished: int
    """Counted jobs that never ended."""

    def as_json(self) -> dict[str, object]:
        """Return the figures as the document shows them."""
        return {name: getattr(self, name) for name in self.__slots__}


RATIOS = (
    "mean_jct_s",
    "p50_jct_s",
    "p95_jct_s",
    "mean_wait_s",
    "p99_wait_s",
    "longest_wait_s",
    "allocation_rate",
    "device_utilisation",
    "makespan_s",
    "fairness_jain",
)


def metrics(outcome: Outcome) -> Metrics:
    """Sum up a run."""
    counted = [run for run in outcome.ran if run.job.counted]
    done = [run for run in counted if run.ended_s is not None and run.started_s is not None]
    completion = sorted((run.ended_s or 0.0) - run.job.submitted_s for run in done)
    waits = sorted((run.started_s or 0.0) - run.job.submitted_s for run in done)
    held, working = shares(outcome, outcome.counted_from, outcome.last_arrival)
    first = min((run.job.submitted_s for run in outcome.ran), default=0.0)
    last = max((run.ended_s for run in outcome.ran if run.ended_s is not None), default=first)
    return Metrics(
        outcome.policy,
        _mean(completion),
        quantile(completion, 0.5),
        quantile(completion, 0.95),
        _mean(waits),
        quantile(waits, 0.99),
        quantile(waits, 1.0),
        held,
        working,
        last - first,
        _fairness(done),
        len(counted),
        len(counted) - len(done),
    )


def ratios(own: Metrics, first: Metrics) -> dict[str, float | None]:
    """Return each figure over that of another policy; None where either is missing or 0."""
    ratios_: dict[str, float | None] = {}
    for name in RATIOS:
        mine, other = getattr(own, name), getattr(first, name)
        ratios_[name] = mine / other if mine is not None and other else None
    return ratios_


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of sorted values lies, between neighbours by line."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def shares(outcome: Outcome, begin: float, end: float) -> tuple[float, float]:
    """Return the mean share of devices held, and of devices at work, between two moments."""
    held = working = 0.0
    for now, until in _spans(outcome.busy, begin, end):
        held += now.held * until
        working += now.working * until
    total = outcome.devices * (end - begin)
    return (held / total, working / total) if total > 0 else (0.0, 0.0)


def curve(outcome: Outcome, parts: int) -> list[float]:
    """Return the mean share of devices held in equal parts of the time until the last arrival."""
    step = outcome.last_arrival / parts
    sums = [0.0] * parts
    for before, after in zip(outcome.busy, outcome.busy[1:], strict=False):
        begin, end = before.at_s, min(after.at_s, outcome.last_arrival)
        while begin < end and step > 0:
            part = min(parts - 1, int(begin / step))
            stop = end if part == parts - 1 else min(end, (part + 1) * step)
            if stop <= begin:
                break
            sums[part] += before.held * (stop - begin)
            begin = stop
    whole = outcome.devices * step
    return [value / whole if whole > 0 else 0.0 for value in sums]


def by_user(outcome: Outcome) -> dict[str, float]:
    """Return each user's share of the device time held, largest first."""
    held: dict[str, float] = defaultdict(float)
    for run in outcome.ran:
        held[run.job.user] += run.held_s
    total = sum(held.values()) or 1.0
    return {
        user: held_s / total
        for user, held_s in sorted(held.items(), key=lambda it: (-it[1], it[0]))
    }


def _spans(busy: Sequence[Busy], begin: float, end: float) -> Iterable[tuple[Busy, float]]:
    for number, now in enumerate(busy):
        after = busy[number + 1].at_s if number + 1 < len(busy) else end
        length = min(after, end) - max(now.at_s, begin)
        if length > 0:
            yield now, length


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _fairness(done: Sequence[Ran]) -> float | None:
    served: Mapping[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for run in done:
        sums = served[run.job.user]
        sums[0] += (run.ended_s or 0.0) - (run.started_s or 0.0)
        sums[1] += (run.ended_s or 0.0) - run.job.submitted_s
    values = [run / total for run, total in served.values() if total > 0]
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else None
