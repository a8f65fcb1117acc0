"""How long a job will run, from runs that ended before it.

The rule: past runs fall into groups, from the nearest to the most general: those of the same user,
script, arguments and number of devices; of the user with that script; of the script, of any user;
of the user, any script. The most general group with enough runs provides a first answer, the median
of the logarithms of its run times. Each nearer group then draws that answer towards its own median,
the further the more runs it has: by n of n + PULL, the weight that shrinks a group's mean to the
whole's in a hierarchical model (the James-Stein estimator, with PULL for the ratio of the
variances, which small labs cannot measure). Where no group has enough runs there is no prediction.

Logarithms, because run times spread over five orders of magnitude; medians, because a run that
hung over a weekend must not teach; user and name first, because on published traces both explain
most of what can be predicted before a start (the rolling estimate of the Helios study uses no
more). The spread starts as wide as the errors that were found for published predictors, a factor of
e**2, and narrows with the runs of the nearest groups.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import field
from math import exp, log
from statistics import NormalDist, median

from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

ENOUGH = 3
"""Runs from which a general group says something by itself."""
PULL = 2.0
"""So many runs draw half of the way."""
KEPT = 64
"""The newest runs of a group; what a script did long ago it need not do now."""
PRIOR_SPREAD = 2.0
"""Standard deviation of the logarithm where little is known."""
LEAST_SPREAD = 0.1
"""No two runs are alike: a tenth more or less is always possible."""
_TO_DEVIATION = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that came to its own end."""

    user: str
    script: str
    """What its user knows it by, such as its path: it stays when a line is changed."""
    args: tuple[str, ...]
    devices: int
    model: str
    """Of the devices."""
    run_time_s: float
    digest: str = ""
    """By which the same script of others is known again; "" where the name must do."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """How long a job will run: as often longer as shorter."""

    run_time_s: float
    spread: float
    """Standard deviation of the run time's natural logarithm."""
    runs: int
    """How many runs the nearest group has."""
    source: str
    """What it was learned from, as words for a sentence: `4 runs of this script by ada`."""

    @property
    def low_s(self) -> float:
        """One in six such jobs is shorter."""
        return self.run_time_s * exp(-self.spread)

    @property
    def high_s(self) -> float:
        """One in six such jobs is longer."""
        return self.run_time_s * exp(self.spread)

    def left_s(self, elapsed_s: float) -> float:
        """Return how much longer a job runs that has run so long: the median of the jobs that
        did. It is never 0: who has overrun is the one that takes long."""
        if elapsed_s <= 0:
            return self.run_time_s
        place = (log(elapsed_s) - log(self.run_time_s)) / self.spread
        still = _NORMAL.cdf(-place)
        if still < 1e-12:
            # So far out that the tail has no figures: as long again.
            return elapsed_s
        end = -_NORMAL.inv_cdf(still / 2)
        return max(0.0, self.run_time_s * exp(self.spread * end) - elapsed_s)

    def sentence(self) -> str:
        """Return the sentence shown to users."""
        low, high = format_duration(round(self.low_s)), format_duration(round(self.high_s))
        about = format_duration(round(self.run_time_s))
        return msg(
            "It should run about {time} ({low} to {high}), by {source}.",
            time=about,
            low=low,
            high=high,
            source=self.source,
        )


_Key = tuple[object, ...]


@dataclass(slots=True)
class _Group:
    """The newest runs of one kind, and what they say; worked out when it is asked for."""

    logs: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    middle: float | None = None
    deviation: float = 0.0

    def add(self, run_time_s: float) -> None:
        self.logs.append(log(run_time_s))
        self.middle = None

    def figures(self) -> tuple[float, float]:
        """Return median and standard deviation of the logarithms."""
        if self.middle is None:
            self.middle = median(self.logs)
            away = median(abs(log - self.middle) for log in self.logs)
            self.deviation = _TO_DEVIATION * away
        return self.middle, self.deviation


class RunTimes:
    """Past runs, and what they say about the next. Runs are added in the order of their ends."""

    def __init__(self, runs: Iterable[PastRun] = ()) -> None:
        self._groups: dict[_Key, _Group] = {}
        self.count = 0
        """How many runs were added: while it stays, so do the answers."""
        for run in runs:
            self.add(run)

    def add(self, run: PastRun) -> None:
        """Learn from one more run; one of no length teaches nothing."""
        if run.run_time_s <= 0:
            return
        self.count += 1
        for key in (
            *_keys(run.user, run.script, run.args, run.devices, run.digest),
            _on_model(run.user, run.script, run.args, run.devices, run.model),
        ):
            self._groups.setdefault(key, _Group()).add(run.run_time_s)

    def predict(
        self,
        user: str,
        script: str,
        args: tuple[str, ...],
        devices: int,
        model: str = "",
        digest: str = "",
    ) -> Prediction | None:
        """Return the prediction for a job; None while nothing like it has been seen often enough.

        With a `model`, where it runs already, its runs on such devices are the nearest of all.
        """
        general = _keys(user, script, args, devices, digest)
        here = (_on_model(user, script, args, devices, model),) if model else ()
        keys = (*here, *general)
        groups = [(key, self._groups[key]) for key in keys if key in self._groups]
        # The user's own run with these arguments says much, even when it was the only one.
        least = {keys[0]: 1, general[0]: 1}
        while groups and len(groups[-1][1].logs) < least.get(groups[-1][0], ENOUGH):
            groups.pop()
        if not groups:
            return None
        middle, spread = groups[-1][1].figures()
        spread = _mixed(spread, PRIOR_SPREAD, len(groups[-1][1].logs))
        for _, group in reversed(groups[:-1]):
            own, deviation = group.figures()
            middle = _mixed(own, middle, len(group.logs))
            spread = _mixed(deviation, spread, len(group.logs))
        key, nearest = groups[0]
        runs = len(nearest.logs)
        source = _source(key, runs, user, script)
        return Prediction(exp(middle), max(LEAST_SPREAD, spread), runs, source)


def _mixed(own: float, general: float, runs: int) -> float:
    return (runs * own + PULL * general) / (runs + PULL)


def _keys(
    user: str, script: str, args: tuple[str, ...], devices: int, digest: str
) -> tuple[_Key, ...]:
    """Return the groups of a job, nearest first. Of sessions, which have no script, and of scripts
    neither says anything about the other."""
    groups = (
        ("same", user, script, args, devices),
        ("user and script", user, script),
        ("script", digest or script),
    )
    return (*groups, ("user", user)) if script else groups


def _on_model(user: str, script: str, args: tuple[str, ...], devices: int, model: str) -> _Key:
    return ("here", user, script, args, devices, model)


def _source(key: _Key, runs: int, user: str, script: str) -> str:
    """Return what a prediction was learned from; without a script that is sessions to work in."""
    times = "1 run" if runs == 1 else f"{runs} runs"
    if not script:
        times = "1 session" if runs == 1 else f"{runs} sessions"
        return f"{times} of others" if key[0] == "script" else f"{times} of {user}"
    return {
        "here": f"{times} with the same arguments on {key[-1]}",
        "same": f"{times} with the same arguments",
        "user and script": f"{times} of this script by {user}",
        "script": f"{times} of this script by others",
        "user": f"{times} of {user}",
    }[str(key[0])]
