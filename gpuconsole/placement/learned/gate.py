"""Whether trained weights may be used: only where replay shows them better than `weighted`."""

from __future__ import annotations

from collections.abc import Sequence
from math import erf, exp, fsum, log, sqrt

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences

MARGIN = 0.005
"""By so much the mean completion time must fall."""
WAIT_MARGIN = 0.05
"""By so much the 99th percentile of the waits may rise."""
CERTAINTY = 0.9
"""So probable it must be that it falls at all."""
LEAST_PLAYS = 8
"""Below so many plays nothing is shown."""
_WAIT_UNIT_S = 600.0
"""Added to both waits of a ratio: shorter ones are all alike."""


@dataclass(frozen=True, slots=True)
class Play:
    """One window under one policy: mean completion time and 99th percentile of waits, seconds."""

    mean_jct_s: float
    p99_wait_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What replay said of trained weights; ratios are to the weighted policy."""

    plays: int
    mean_jct_ratio: float
    """Geometric mean over the plays."""
    error: float
    """Standard error of its logarithm."""
    p99_wait_ratio: float
    weighted_jct_s: float
    rl_based_jct_s: float

    @property
    def certainty(self) -> float:
        """Probability that jobs end sooner on average: both policies play the same windows, and
        the logarithms of their ratios are taken as draws of a normal distribution."""
        gain = -log(self.mean_jct_ratio)
        if self.error <= 0.0:
            return 1.0 if gain > 0.0 else 0.0
        return 0.5 * (1.0 + erf(gain / (self.error * sqrt(2.0))))

    @property
    def passed(self) -> bool:
        """Whether the weights may be used: the gain is asked for, probable, and not at the cost of
        the longest waits."""
        return (
            self.plays >= LEAST_PLAYS
            and self.mean_jct_ratio <= 1.0 - MARGIN
            and self.certainty >= CERTAINTY
            and self.p99_wait_ratio <= 1.0 + WAIT_MARGIN
        )

    def sentence(self) -> str:
        """Return the sentence shown to users."""
        gain = 1.0 - self.mean_jct_ratio
        against = "shorter" if gain >= 0 else "longer"
        text = msg(
            "In {n} replays of held-out history rl_based made jobs {percent} {against_word}"
            " (± {error}) than weighted, a gain with a probability of {certainty}",
            n=self.plays, percent=f"{abs(gain):.1%}", against_word=against,
            error=f"{self.error:.1%}", certainty=f"{self.certainty:.0%}",
        )  # fmt: skip
        if self.passed:
            return text + ", so it ranks."
        if gain >= MARGIN and self.p99_wait_ratio > 1.0 + WAIT_MARGIN:
            longer = f"{self.p99_wait_ratio - 1.0:.0%}"
            text = sentences(text, msg("and the longest waits {percent} longer", percent=longer))
        return text + msg(
            "; {percent} and {certainty} are asked for in {n} replays or more, so the weighted"
            " policy ranks.",
            percent=f"{MARGIN:.1%}", certainty=f"{CERTAINTY:.0%}", n=LEAST_PLAYS,
        )  # fmt: skip


def judge(weighted: Sequence[Play], trained: Sequence[Play]) -> Verdict:
    """Return the verdict over the same windows, in the same order, under both policies."""
    gains = [
        log(own.mean_jct_s / base.mean_jct_s)
        for own, base in zip(trained, weighted, strict=True)
        if own.mean_jct_s > 0 and base.mean_jct_s > 0
    ]
    if not gains:
        return Verdict(0, 1.0, 0.0, 1.0, 0.0, 0.0)
    count = len(gains)
    mean = fsum(gains) / count
    spread = fsum((gain - mean) ** 2 for gain in gains)
    waits = [
        log((own.p99_wait_s + _WAIT_UNIT_S) / (base.p99_wait_s + _WAIT_UNIT_S))
        for own, base in zip(trained, weighted, strict=True)
    ]
    return Verdict(
        count,
        exp(mean),
        sqrt(spread / (count * max(1, count - 1))),
        exp(fsum(waits) / len(waits)),
        fsum(play.mean_jct_s for play in weighted) / len(weighted),
        fsum(play.mean_jct_s for play in trained) / len(trained),
    )
