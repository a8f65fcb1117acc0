"""The simulated lab that judges chances."""

from __future__ import annotations

from benchmarks import chances
from benchmarks.chances import Told
from benchmarks.preflight import sets


def test_jobs_are_counted_by_the_tenth_of_their_chance() -> None:
    reported = [Told(0.05, False, True), Told(0.09, True, True), Told(1.0, True, False)]
    low, high = chances.tenths(reported)
    assert (low.low, low.jobs, low.happened, round(low.off)) == (0.0, 2, 0.5, -43)
    assert (high.low, high.jobs, high.off) == (0.9, 1, 0.0)
    assert "truth inside the range 66.7 %" in chances.table("some", reported)


def test_a_lab_that_learns_is_surer_than_one_that_does_not() -> None:
    scripts = [one for one in sets.load("dev") if one.scored][:2]
    cold = chances.lab(scripts, 40, seed=1, learns=False)
    learnt = chances.lab(scripts, 40, seed=1, learns=True)
    assert [one.ran_out for one in cold] == [one.ran_out for one in learnt]
    assert {one.ran_out for one in cold} == {True, False}

    def doubt(reported: list[Told]) -> float:
        return sum(min(one.chance, 1.0 - one.chance) for one in reported)

    assert doubt(learnt) < doubt(cold)
