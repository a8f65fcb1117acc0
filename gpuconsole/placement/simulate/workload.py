"""The jobs that are simulated: those of a trace, with what the trace does not say drawn.

Every kind of draw has dice of its own, so that one choice (another load, another error of the
predictions) leaves the others as they were. `drawn` says in sentences what did not come from the
trace.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement.simulate.device_speeds import CLASSES, REFERENCE
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.trace_readers import (
    DAY,
    MOST_DEVICES,
    Dice,
    Trace,
    TraceJob,
    thin,
    window,
)

USERS = 30
ZIPF = 1.0
"""Exponent of the users' activity: the second submits half as much as the first."""
MEMORY_MEDIAN_MIB = 9 * 1024.0
MEMORY_SIGMA = 0.8
MEMORY_LEAST_MIB = 1024.0
PORTABLE = 0.5
"""Share of the jobs that run on every back end of the lab; the others need its main one."""
BUSY = ((0.0, 3.0), (0.25, 22.0), (0.5, 48.0), (0.75, 78.0), (1.0, 98.0))
"""Quantiles of the utilisation of a device by a job alone; quartiles as published solo profiles
of training jobs have them."""


@dataclass(frozen=True, slots=True)
class SimJob:
    """A job with everything that the simulation needs to know."""

    id: str
    submitted_s: float
    run_time_s: float
    """The truth, on the reference device."""
    predicted_s: float | None
    """What the scheduler believes, on the reference device."""
    devices: int
    user: str
    job_class: str
    need_mib: float
    utilization: float
    backends: tuple[str, ...]
    counted: bool
    """False while the lab fills: the job runs but does not enter the figures."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Which part of a trace is played, and how it is completed."""

    load: float | None = None
    """Offered work against the lab's capacity; None takes the window as it is."""
    start_day: float = 0.0
    days: float | None = None
    """Length of the window; None until the trace ends."""
    warm_up_days: float = 1.0
    sigma: float | None = 2.0
    """Error of predicted run times: the truth times e to a normal draw of this width; None for no
    predictions at all."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order of submission, and what is to be known about them."""

    jobs: tuple[SimJob, ...]
    offered_load: float
    """What the jobs come to, against the capacity of the lab over the window."""
    counted_from: float
    last_arrival: float
    notes: tuple[str, ...]
    """Sentences: what was left out and what was drawn."""


def build(trace: Trace, lab: Lab, cut: Cut, dice: Callable[[str], Dice]) -> Workload:
    """Cut and complete a trace for a lab; `dice` returns a seeded generator for a name."""
    rows = window(trace, cut.start_day, cut.days)
    span = max(1.0, rows[-1].submitted_s if cut.days is None else cut.days * DAY)
    warm = cut.warm_up_days * DAY if span > 2 * cut.warm_up_days * DAY else 0.0
    fitting = [row for row in rows if _fits(lab, row)]
    if not fitting:
        raise UsageError(
            "No job for this lab",
            msg(
                "None of the {count} jobs in the window fits {name}.",
                count=f"{len(rows):,}",
                name=lab.name,
            ),
            "Choose another window or a larger lab.",
        )
    jobs = _complete(fitting, lab, cut, warm, dice)
    notes = [*trace.notes, *lab.assumptions, *_left_out(trace, rows, fitting, warm, cut)]
    if cut.load is not None:
        offered = _work(jobs) / (lab.capacity * span)
        if offered < cut.load:
            notes.append(
                msg(
                    "The window offers a load of {n} and no more: all jobs run.",
                    n=f"{offered:.2f}",
                )
            )
        else:
            jobs = thin(jobs, cut.load * lab.capacity * span, dice("load"))
    if not jobs:
        raise UsageError(
            "Empty window",
            msg("No job is left at a load of {load}.", load=f"{cut.load:g}"),
            "Choose a higher --load or a longer --window-days.",
        )
    notes += _drawn(rows, cut, lab)
    return Workload(
        tuple(jobs), _work(jobs) / (lab.capacity * span), warm, jobs[-1].submitted_s, tuple(notes)
    )


def _work(jobs: Sequence[SimJob]) -> float:
    return sum(job.run_time_s * job.devices for job in jobs)


def _fits(lab: Lab, row: TraceJob) -> bool:
    if row.devices > MOST_DEVICES:
        return False
    most = lab.most_memory_mib(row.devices, row.backends or lab.backends)
    return most is not None and (row.need_mib or 0.0) <= most


# --- draws --------------------------------------------------------------------------------------


class _Draws:
    """Dice for each thing that a trace may lack."""

    def __init__(self, lab: Lab, dice: Callable[[str], Dice]) -> None:
        self.lab = lab
        names = ("user", "class", "backends", "memory", "busy", "error")
        self._dice = {name: dice(name) for name in names}
        weights = accumulate(1.0 / (rank + 1) ** ZIPF for rank in range(USERS))
        self._users = list(weights)

    def user(self) -> str:
        """Draw who submits: the rank follows Zipf's law."""
        point = self._dice["user"].random() * self._users[-1]
        return f"user{bisect(self._users, point) + 1:02}"

    def job_class(self) -> str:
        """Draw a class, all alike."""
        names = tuple(CLASSES)
        return names[int(self._dice["class"].random() * len(names))]

    def backends(self, devices: int) -> tuple[str, ...]:
        """Draw on which back ends a job runs: all, or the lab's main one where it has room."""
        every = self.lab.backends
        portable = self._dice["backends"].random() < PORTABLE
        main = every[:1]
        return every if portable or self.lab.most_memory_mib(devices, main) is None else main

    def memory(self, most: float) -> float:
        """Draw a need of memory on each device (MiB), below what the lab can give."""
        for _ in range(20):
            need = MEMORY_MEDIAN_MIB * math.exp(self._dice["memory"].gauss(0.0, MEMORY_SIGMA))
            if MEMORY_LEAST_MIB <= need <= most:
                return need
        return min(most, MEMORY_MEDIAN_MIB)

    def busy(self) -> float:
        """Draw the percent of a device that a job keeps busy."""
        share = self._dice["busy"].random()
        for (low, at_low), (high, at_high) in pairwise(BUSY):
            if share <= high:
                return at_low + (at_high - at_low) * (share - low) / (high - low)
        return BUSY[-1][1]

    def error(self) -> float:
        """Draw how wrong a prediction is, in widths of the error."""
        return self._dice["error"].gauss(0.0, 1.0)


def _complete(
    rows: Sequence[TraceJob], lab: Lab, cut: Cut, warm: float, dice: Callable[[str], Dice]
) -> list[SimJob]:
    """Draw what the rows lack, for all of them before any is left out for the load."""
    draws = _Draws(lab, dice)
    jobs = []
    for number, row in enumerate(rows):
        user, job_class, busy = draws.user(), draws.job_class(), draws.busy()
        backends = draws.backends(row.devices)
        if row.backends:
            backends = row.backends
        most = lab.most_memory_mib(row.devices, backends)
        assert most is not None, "rows that fit nowhere are gone"
        need, error = draws.memory(most), draws.error()
        believed = None if cut.sigma is None else row.run_time_s * math.exp(cut.sigma * error)
        jobs.append(
            SimJob(
                f"job-{number}",
                row.submitted_s,
                row.run_time_s,
                believed if row.predicted_s is None else row.predicted_s,
                row.devices,
                row.user or user,
                row.job_class or job_class,
                need if row.need_mib is None else row.need_mib,
                busy if row.utilization is None else row.utilization,
                backends,
                row.submitted_s >= warm,
            )
        )
    return jobs


# --- what is to be said -------------------------------------------------------------------------


def _left_out(
    trace: Trace, rows: Sequence[TraceJob], fitting: Sequence[TraceJob], warm: float, cut: Cut
) -> Iterator[str]:
    if trace.empty:
        yield msg("{n} rows without devices or run time are left out.", n=f"{trace.empty:,}")
    large, of_all = sum(row.devices > MOST_DEVICES for row in rows), f"{len(rows):,}"
    if large:
        yield msg(
            "{n} of {all} jobs ask for more than {limit} devices: left out.",
            n=f"{large:,}", all=of_all, limit=MOST_DEVICES,
        )  # fmt: skip
    if other := len(rows) - len(fitting) - large:
        yield msg(
            "{n} of {all} jobs ask for more than this lab has: left out.",
            n=f"{other:,}", all=of_all,
        )  # fmt: skip
    if warm:
        hours = f"{cut.warm_up_days * 24:g}"
        yield msg("Jobs of the first {n} hours run but are not counted.", n=hours)
    yield msg("Run times of the trace are taken as run times on a {device}.", device=REFERENCE)


def _drawn(rows: Sequence[TraceJob], cut: Cut, lab: Lab) -> Iterator[str]:
    """Say what does not come from the trace."""
    if not all(row.user for row in rows):
        yield msg(
            "Users are drawn: {n}, their activity by Zipf's law (exponent {low}).",
            n=USERS, low=f"{ZIPF:g}",
        )  # fmt: skip
    if not all(row.job_class for row in rows):
        yield msg("Classes of job are drawn, all alike: {names}.", names=", ".join(CLASSES))
    if any(row.need_mib is None for row in rows):
        yield msg(
            "Memory is drawn: log-normal, median {size}, sigma {low}, at most what the lab can"
            " give.",
            size=format_mib(MEMORY_MEDIAN_MIB), low=f"{MEMORY_SIGMA:g}",
        )  # fmt: skip
    if len(lab.backends) > 1 and not all(row.backends for row in rows):
        yield msg(
            "{percent} of the jobs run on every back end, the others on the lab's main one.",
            percent=f"{PORTABLE:.0%}",
        )
    if any(row.utilization is None for row in rows):
        yield "The utilisation by each job is drawn: quartiles 22, 48 and 78 %."
    if all(row.predicted_s is not None for row in rows):
        return
    if cut.sigma is None:
        yield "No run times are predicted."
    elif cut.sigma == 0:
        yield "Predicted run times are the true ones."
    else:
        yield msg(
            "Predicted run times: the true ones times a log-normal error, sigma {n}.",
            n=f"{cut.sigma:g}",
        )
