"""Peaks that come after the first steps, by batch size."""

from __future__ import annotations

from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight.tiers import measured
from gpuconsole.preflight.tiers.later_peaks import Rise, rise
from tests.preflight.tiers.test_measured import document, run


@pytest.mark.parametrize(
    ("points", "batch", "expected"),
    [
        ((), 8, 0.0),
        (((2, 100.0), (4, 200.0)), 3, 150.0),
        (((2, 100.0), (4, 200.0)), 16, 800.0),
        # An evaluation of one size, which training exceeds from some batch on.
        (((2, 300.0), (4, 200.0)), 6, 100.0),
        (((2, 300.0), (4, 200.0)), 9, 0.0),
        (((2, 100.0), (4, 200.0), (8, 800.0)), 16, 2000.0),
        (((2, 100.0), (4, 200.0), (8, 800.0)), 3, 150.0),
        # One run alone does not tell what it is at others: as much for each sample at most.
        (((4, 100.0),), 8, 200.0),
        (((4, 100.0),), 2, 100.0),
        (((0, 100.0),), 0, 100.0),
    ],
)
def test_a_rise_follows_the_batch_size(
    points: tuple[tuple[int, float], ...], batch: int, expected: float
) -> None:
    assert Rise(points).bytes_at(batch) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("runs", "points"),
    [
        ([{"batch": 2, "rise": 7}, {"batch": 4, "rise": 9}], ((2, 7.0), (4, 9.0))),
        ([{"batch": 4, "rise": -1}, {"batch": 2, "rise": 9}], ((2, 9.0), (4, -1.0))),
        ([{"batch": 2, "rise": -7}, {"batch": 4}], ()),
        # What ran for as long as it could has not seen what another came to.
        (
            [{"batch": 2, "rise": 7, "reached": "end"},
             {"batch": 4, "rise": 1, "reached": "steps"}],
            ((2, 7.0),),
        ),
        ([{"batch": 2, "rise": "7"}, {"batch": 4, "rise": True}], ()),
        ([{"batch": 2, "rise": float("nan")}, {"batch": 4, "rise": 1e30}], ()),
    ],
)  # fmt: skip
def test_rises_are_read_of_the_runs_that_went_the_furthest(
    runs: list[dict[str, Any]], points: tuple[tuple[int, float], ...]
) -> None:
    assert rise(runs).points == points


def test_a_later_peak_counts_in_the_estimate_and_in_the_largest_batch() -> None:
    plain = measured.load(document(run(2), run(4)))
    later = measured.load(document(run(2, rise=5 * MIB), run(4, rise=6 * MIB)))
    before, after = (one.estimate(8, backend="cpu") for one in (plain, later))
    assert before.memory is not None
    assert after.memory is not None
    assert after.memory.tensors_peak_mib == pytest.approx(before.memory.tensors_peak_mib + 8.0)
    assert any("What comes after the first steps takes 8" in note for note in after.notes)
    assert not any("What comes after the first steps takes" in note for note in before.notes)
    for backend in ("cpu", "gpu"):
        few, many = plain.reserved_at(backend)(8), later.reserved_at(backend)(8)
        assert few is not None
        assert many is not None
        assert many >= few + 8.0
