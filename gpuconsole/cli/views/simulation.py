"""What a person sees of a simulation: a table, and plots of plain characters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuconsole.cli.output import said, table, text
from gpuconsole.core.units import format_duration
from gpuconsole.core.wording import joined, msg
from gpuconsole.placement.simulate.compare import Comparison
from gpuconsole.placement.simulate.metrics import Metrics, Outcome, by_user, curve, ratios

if TYPE_CHECKING:
    from rich.console import RenderableType

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 60
_USERS = 8
"""The most active users are shown, not all."""
_EDGES_S = (60, 300, 900, 3600, 3 * 3600, 8 * 3600, 86_400, 2 * 86_400, 4 * 86_400, 8 * 86_400)
_EDGE_NAMES = ("1m", "5m", "15m", "1h", "3h", "8h", "1d", "2d", "4d", "8d", "more")
_CELL = 5


def report(comparison: Comparison) -> Iterator[RenderableType]:
    """Draw everything."""
    yield said("SIMULATION: figures of a model, not of a real lab", "bold reverse")
    yield said(_setting(comparison))
    yield text("")
    yield _figures(comparison)
    width = max(len(outcome.policy) for outcome in comparison.outcomes)
    yield from _completion(comparison.outcomes, width)
    yield from _allocation(comparison, width)
    yield from _users(comparison)
    yield text("")
    yield said("What was assumed and drawn in this simulation", "bold")
    for note in comparison.notes:
        yield said(joined("", ("  ", note)))


def _setting(comparison: Comparison) -> str:
    jobs, counted = len(comparison.workload.jobs), comparison.metrics[0].jobs
    days = comparison.workload.last_arrival / 86_400
    return msg(
        "{n} jobs ({low} counted) over {days} days of {trace} on {lab}, {all} devices;"
        " offered load {load}, seed {seed}",
        n=f"{jobs:,}", low=f"{counted:,}", days=f"{days:.1f}", trace=comparison.trace,
        lab=comparison.lab.name, all=f"{comparison.lab.devices:,}",
        load=f"{comparison.workload.offered_load:.2f}", seed=comparison.seed,
    )  # fmt: skip


def _figures(comparison: Comparison) -> RenderableType:
    first = comparison.metrics[0]
    shown = table("POLICY", "MEAN JCT", "RATIO", "P50", "P95", "MEAN WAIT", "P99 WAIT", "LONGEST",
                  "ALLOCATED", "UTILISED", "MAKESPAN", "FAIRNESS", "UNFINISHED",
                  right=("MEAN JCT", "RATIO", "P50", "P95", "MEAN WAIT", "P99 WAIT", "LONGEST",
                         "ALLOCATED", "UTILISED", "MAKESPAN", "FAIRNESS",
                         "UNFINISHED"))  # fmt: skip
    for metric in comparison.metrics:
        ratio = ratios(metric, first)["mean_jct_s"]
        shown.add_row(*map(text, _row(metric, ratio)))
    return shown


def _row(metrics: Metrics, ratio: float | None) -> tuple[str, ...]:
    fairness = "n/a" if metrics.fairness_jain is None else f"{metrics.fairness_jain:.2f}"
    return (
        metrics.policy,
        format_duration(metrics.mean_jct_s),
        "n/a" if ratio is None else f"{ratio:.2f}",
        format_duration(metrics.p50_jct_s),
        format_duration(metrics.p95_jct_s),
        format_duration(metrics.mean_wait_s),
        format_duration(metrics.p99_wait_s),
        format_duration(metrics.longest_wait_s),
        f"{metrics.allocation_rate:.0%}",
        f"{metrics.device_utilisation:.0%}",
        format_duration(metrics.makespan_s),
        fairness,
        f"{metrics.unfinished:,}",
    )


def _completion(outcomes: Sequence[Outcome], width: int) -> Iterator[RenderableType]:
    """Draw how completion times (JCT) spread: the share of jobs done within each time."""
    yield text("")
    yield said("Completion times (JCT): share of jobs that took up to …", "bold")
    yield text(" " * width + "".join(f"{name:>{_CELL}}" for name in _EDGE_NAMES))
    for outcome in outcomes:
        counts = [0] * len(_EDGE_NAMES)
        for run in outcome.ran:
            if run.job.counted and run.ended_s is not None:
                took = run.ended_s - run.job.submitted_s
                counts[sum(took > edge for edge in _EDGES_S)] += 1
        total, most = max(1, sum(counts)), max(1, *counts)
        bars = "".join(
            f"{_bar(count / most)}{100 * count / total:>3.0f}".rjust(_CELL) for count in counts
        )
        yield text(f"{outcome.policy:<{width}}{bars}")


def _allocation(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    """Draw the share of devices held over time."""
    days = comparison.workload.last_arrival / 86_400
    yield text("")
    over = msg("Devices in use over {n} days, until the last arrival", n=f"{days:.1f}")
    yield said(over, "bold")
    for outcome in comparison.outcomes:
        line = "".join(map(_bar, curve(outcome, _WIDTH)))
        yield text(f"{outcome.policy:<{width}} │{line}│")


def _users(comparison: Comparison) -> Iterator[RenderableType]:
    """Draw who had how much of the devices, and how long their jobs took under each policy."""
    held = by_user(comparison.outcomes[-1])
    yield text("")
    policy = comparison.outcomes[-1].policy
    held_under = msg("Users: device time under {policy}, mean JCT by policy", policy=policy)
    yield said(held_under, "bold")
    names = [outcome.policy for outcome in comparison.outcomes]
    shown = table("USER", "DEVICE TIME", *names, right=names)
    means = [_means(outcome) for outcome in comparison.outcomes]
    for user, share in list(held.items())[:_USERS]:
        bar = f"{'█' * round(20 * share / max(held.values())):<20} {share:.0%}"
        shown.add_row(text(user), text(bar), *(text(format_duration(m.get(user))) for m in means))
    yield shown
    if len(held) > _USERS:
        rest = 1.0 - sum(list(held.values())[:_USERS])
        more = msg("… and {n} more with {percent}", n=len(held) - _USERS, percent=f"{rest:.0%}")
        yield said(more)


def _means(outcome: Outcome) -> dict[str, float]:
    times: dict[str, list[float]] = defaultdict(list)
    for run in outcome.ran:
        if run.job.counted and run.ended_s is not None:
            times[run.job.user].append(run.ended_s - run.job.submitted_s)
    return {user: sum(values) / len(values) for user, values in times.items()}


def _bar(share: float) -> str:
    """Return a bar of one character; something shows unless there is nothing."""
    level = round(share * (len(_BARS) - 1))
    return _BARS[max(level, 1 if share > 0 else 0)]
