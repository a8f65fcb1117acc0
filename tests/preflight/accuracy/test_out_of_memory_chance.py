"""A chance says what happens that often: exact estimates are trusted where they were seen exact."""

from __future__ import annotations

from math import log

import pytest

from gpuconsole.core.estimate import Estimate, Tier, VerdictWord
from gpuconsole.core.fleet import Backend
from gpuconsole.preflight.accuracy.out_of_memory_chance import DOUBTFUL, ON_CPU, above, shares, wide
from gpuconsole.preflight.verdicts import chance_beside


def answer(tier: Tier = "static", backend: Backend = "cpu", *flags: str) -> Estimate:
    return Estimate(
        script="train.py", batch_size=8, batch_source=None, backend=backend, tier=tier,
        coverage=1.0, memory=None, flags=flags,
    )  # fmt: skip


def test_the_upper_bound_is_the_95th_percentile() -> None:
    gpu = answer("static", "gpu")
    assert above(log(1.25), wide(0.25), gpu) == pytest.approx(0.05, abs=1e-3)
    assert above(0.0, wide(0.25), gpu) == 0.5


def test_on_a_cpu_most_estimates_are_exact() -> None:
    """A thousandth more than the need is enough for all that are exact, a thousandth less for
    none: between them a chance in the middle would be a guess."""
    exact = ON_CPU["static"].exact
    enough, too_little = (above(point, wide(0.25), answer()) for point in (0.001, -0.001))
    assert enough < 0.5 * (1.0 - exact)
    assert too_little > exact
    assert too_little == pytest.approx(1.0 - enough)


@pytest.mark.parametrize("flag", sorted(DOUBTFUL))
def test_an_answer_that_doubts_itself_is_not_trusted_to_a_thousandth(flag: str) -> None:
    sure, unsure = (above(0.02, wide(0.25), answer("static", "cpu", *f)) for f in ((), (flag,)))
    assert sure < 0.1
    assert 0.15 < unsure < 0.5


def test_a_formula_is_not_exact_anywhere() -> None:
    spread = wide(0.5)
    cpu, gpu = (above(0.02, spread, answer("formula", backend)) for backend in ("cpu", "gpu"))
    assert cpu == gpu


@pytest.mark.parametrize("tier", sorted(ON_CPU))
def test_shares_are_shares(tier: Tier) -> None:
    for flags in ((), ("bound",)):
        found = shares(tier, "cpu", flags)
        parts = (found.exact, found.close, found.near, found.far)
        assert min(parts) >= 0.0
        assert sum(parts) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("word", "chance", "shown"),
    [
        ("fits", 0.02, True),
        ("tight", 0.3, True),
        ("fits", 0.7, False),
        ("will-not-fit", 0.28, False),
        ("will-not-fit", 0.97, True),
    ],
)
def test_no_chance_stands_beside_a_verdict_that_it_contradicts(
    word: VerdictWord, chance: float, shown: bool
) -> None:
    assert chance_beside(word, chance) == (chance if shown else None)
