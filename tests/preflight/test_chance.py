"""A chance says what happens that often: exact estimates are trusted where they were seen exact."""

from __future__ import annotations

from math import log

import pytest

from gpuconsole.preflight.chance import EXACT, above, wide


def test_the_upper_bound_is_the_95th_percentile() -> None:
    assert above(log(1.25), wide(0.25), "static", "gpu") == pytest.approx(0.05, abs=1e-3)
    assert above(0.0, wide(0.25), "static", "gpu") == 0.5


def test_on_a_cpu_most_estimates_are_exact() -> None:
    """2 % more than the need is enough in all but a half of the rest, 2 % less nearly never."""
    rest = 1.0 - EXACT["cpu"]
    near = above(0.02, wide(0.25), "static", "cpu")
    assert 0.3 * rest < near < 0.5 * rest
    assert above(-0.02, wide(0.25), "static", "cpu") == pytest.approx(1.0 - near)


def test_a_formula_is_not_exact_anywhere() -> None:
    spread = wide(0.5)
    assert above(0.02, spread, "formula", "cpu") == above(0.02, spread, "formula", "gpu")
