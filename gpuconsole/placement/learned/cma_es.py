"""Policy search: a small evolution strategy (separable CMA-ES) in plain Python.

Points are drawn around a mean, each number with a width of its own; the better half moves the mean
and shapes the widths. Nothing is derived, so anything that can be played can be searched; noise of
the losses is averaged by the mean. Constants are the usual ones ("The CMA Evolution Strategy: A
Tutorial", Hansen 2016; separable: Ros and Hansen 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import exp, log, sqrt
from typing import Protocol

from gpuconsole.core.util.lazy_dataclass import dataclass

POPULATION = 16
Point = tuple[float, ...]


class Normal(Protocol):
    """A seeded source of normally distributed numbers, such as `random.Random`."""

    def gauss(self, mu: float, sigma: float) -> float:
        """Return one."""
        ...


@dataclass(slots=True)
class Search:
    """Ask for points, tell how bad they were, again and again; `mean` is the answer."""

    mean: list[float]
    width: float
    """Standard deviation at first, of every number."""
    population: int = POPULATION
    _variances: list[float] = field(default_factory=list)
    _path: list[float] = field(default_factory=list)
    _long_path: list[float] = field(default_factory=list)
    _rounds: int = 0

    def __post_init__(self) -> None:
        """Begin with a round cloud."""
        self._variances = [1.0] * len(self.mean)
        self._path = [0.0] * len(self.mean)
        self._long_path = [0.0] * len(self.mean)

    def ask(self, dice: Normal) -> list[Point]:
        """Return a population of points to try, in pairs on opposite sides of the mean: what is
        good on one side should be bad on the other, which chance is not."""
        deviations = [self.width * sqrt(variance) for variance in self._variances]
        steps = [
            [d * dice.gauss(0.0, 1.0) for d in deviations] for _ in range(self.population // 2)
        ]
        return [
            tuple(m + side * deviation for m, deviation in zip(self.mean, step, strict=True))
            for side in (1.0, -1.0)
            for step in steps
        ]

    def tell(self, points: Sequence[Point], losses: Sequence[float]) -> None:
        """Take in how bad points were; equal losses keep their order."""
        self._rounds += 1
        size, weights = len(self.mean), _weights(len(points))
        effective = 1.0 / sum(w * w for w in weights)
        order = sorted(range(len(points)), key=lambda index: (losses[index], index))
        best = [points[index] for index in order[: len(weights)]]
        steps = [
            [(x - m) / self.width for x, m in zip(point, self.mean, strict=True)] for point in best
        ]
        move = [sum(w * s[i] for w, s in zip(weights, steps, strict=True)) for i in range(size)]
        self.mean = [m + self.width * movement for m, movement in zip(self.mean, move, strict=True)]
        self._widen(move, size, effective)
        self._shape(move, steps, weights, size, effective)

    def _widen(self, move: Sequence[float], size: int, effective: float) -> None:
        """Grow the cloud while it keeps its direction, shrink it while it wavers."""
        pace = (effective + 2.0) / (size + effective + 5.0)
        damping = 1.0 + 2.0 * max(0.0, sqrt((effective - 1.0) / (size + 1.0)) - 1.0) + pace
        gain = sqrt(pace * (2.0 - pace) * effective)
        self._path = [
            (1.0 - pace) * p + gain * movement / sqrt(v)
            for p, movement, v in zip(self._path, move, self._variances, strict=True)
        ]
        expected = sqrt(size) * (1.0 - 1.0 / (4.0 * size) + 1.0 / (21.0 * size * size))
        length = sqrt(sum(p * p for p in self._path))
        self.width *= exp(min(1.0, pace / damping * (length / expected - 1.0)))

    def _shape(
        self,
        move: Sequence[float],
        steps: Sequence[Sequence[float]],
        weights: Sequence[float],
        size: int,
        effective: float,
    ) -> None:
        """Let the width of each number follow how far good points lay apart in it."""
        pace = 4.0 / (size + 4.0)
        gain = sqrt(pace * (2.0 - pace) * effective)
        self._long_path = [
            (1.0 - pace) * p + gain * movement
            for p, movement in zip(self._long_path, move, strict=True)
        ]
        faster = (size + 2.0) / 3.0  # a diagonal has fewer numbers to learn than a full matrix
        rank_one = min(0.5, faster * 2.0 / ((size + 1.3) ** 2 + effective))
        spread = 2.0 * (effective - 2.0 + 1.0 / effective) / ((size + 2.0) ** 2 + effective)
        rank_mu = min(0.9 - rank_one, faster * spread)
        self._variances = [
            (1.0 - rank_one - rank_mu) * v
            + rank_one * self._long_path[i] ** 2
            + rank_mu * sum(w * s[i] ** 2 for w, s in zip(weights, steps, strict=True))
            for i, v in enumerate(self._variances)
        ]


def _weights(population: int) -> list[float]:
    half = population // 2
    raw = [log(half + 0.5) - log(rank) for rank in range(1, half + 1)]
    return [weight / sum(raw) for weight in raw]


def search(
    loss: Callable[[Sequence[Point]], Sequence[float] | None],
    start: Sequence[float],
    width: float,
    dice: Normal,
    rounds: int,
) -> Point:
    """Return where a loss is small, by at most so many rounds.

    `loss` takes a whole population, so that all are judged by the same chance; None from it ends
    the search with what was found before.
    """
    state = Search(list(start), width)
    for _ in range(rounds):
        points = state.ask(dice)
        losses = loss(points)
        if losses is None:
            break
        state.tell(points, losses)
    return tuple(state.mean)
