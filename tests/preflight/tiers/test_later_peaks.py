"""Peaks that come after the first steps, by batch size."""

from __future__ import annotations

from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight.accuracy.out_of_memory_chance import UNREACHED
from gpuconsole.preflight.tiers import measured
from gpuconsole.preflight.tiers.later_peaks import Later, Peaks, later
from tests.preflight.tiers.test_measured import document, run


@pytest.mark.parametrize(
    ("points", "batch", "expected"),
    [
        ((), 8, 0.0),
        (((2, 10, 20, 0), (4, 20, 40, 0)), 3, 15.0),
        (((2, 10, 20, 0), (4, 20, 40, 0)), 16, 80.0),
        # An evaluation of one size, which training exceeds from some batch on.
        (((2, 10, 10, 50), (4, 20, 20, 50)), 6, 20.0),
        (((2, 10, 10, 50), (4, 20, 20, 50)), 12, 0.0),
        # One of larger batches, which lie below the first steps of the small ones.
        (((2, 100, 100, 10), (4, 101, 101, 20)), 64, 320 - 131.0),
        (((2, 1, 2, 0), (4, 2, 4, 0), (8, 4, 20, 0)), 16, 52 - 8.0),
        (((2, 1, 2, 0), (4, 2, 4, 0), (8, 4, 20, 0)), 3, 1.5),
        # Of one run alone nothing tells how it grows.
        (((4, 10, 110, 0),), 8, 100.0),
        (((0, 10, 110, 0),), 0, 100.0),
    ],
)
def test_a_later_peak_follows_the_batch_size(
    points: tuple[tuple[int, float, float, float], ...], batch: int, expected: float
) -> None:
    later_ = Later(tuple(Peaks(*point) for point in points))
    assert later_.bytes_at(batch) == pytest.approx(expected)
    assert not later_.is_unsure


def test_a_peak_that_a_larger_batch_did_not_come_to_counts_and_is_unsure() -> None:
    """It is no smaller there: the run ended before it."""
    fallen = Later((Peaks(2, 10, 90), Peaks(4, 20, 21)))
    assert fallen.is_unsure
    assert fallen.bytes_at(4) == 70
    assert fallen.beside(8) == pytest.approx(80 * 2 - (90 - 40))
    alone = Later((Peaks(2, 10, 90),), others=True)
    assert alone.is_unsure
    assert alone.beside(8) == pytest.approx(80 * 4 - 80)


@pytest.mark.parametrize(
    ("runs", "batches", "others"),
    [
        ([{"batch": 4, "peaks": [1, 2, 0]}, {"batch": 2, "peaks": [1, 2, 0]}], [2, 4], False),
        ([{"batch": 2, "peaks": [1, 2, 0]}, {"batch": 4}], [2], True),
        # What ran for as long as it could has not seen what another came to.
        (
            [{"batch": 2, "peaks": [1, 2, 0], "reached": "end", "followed": 9},
             {"batch": 4, "peaks": [1, 2, 0], "reached": "steps", "followed": 9}],
            [2], True,
        ),
        (
            [{"batch": 2, "peaks": [1, 2, 0], "reached": "epoch", "followed": 8},
             {"batch": 4, "peaks": [1, 2, 0], "reached": "epoch", "followed": 9}],
            [4], True,
        ),
        (
            [{"batch": 2, "peaks": [1, 2, 0], "reached": "end", "followed": 8},
             {"batch": 4, "peaks": [1, 2, 0], "reached": "end", "followed": 4}],
            [2, 4], False,
        ),
        ([{"batch": 2, "peaks": [1, True, 0]}, {"batch": 4, "peaks": [1, "2", 0]}], [], False),
        ([{"batch": 2, "peaks": [1, float("nan"), 0]}, {"batch": 4, "peaks": [1e30] * 3}], [],
         False),
        ([{"batch": 2, "peaks": [1, 2]}, {"batch": "4", "peaks": [1, 2, 3]}], [], False),
    ],
)  # fmt: skip
def test_peaks_are_read_of_the_runs_that_went_the_furthest(
    runs: list[dict[str, Any]], batches: list[int], others: bool
) -> None:
    read = later(runs)
    assert [point.batch for point in read.points] == batches
    assert read.others == others


def test_a_later_peak_counts_in_the_estimate_and_in_the_largest_batch() -> None:
    peaks = [[0, 5 * MIB, 0], [0, 6 * MIB, 0]]
    plain = measured.load(document(run(2), run(4)))
    found = measured.load(document(run(2, peaks=peaks[0]), run(4, peaks=peaks[1])))
    before, after = (one.estimate(8, backend="cpu") for one in (plain, found))
    assert before.memory is not None
    assert after.memory is not None
    assert after.memory.tensors_peak_mib == pytest.approx(before.memory.tensors_peak_mib + 8.0)
    assert any("What comes after the first steps takes 8" in note for note in after.notes)
    assert not any("What comes after the first steps takes" in note for note in before.notes)
    assert UNREACHED not in after.flags
    for backend in ("cpu", "gpu"):
        few, many = plain.reserved_at(backend)(8), found.reserved_at(backend)(8)
        assert few is not None
        assert many is not None
        assert many >= few + 8.0


def test_an_unsure_one_widens_the_range() -> None:
    found = measured.load(document(run(2, peaks=[0, 5 * MIB, 0]), run(4, peaks=[0, 0, 0])))
    sure = measured.load(document(run(2, peaks=[0, 5 * MIB, 0]), run(4, peaks=[0, 5 * MIB, 0])))
    wide, narrow = (one.estimate(8, backend="cpu") for one in (found, sure))
    assert UNREACHED in wide.flags
    assert wide.memory is not None
    assert narrow.memory is not None
    assert wide.memory.high_mib == pytest.approx(narrow.memory.high_mib + 5.0)
