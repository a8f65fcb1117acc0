"""A search for the best arguments of a script: its goal, what may be tried, and its trials.

--goal "min val_loss" --trials 30 --sweep lr=1e-5..1e-1:log --sweep width=64,128 --sweep n=1..8
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.submission.sweeps import Flags, read_axes, with_option
from gpuconsole.core.text import clean
from gpuconsole.core.training.curves import Curves, Point
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

USUAL_AT_ONCE = 4
"""Trials that run at once where nothing is said."""
PRUNED = "Pruned"
MOST_CORNERS = 16
_NUMBER = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"(-{{0,2}}[A-Za-z_][\w.-]*)=({_NUMBER})\.\.({_NUMBER})(:log)?")
_WHOLE = re.compile(r"-?\d{1,15}")
_GOAL = re.compile(r"(min|max) ([A-Za-z][\w.@-]{0,31})")


@dataclass(frozen=True, slots=True)
class Goal:
    """The metric that is to be as low, or as high, as can be."""

    metric: str
    higher: bool

    @classmethod
    def of(cls, text: str) -> Goal:
        """Return the goal of `min val_loss` or `max acc`; UsageError for another text."""
        match = _GOAL.fullmatch(" ".join(text.split()))
        if match is None:
            raise UsageError(
                "Wrong goal", msg("{value} is no goal.", value=f"{clean(text, 80)!r}"),
                "Write: --goal 'min val_loss' or --goal 'max val_acc'",
            )  # fmt: skip
        return cls(match[2].lower(), match[1] == "max")

    def best(self, curves: Curves) -> Point | None:
        """Return the best value that a run reported; None where it reported none."""
        curve = curves.curves.get(self.metric)
        return None if curve is None else curve.most if self.higher else curve.least


@dataclass(frozen=True, slots=True)
class Choice:
    """An argument that takes one of some values."""

    flag: str
    values: tuple[str, ...]

    @property
    def text(self) -> str:
        """As it is kept in a task."""
        return f"{self.flag}={','.join(self.values)}"

    @property
    def ends(self) -> tuple[str, ...]:
        """The values between which its memory is asked for."""
        return self.values if len(self.values) <= 3 else (self.values[0], self.values[-1])


@dataclass(frozen=True, slots=True)
class Between:
    """An argument that takes a number from one to another, both included."""

    flag: str
    low: float
    high: float
    whole: bool
    log: bool

    @property
    def text(self) -> str:
        """As it is kept in a task."""
        return f"{self.flag}={self.said(self.low)}..{self.said(self.high)}{':log' * self.log}"

    @property
    def ends(self) -> tuple[str, ...]:
        """The values between which its memory is asked for."""
        return self.said(self.low), self.said(self.high)

    def said(self, value: float) -> str:
        """Return a value as the argument is written."""
        return str(int(value)) if self.whole else f"{value:.6g}"


Space = tuple["Choice | Between", ...]


def read_space(texts: Iterable[str], flags: Flags | None = None) -> Space:
    """Parse what may be tried. `flags` has the spellings of a script's own options; without it
    names are taken as they are. Raises UsageError for malformed text."""
    ranges: list[Choice | Between] = []
    for word in (word for text in texts for word in text.split()):
        match = _RANGE.fullmatch(word)
        if match is not None:
            ranges.append(_between(match))
        else:
            name = word.partition("=")[0]
            (axis,) = read_axes([word])
            ranges.append(Choice(name if name.startswith("-") else axis.name, axis.values))
    if not ranges:
        raise _wrong("It names no argument.")
    names = [each.flag.lstrip("-") for each in ranges]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(f"{name} comes twice.")
    return tuple(_spelled(each, flags) for each in ranges)


def _between(match: re.Match[str]) -> Between:
    low, high = float(match[2]), float(match[3])
    whole = bool(_WHOLE.fullmatch(match[2]) and _WHOLE.fullmatch(match[3]))
    log = match[4] is not None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise _wrong(msg("{part} has no number in it.", part=clean(match[0], 80)))
    if log and low <= 0:
        raise _wrong("`:log` takes numbers above 0.")
    return Between(match[1], low, high, whole, log)


def _spelled(values: Choice | Between, flags: Flags | None) -> Choice | Between:
    """Return an argument under the script's own spelling of its option."""
    if values.flag.startswith("-"):
        return values
    own = flags(values.flag) if flags is not None else ()
    flag = next((flag for flag in own if flag.startswith("--")), (*own, f"--{values.flag}")[0])
    if isinstance(values, Choice):
        return Choice(flag, values.values)
    return Between(flag, values.low, values.high, values.whole, values.log)


def corners(space: Space) -> list[dict[str, str]]:
    """Return the combinations of ends for which memory is asked, of many the first and the last."""
    every = [
        dict(zip((each.flag for each in space), values, strict=True))
        for values in product(*(each.ends for each in space))
    ]
    return every if len(every) <= MOST_CORNERS else [every[0], every[-1]]


def with_values(task: Task, base: str, values: Mapping[str, str]) -> Task:
    """Return a trial's task with the arguments that it is to try, named by them."""
    args = task.args
    for flag, value in values.items():
        args = with_option(args, (flag,), value)
    said = ",".join(f"{flag.lstrip('-')}={value}" for flag, value in values.items())
    return replace(task, args=args, name=clean(f"{base}[{said}]", 128), trial=dict(values))


State = Literal["complete", "pruned", "failed", "running"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial that was handed out."""

    values: Mapping[str, str]
    state: State
    value: float | None
    """The best of the goal's metric so far."""
    reported: tuple[tuple[int, float], ...] = ()
    """The metric by step, or epoch."""


def trial_of(job: Job, goal: Goal, curves: Curves) -> Trial:
    """Return what is known of a trial from its job and its curves."""
    best = goal.best(curves)
    curve = curves.curves.get(goal.metric)
    reported = {int(point.at): point.value for point in (curve.points if curve else ())}
    if not job.state.ended:
        state: State = "running"
    elif job.state is JobState.SUCCEEDED and best is not None:
        state = "complete"
    elif job.cause.startswith(PRUNED) and best is not None:
        state = "pruned"
    else:
        state = "failed"
    return Trial(job.task.trial, state, best.value if best else None, tuple(reported.items()))


def best_of(
    jobs: Sequence[Job], curves: Mapping[str, Curves], goal: Goal
) -> tuple[Job, Point] | None:
    """Return the trial that came nearest to the goal, and where; None where none reported it."""
    candidates = [(job, best) for job in jobs if (best := goal.best(curves[job.id])) is not None]
    if not candidates:
        return None
    return min(
        candidates, key=lambda candidate: -candidate[1].value if goal.higher else candidate[1].value
    )


def _wrong(message: str) -> UsageError:
    return UsageError(
        "Wrong search", message, "Write: --sweep lr=1e-5..1e-1:log --sweep width=64,128"
    )
