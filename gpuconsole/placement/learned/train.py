"""Training of `rl_based`: policy search over the weights of a correction, by simulation.

It is called what it is: an evolution strategy that plays windows of history with many candidates
and keeps what made jobs end sooner; no gradients, no value function. Every candidate plays the
same windows as `weighted`, with the lab's own settings, the reservation on, and is judged by

    log(mean JCT) + 0.25 log(1 + p99 wait in hours), less the same for `weighted`

so that no window counts more for being long, and long waits are not the price of a better mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import fsum, log, sqrt

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine.features import ORDER_FEATURES, PLACE_FEATURES
from gpuconsole.placement.learned.cma_es import Point, search
from gpuconsole.placement.learned.gate import Play, Verdict, judge
from gpuconsole.placement.model import Learned, Policy
from gpuconsole.placement.simulate.event_loop import simulate
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.metrics import metrics
from gpuconsole.placement.simulate.trace_readers import Dice
from gpuconsole.placement.simulate.workload import Workload

WAIT_WEIGHT = 0.25
WIDTH = 0.3
"""First width of the search, in units of the score."""
WINDOWS_EACH = 4
"""Windows that a round plays."""
MODESTY = 0.002
"""Loss for each squared unit of a weight: what does not help goes to 0."""
MOST_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Step:
    """How far training is."""

    round: int
    plays: int
    """Windows played so far."""
    loss: float
    """Mean of the last round; below 0 is better than `weighted` on the windows it was trained
    on."""


Going = Callable[[Step], bool]
"""Hears how far training is after each play; False ends it."""


def learned_of(point: Sequence[float]) -> Learned:
    """Return the weights that a point of the search represents."""
    names = len(PLACE_FEATURES)
    return Learned(
        dict(zip(PLACE_FEATURES, point[:names], strict=True)),
        dict(zip(ORDER_FEATURES, point[names:], strict=True)),
    )


def point_of(learned: Learned) -> Point:
    """Return the point of the search that represents weights."""
    return (
        *(learned.place.get(name, 0.0) for name in PLACE_FEATURES),
        *(learned.order.get(name, 0.0) for name in ORDER_FEATURES),
    )


def train(
    lab: Lab,
    windows: Sequence[Workload],
    base: Policy,
    dice: Dice,
    going_on: Going,
    rounds: int = MOST_ROUNDS,
    start: Learned | None = None,
) -> tuple[Learned, int]:
    """Return weights for the `base` policy, and after how many rounds; `going_on` may end it.

    The search begins at `start`, else at no correction, and what it found must beat that on all
    windows. Equal arguments give equal weights.
    """
    course = _Course(lab, windows, base, dice, going_on)
    begin = point_of(start or Learned())
    best = search(course.losses, begin, WIDTH, dice, rounds)
    return learned_of(course.better(begin, best)), course.rounds


def replay(
    lab: Lab,
    windows: Sequence[Workload],
    base: Policy,
    learned: Learned,
    dice: Dice,
    heard: Callable[[float], None] = lambda share: None,
) -> Verdict:
    """Return what held-out windows say of weights; `heard` is called with the fraction done."""
    trained = replace(base, name="rl_based", learned=learned)
    plays: tuple[list[Play], list[Play]] = ([], [])
    for number, window in enumerate(windows, 1):
        for policy, policy_plays in zip((base, trained), plays, strict=True):
            policy_plays.append(play(lab, window, policy, dice))
        heard(number / len(windows))
    return judge(*plays)


def play(lab: Lab, window: Workload, policy: Policy, dice: Dice) -> Play:
    """Play one window; jobs that never end count with the figures of those that do."""
    result = metrics(simulate(lab, window, policy, dice))
    return Play(result.mean_jct_s or 0.0, result.p99_wait_s or 0.0)


class _Course:
    """Judges populations by windows drawn again for each round."""

    def __init__(
        self, lab: Lab, windows: Sequence[Workload], base: Policy, dice: Dice, going_on: Going
    ) -> None:
        self.rounds = 0
        self._lab = lab
        self._windows = windows
        self._base = base
        self._dice = dice
        self._going_on = going_on
        self._weighted: dict[int, float] = {}
        self._plays = 0
        self._loss = 0.0

    def losses(self, points: Sequence[Point]) -> list[float] | None:
        """Return how bad points are; None when training ends here."""
        numbers = list(range(len(self._windows)))
        self._dice.shuffle(numbers)
        chosen = numbers[:WINDOWS_EACH]
        losses = []
        for point in points:
            policy = replace(self._base, learned=learned_of(point))
            total = 0.0
            for number in chosen:
                if not self._going_on(Step(self.rounds, self._plays, self._loss)):
                    return None
                total += self._cost(number, policy) - self._of_weighted(number)
                self._plays += 1
            losses.append(total / len(chosen) + MODESTY * sum(weight * weight for weight in point))
        self.rounds += 1
        self._loss = sum(losses) / len(losses)
        return losses

    def better(self, point: Point, other: Point) -> Point:
        """Return the other point where it beats the one by more than the error of that, in pairs
        over all windows: the rounds of a search see few of them."""
        if point == other:
            return point
        numbers = range(len(self._windows))
        costs = [
            [
                self._cost(number, replace(self._base, learned=learned_of(point)))
                for number in numbers
            ]
            for point in (point, other)
        ]
        gains = [first - second for first, second in zip(*costs, strict=True)]
        mean = fsum(gains) / len(gains)
        spread = fsum((gain - mean) ** 2 for gain in gains)
        error = sqrt(spread / (len(gains) * max(1, len(gains) - 1)))
        return other if mean > error else point

    def _of_weighted(self, number: int) -> float:
        if number not in self._weighted:
            self._weighted[number] = self._cost(number, self._base)
        return self._weighted[number]

    def _cost(self, number: int, policy: Policy) -> float:
        result = play(self._lab, self._windows[number], policy, self._dice)
        return log(max(1.0, result.mean_jct_s)) + WAIT_WEIGHT * log(
            1.0 + result.p99_wait_s / 3600.0
        )
