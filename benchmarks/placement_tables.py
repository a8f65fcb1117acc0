"""The page of placement figures: ratios of paired runs, with intervals, losses included."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")
DiceOf = Callable[[str], random.Random]
_DRAWS = 2000
CLASSIC = ("fifo_easy", "sjf_easy", "saf_easy")
"""The classic heuristics with a reservation (EASY)."""
_HEAD = """# How good the policies are, in simulation

Written by `python -m benchmarks.placement --days {days:g}`; do not edit by hand. Every figure on
this page is a simulation on public traces, not a measurement of a lab; [simulate.md](simulate.md)
says what is modelled and what is drawn.

- {cells} sets of jobs: labs {labs} of `inventory/`, seeds {seeds}, windows of
  {days:g} days that begin on {windows};
  the first day runs but is not counted, jobs of at most 16 devices, thinned to the load.
- None of these windows was tuned on: the weights of `weighted` saw Venus days 14 to 96, those of
  `rl_based` days 14 to 70, and its gate days 70 to 98 (`python -m benchmarks.placement_gate`).
- Predicted run times are the truth times a log-normal error of width sigma.
- A ratio is between two policies on the same jobs. Means of ratios are geometric. The interval is
  a 95 % bootstrap over windows, whose runs stay together; with few windows it is coarse. "Better"
  counts the runs with a ratio below 1.
- The classic heuristics have an EASY reservation and places by speed and fragmentation:
  `fifo_easy` in order of submission, `sjf_easy` the shortest predicted job first, `saf_easy` the
  smallest predicted area (time by devices) first. `host_per_user` binds every user to one host.
- "Fairness" is Jain's index over users of the share of their jobs' time that was not waiting; 1 is
  alike for all.
"""


_UNTRAINED = """## `rl_based` against `weighted`

No trained weights passed their replay gate, so `rl_based` was `weighted`: all ratios are 1.
"""


_FALLEN_BACK = """Where all ratios of a lab are 1, the gate refused the weights there, and
`rl_based` was `weighted`. [placement.md](placement.md#rl_based-a-trained-correction) has more
windows.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One policy on one set of jobs, with one error of the predictions."""

    trace: str
    day: int
    lab: str
    load: float
    seed: int
    sigma: float
    policy: str
    jobs: int
    unfinished: int
    mean_jct_s: float
    p99_wait_s: float
    longest_wait_s: float
    jain: float
    """Jain's index over users of (sum of run times / sum of completion times)."""
    allocation_rate: float
    device_utilisation: float
    seconds: float


Key = tuple[str, int, str, float, int, float]


def page(runs: Sequence[Run], timed: Sequence[tuple[str, str, str]], days: float) -> str:
    """Return the page as Markdown."""
    windows = {(run.trace, run.day) for run in runs}
    labs = ", ".join(sorted({run.lab for run in runs}))
    named = ", ".join(f"{trace.title()} day {day}" for trace, day in sorted(windows))
    seeds = ", ".join(str(seed) for seed in sorted({run.seed for run in runs}))
    cells = len({_key(run) for run in runs})
    parts = [_HEAD.format(days=days, seeds=seeds, windows=named, cells=cells, labs=labs)]
    parts += [_best(runs), _absolute(runs)]
    parts += [
        _against(runs, "weighted", other, f"`weighted` against `{other}`") for other in CLASSIC
    ]
    if any(run.policy == "rl_based" for run in runs):
        parts.append(_against(runs, "rl_based", "weighted", "`rl_based` against `weighted`"))
        parts.append(_FALLEN_BACK)
    else:
        parts.append(_UNTRAINED)
    parts += [_today(runs), _allocated(runs)]
    if timed:
        parts.append("## Time\n\nOne process, one core.\n")
        rows = [f"| {what} | {took} | {target} |" for what, took, target in timed]
        parts.append("\n".join(["| what | took | target |", "| --- | --- | --- |", *rows, ""]))
    return "\n".join(parts)


def _absolute(runs: Sequence[Run]) -> str:
    lines = [
        "## All policies\n",
        "Means over windows and sigma, with the first seed; of the longest wait the longest. JCT"
        " and waits in hours; allocated and utilised are shares of device time until the last"
        " arrival.\n",
        "| lab | load | policy | mean JCT | p99 wait | longest wait | fairness | allocated"
        " | utilised | unfinished |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (lab, load), some in sorted(_grouped(runs, lambda run: (run.lab, run.load)).items()):
        first = min(run.seed for run in some)
        same = [run for run in some if run.seed == first]
        for policy, own in _grouped(same, lambda run: run.policy).items():
            lines.append(
                f"| {lab} | {load:g} | {policy} | {_mean(r.mean_jct_s for r in own) / 3600:.1f}"
                f" | {_mean(r.p99_wait_s for r in own) / 3600:.1f}"
                f" | {max(r.longest_wait_s for r in own) / 3600:.1f}"
                f" | {_mean(r.jain for r in own):.2f}"
                f" | {_mean(r.allocation_rate for r in own):.2f}"
                f" | {_mean(r.device_utilisation for r in own):.2f}"
                f" | {sum(r.unfinished for r in own)} |"
            )
    return "\n".join([*lines, ""])


def _against(runs: Sequence[Run], own: str, other: str, title: str) -> str:
    pairs = _pairs(runs, own, other)
    lines = [
        f"## {title}\n",
        "| lab | load | sigma | trace | mean JCT ratio [95 %] | better | worst | p99 wait ratio"
        " | longest wait ratio | fairness: other | own |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    groups = _grouped(pairs, lambda pair: (pair[0].lab, pair[0].load))
    for (lab, load), some in sorted(groups.items()):
        for trace in sorted({pair[0].trace for pair in some}):
            for sigma in sorted({pair[0].sigma for pair in some}):
                part = [p for p in some if p[0].trace == trace and p[0].sigma == sigma]
                lines.append(_row(part, lab, f"{load:g}", f"{sigma:g}", trace))
        lines.append(_row(some, lab, f"{load:g}", "all", "all"))
    for lab, some in sorted(_grouped(pairs, lambda pair: pair[0].lab).items()):
        usual = [pair for pair in some if pair[0].load < 0.9]
        if usual:
            lines.append(_row(usual, f"**{lab}**", "below 0.9", "all", "all"))
            lines.append(_row(some, f"**{lab}**", "all", "all", "all"))
    lines.append(_row(pairs, "**all**", "all", "all", "all"))
    return "\n".join([*lines, ""])


def _row(pairs: Sequence[tuple[Run, Run]], lab: str, load: str, sigma: str, trace: str) -> str:
    ratios = [mine.mean_jct_s / theirs.mean_jct_s for mine, theirs in pairs]
    low, high = _interval(pairs)
    better = sum(ratio < 1.0 for ratio in ratios)
    return (
        f"| {lab} | {load} | {sigma} | {trace} | {geometric(ratios):.3f} [{low:.3f}, {high:.3f}]"
        f" | {better}/{len(ratios)} | {max(ratios):.3f} | {_waits(pairs, 'p99_wait_s'):.2f}"
        f" | {_waits(pairs, 'longest_wait_s'):.2f} | {_mean(t.jain for _, t in pairs):.3f}"
        f" | {_mean(m.jain for m, _ in pairs):.3f} |"
    )


def _waits(pairs: Sequence[tuple[Run, Run]], name: str) -> float:
    """Return the mean ratio of waits. A minute is added to both: waits of nothing have none."""
    return geometric(
        (getattr(mine, name) + 60.0) / (getattr(theirs, name) + 60.0) for mine, theirs in pairs
    )


def _today(runs: Sequence[Run]) -> str:
    lines = [
        "## Without a reservation\n",
        "Strict FIFO, where no job passes another, and one host for each user are what labs have"
        " without a queue. They are a low bar: nearly all that they lose is gained by any order in"
        " which later jobs may pass. How many times as long jobs take on average as under"
        " `weighted`:\n",
        "| lab | load | strict FIFO | one host per user | FIFO, later jobs pass | FIFO with EASY |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (lab, load), some in sorted(_grouped(runs, lambda run: (run.lab, run.load)).items()):
        factors = [
            geometric(m.mean_jct_s / t.mean_jct_s for m, t in _pairs(some, own, "weighted"))
            for own in ("fifo_strict", "host_per_user", "fifo_skip", "fifo_easy")
        ]
        lines.append(f"| {lab} | {load:g} | {' | '.join(f'{one:.1f}' for one in factors)} |")
    return "\n".join([*lines, ""])


def _allocated(runs: Sequence[Run]) -> str:
    names = ("fifo_strict", "host_per_user", "fifo_skip", "fifo_easy", "sjf_easy", "weighted")
    lines = [
        "## Devices allocated, and the 52 to 83 % of the article\n",
        "The article on which this project is modelled has the use of a cluster rise from 52 to"
        " 83 %, and names no baseline. The baseline that fits is strict FIFO: in full labs of 4 and"
        " 8 hosts it allocates half of the devices, because all jobs wait for the first that does"
        " not fit. That gain is real, and comes from letting later jobs pass: FIFO that lets them"
        " pass allocates as much as any order here, and more than the default. What an order is"
        " worth beyond that shows in completion times. Means over windows, first seed:\n",
        "| lab | load | strict FIFO | one host per user | FIFO, later jobs pass | FIFO with EASY"
        " | SJF with EASY | `weighted` |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (lab, load), some in sorted(_grouped(runs, lambda run: (run.lab, run.load)).items()):
        first = min(run.seed for run in some)
        rates = [
            _mean(run.allocation_rate for run in some if run.policy == policy and run.seed == first)
            for policy in names
        ]
        lines.append(f"| {lab} | {load:g} | {' | '.join(f'{one:.0%}' for one in rates)} |")
    return "\n".join([*lines, ""])


def _best(runs: Sequence[Run]) -> str:
    lines = [
        "## `weighted` against the best classic heuristic of each lab and load\n",
        "The best one is known only afterwards. A lab and load where the interval of the ratio lies"
        " below 1 are better, above 1 worse; else the windows do not tell.\n",
        "| lab | load | best classic | mean JCT ratio [95 %] | verdict | worst | p99 wait ratio"
        " | longest wait ratio | fairness: classic | `weighted` |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (lab, load), some in sorted(_grouped(runs, lambda run: (run.lab, run.load)).items()):
        times = {
            name: geometric(run.mean_jct_s for run in some if run.policy == name)
            for name in CLASSIC
        }
        best = min(CLASSIC, key=times.__getitem__)
        pairs = _pairs(some, "weighted", best)
        low, high = _interval(pairs)
        verdict = "better" if high < 1 else "**worse**" if low > 1 else "not significant"
        ratios = [mine.mean_jct_s / theirs.mean_jct_s for mine, theirs in pairs]
        jain = [_mean(pair[side].jain for pair in pairs) for side in (1, 0)]
        lines.append(
            f"| {lab} | {load:g} | `{best}` | {geometric(ratios):.3f} [{low:.3f}, {high:.3f}]"
            f" | {verdict} | {max(ratios):.2f} | {_waits(pairs, 'p99_wait_s'):.2f}"
            f" | {_waits(pairs, 'longest_wait_s'):.2f} | {jain[0]:.3f} | {jain[1]:.3f} |"
        )
    return "\n".join([*lines, ""])


# --- figures ------------------------------------------------------------------------------------


def _key(run: Run) -> Key:
    return run.trace, run.day, run.lab, run.load, run.seed, run.sigma


def _pairs(runs: Sequence[Run], own: str, other: str) -> list[tuple[Run, Run]]:
    theirs = {_key(run): run for run in runs if run.policy == other}
    return [(run, theirs[_key(run)]) for run in runs if run.policy == own and _key(run) in theirs]


def _interval(pairs: Sequence[tuple[Run, Run]]) -> tuple[float, float]:
    """Return the middle 95 % of means over windows drawn with replacement."""
    windows = _grouped(pairs, lambda pair: (pair[0].trace, pair[0].day))
    logs = [
        [math.log(mine.mean_jct_s / theirs.mean_jct_s) for mine, theirs in some]
        for _, some in sorted(windows.items())
    ]
    dice = random.Random(1)
    means = []
    for _ in range(_DRAWS):
        drawn = [value for part in dice.choices(logs, k=len(logs)) for value in part]
        means.append(math.exp(math.fsum(drawn) / len(drawn)))
    means.sort()
    return means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)]


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    found: dict[K, list[T]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def geometric(values: Iterable[float]) -> float:
    """Return the geometric mean of values above 0."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))
