"""Past predictions held against what happened."""

from __future__ import annotations

from gpuconsole.core.devices.run_history import Observation
from gpuconsole.preflight.accuracy.reliability import ENOUGH, reliability, scatter


def run(chance: float | None, out: bool, predicted: float = 100.0, taken: float = 90.0) -> (
    Observation
):  # fmt: skip
    return Observation(
        "j", 1, 1.0, "oom" if out else "ok", "d", "t.py",
        oom_probability=chance, predicted_reserved_mib=predicted,
        reserved_mib=taken, allocated_mib=taken, requested_mib=50.0 if out else None,
    )  # fmt: skip


def test_chances_fall_into_bins_with_their_share() -> None:
    found = reliability(
        [run(0.0, False)] * 15 + [run(0.05, False)] * 3 + [run(0.05, True)] + [run(1.0, True)] * 2
    )
    counts = {(one.low, one.high): (one.runs, one.ran_out) for one in found.bins if one.runs}
    assert counts == {(0.0, 0.02): (15, 0), (0.02, 0.1): (4, 1), (0.98, 1.0): (2, 2)}
    middle = found.bins[1]
    assert middle.observed == 0.25
    assert middle.predicted is not None
    assert abs(middle.predicted - 0.05) < 1e-9
    assert found.too_few == ""


def test_too_little_history_is_said() -> None:
    found = reliability([run(0.1, False)] * (ENOUGH - 1) + [run(None, False)])
    assert str(ENOUGH - 1) in found.too_few
    assert "Too little" in reliability([]).too_few
    assert scatter(reliability([]).pairs) == ()


def test_after_running_out_the_truth_is_more_than_what_was_held_and_asked_for() -> None:
    (pair,) = reliability([run(0.5, True, 100.0, 90.0)]).pairs
    assert (pair.predicted_mib, pair.observed_mib, pair.ran_out) == (100.0, 140.0, True)


def test_the_scatter_shows_each_run_at_its_place() -> None:
    runs = [run(0.1, False, 100.0, 100.0), run(0.1, False, 100.0, 6400.0), run(0.9, True, 6400.0)]
    lines = scatter(reliability(runs).pairs)
    marks = [(row, line.index(mark)) for row, line in enumerate(lines) for mark in "·x"
             if mark in line]  # fmt: skip
    assert len(marks) == 3
    # The higher one was taken as predicted for little and took much.
    assert marks[0][0] < marks[-1][0]
    assert len({len(line) for line in lines}) > 1
    assert "GiB" in lines[0]
    assert "MiB" in lines[-1]
