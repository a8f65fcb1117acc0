"""History cut into short windows: the earlier ones to train on, the latest to be judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.trace_readers import DAY, Dice, Trace
from gpuconsole.placement.simulate.workload import Cut, Workload, build

LEAST_JOBS = 200
"""A shorter history teaches nothing that the next week would confirm."""
HELD_OUT = 0.3
"""Share of the history, the latest, on which nothing is trained."""
MOST_DAYS = 14.0
MOST_JOBS = 900
"""A window has about so many jobs at most: many short ones teach more than few long ones."""
FEWEST_JOBS = 40
TRAIN_WINDOWS = 12
HELD_OUT_WINDOWS = 24
"""More than to train on: a gain of a few percent is small against what one window differs from
the next."""
LOADS = (0.6, 0.8, 1.0)
"""To which a trace is thinned where it offers more."""
SIGMAS = (2.0, 4.0)
"""Errors of the predicted run times, as published predictors have them."""


@dataclass(frozen=True, slots=True)
class History:
    """Windows of a lab's history, ready to be played."""

    train: tuple[Workload, ...]
    held_out: tuple[Workload, ...]


def history(
    trace: Trace, lab: Lab, dice: Callable[[str], Dice], loads: Sequence[float] = ()
) -> History:
    """Return the windows of a trace, thinned to `loads` in turn.

    Without loads the jobs are played as they came. UsageError where there are too few.
    """
    if len(trace.jobs) < LEAST_JOBS:
        raise UsageError(
            "Too few jobs to learn from",
            msg(
                "{source} holds {count} finished jobs; {least_jobs} are the least.",
                source=trace.source,
                count=f"{len(trace.jobs):,}",
                least_jobs=LEAST_JOBS,
            ),
            "Let more jobs finish, or name a trace with --trace FILE.",
        )
    first, last = trace.jobs[0].submitted_s, trace.jobs[-1].submitted_s
    split = (1.0 - HELD_OUT) * (last - first) / DAY
    end = (last - first) / DAY
    train = _windows(trace, lab, dice, (0.0, split), TRAIN_WINDOWS, loads)
    held_out = _windows(trace, lab, dice, (split, end), HELD_OUT_WINDOWS, loads)
    if not train or not held_out:
        raise UsageError(
            "Too few jobs to learn from",
            msg(
                "{source} has no {fewest_jobs} jobs in a window that fit {name}.",
                source=trace.source,
                fewest_jobs=FEWEST_JOBS,
                name=lab.name,
            ),
            "Let more jobs finish, or name a trace with --trace FILE.",
        )
    return History(train, held_out)


def _windows(
    trace: Trace,
    lab: Lab,
    dice: Callable[[str], Dice],
    span: tuple[float, float],
    most: int,
    loads: Sequence[float],
) -> tuple[Workload, ...]:
    begin, end = span
    days = min(MOST_DAYS, end - begin)
    workloads: list[Workload] = []
    number = 0
    while number < most and days > 0:
        # Windows stand evenly over the span, and may overlap where it is short.
        start = begin + (end - begin - days) * (number / max(1, most - 1))
        cut = Cut(
            loads[number % len(loads)] if loads else None,
            start,
            days,
            min(1.0, days / 4),
            SIGMAS[number // max(1, len(loads)) % len(SIGMAS)],
        )
        workload = _built(trace, lab, cut, dice, f"{begin:g}/{number}")
        if workload is not None and len(workload.jobs) > 1.5 * MOST_JOBS and days > 1.0:
            days = max(1.0, days * MOST_JOBS / len(workload.jobs))
            workloads, number = [], 0
            continue
        if workload is not None and len(workload.jobs) >= FEWEST_JOBS:
            workloads.append(workload)
        number += 1
    return tuple(workloads)


def _built(
    trace: Trace, lab: Lab, cut: Cut, dice: Callable[[str], Dice], name: str
) -> Workload | None:
    try:
        return build(trace, lab, cut, lambda kind: dice(f"{name}/{kind}"))
    except UsageError:
        return None  # an idle stretch
