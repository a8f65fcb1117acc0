"""Bounds from past errors hold for the next one, whatever it comes from."""

from __future__ import annotations

import random
from math import inf, isclose
from statistics import NormalDist

import pytest

from gpuconsole.preflight.accuracy.conformal import (
    ENOUGH,
    LEAST_BLUR,
    Residual,
    blur,
    exceedance,
    lower,
    upper,
    weights,
)


def known(*values: float) -> list[Residual]:
    return [Residual(value) for value in values]


def assumed(error: float) -> float:
    """The chance of a larger error where none was seen: a normal of a tenth."""
    return NormalDist(0.0, 0.1).cdf(-error)


def more(*values: float) -> list[Residual]:
    return [Residual(value, censored=True) for value in values]


def test_too_few_errors_give_no_bound() -> None:
    assert upper(known(*range(ENOUGH - 1))) is None
    assert lower(known(*range(ENOUGH - 1))) is None


def test_the_bound_is_the_rank_that_the_sample_size_asks_for() -> None:
    # Nine: the largest, at 0.9. Nineteen: the largest, at 0.95. Thirty-nine: the 38th.
    assert upper(known(*range(9))) == 8
    assert upper(known(*range(19))) == 18
    assert upper(known(*range(39))) == 37
    assert lower(known(*range(39))) == 1
    assert upper(known(*range(39)), level=0.5) == 19


def test_weights_of_known_and_unseen_errors_make_one() -> None:
    found = weights(known(3.0, 1.0, 2.0))
    assert [value for value, _ in found] == [1.0, 2.0, 3.0]
    assert isclose(sum(weight for _, weight in found), 0.75)


def test_more_than_gives_its_weight_to_all_above_it() -> None:
    # Of four and the unseen one each has 1/5; the censored 1.0 splits among 2.0, 3.0 and unseen.
    found = dict(weights([*known(0.0, 2.0, 3.0), *more(1.0)]))
    assert isclose(found[0.0], 0.2)
    assert isclose(found[2.0], 0.2 + 0.2 / 3)
    assert isclose(found[3.0], 0.2 + 0.2 / 3)


def test_running_out_beyond_all_that_was_seen_leaves_no_bound() -> None:
    assert upper([*known(*range(9)), *more(20.0)]) == inf
    # Below all that was seen it says nothing new about the top.
    assert upper([*known(*range(19)), *more(-5.0)]) == 18


@pytest.mark.parametrize(("n", "level"), [(9, 0.90), (19, 0.95), (60, 0.95)])
def test_the_next_error_keeps_the_bound_as_often_as_promised(n: int, level: float) -> None:
    dice = random.Random(n)
    rounds = 4000
    kept = 0
    for _ in range(rounds):
        drawn = [dice.lognormvariate(0.0, 1.0) for _ in range(n + 1)]
        bound = upper(known(*drawn[:-1]))
        assert bound is not None
        kept += drawn[-1] <= bound
    # Three standard deviations of the count below the promise.
    assert kept / rounds >= level - 3 * (level * (1 - level) / rounds) ** 0.5


def test_with_censored_errors_the_bound_still_holds() -> None:
    """Runs that stop at a limit are known only as more than it; the limit knows nothing of them."""
    dice = random.Random(5)
    rounds, kept = 2000, 0
    for _ in range(rounds):
        errors = []
        for _ in range(40):
            truth, limit = dice.gauss(0.0, 1.0), dice.gauss(1.5, 1.0)
            errors.append(Residual(min(truth, limit), censored=truth > limit))
        bound = upper(errors)
        assert bound is not None
        kept += dice.gauss(0.0, 1.0) <= bound
    assert kept / rounds >= 0.93


def test_the_chance_above_a_point_follows_what_was_seen() -> None:
    errors = known(0.0, 0.1, 0.2, 0.3)
    assert exceedance(errors, -1.0, 0.01, assumed) == 1.0
    assert exceedance(errors, 1.0, 0.01, assumed) == 0.0
    assert isclose(exceedance(errors, 0.15, 0.01, assumed), 0.5, abs_tol=1e-3)


def test_more_than_reaches_as_far_as_the_default_would() -> None:
    assert exceedance(more(0.1), 0.05, 0.01, assumed) == 1.0
    assert exceedance(more(0.1), 1.0, 0.01, assumed) < 1e-6
    # A normal beyond one deviation is beyond two in one of seven cases.
    assert exceedance(more(0.1), 0.2, 0.01, assumed) == pytest.approx(0.0228 / 0.1587, abs=1e-3)
    assert exceedance(more(5.0), 6.0, 0.01, assumed) == 0.5


def test_a_known_error_is_blurred_as_far_as_the_errors_lie_apart() -> None:
    few, same = known(*[0.0] * (ENOUGH - 1)), known(*[0.0] * 50)
    drawn = random.Random(5)
    near = known(*(drawn.gauss(0.0, 0.02) for _ in range(50)))
    far = known(*(drawn.gauss(0.0, 0.5) for _ in range(50)))
    assert blur(few, 0.03) == 0.03
    assert blur(same, 0.03) == LEAST_BLUR
    assert LEAST_BLUR < blur(near, 0.03) < 0.03
    assert blur(far, 0.03) == 0.03
    assert blur([*same, *more(*[3.0] * 50)], 0.03) == LEAST_BLUR
