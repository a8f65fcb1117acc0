"""Progress, pace and memory as the job screen tells them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.history import Series
from gpuconsole.core.jobs import JobState
from gpuconsole.core.training.log import Progress, progress
from gpuconsole.tui.render.plots.memory_plot import Bounds, memory_lines, until
from gpuconsole.tui.render.training_progress import Pace, foreseen_step_s, left_s
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN
from tests.tui.fake import NOW, job


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], None),
        (["loss 3/4 of nothing"], None),
        (["step=3/500 loss=1"], ("step", 3, 500, 0, 0)),
        (["Epoch 1/10", "step 20/100 - loss"], ("step", 20, 100, 1, 10)),
        (["step 99/100", "Epoch 2/10"], ("step", 99, 100, 2, 10)),
        (["Epoch: 2/10"], ("epoch", 2, 10, 0, 0)),
        (["step=9/3", "iter [5/50]"], ("iter", 5, 50, 0, 0)),
        (["step=0/0"], None),
        ([" 40%|████      | 200/500 [00:10<00:15, 19.2it/s]"], ("step", 200, 500, 0, 0)),
    ],
)
def test_progress_is_read_from_the_log(
    lines: list[str], expected: tuple[str, int, int, int, int] | None
) -> None:
    assert progress(lines) == expected


def test_all_epochs_count() -> None:
    done = Progress("step", 20, 100, 2, 10)
    assert done.done == pytest.approx(0.12)
    assert done.left == 880


def test_the_pace_is_that_of_the_last_minutes() -> None:
    pace, running = Pace(), job("resnet", JobState.RUNNING)
    first = Progress("step", 100, 1000)
    pace.note("a", first, NOW)
    assert running.started_at == NOW - 380
    assert pace.seconds(running, first, NOW) == pytest.approx(3.8), "on average"
    for at in range(1, 40):
        later = Progress("step", 100 + at, 1000)
        pace.note("a", later, NOW + 10 * at)
    assert pace.seconds(running, later, NOW + 390) == pytest.approx(10.0)
    assert left_s(running, later, 10.0) == pytest.approx(8610.0)
    pace.note("b", first, NOW + 400)
    assert pace.seconds(running, first, NOW) == pytest.approx(3.8), "another attempt begins again"


def test_the_start_of_a_short_run_is_no_part_of_its_pace() -> None:
    """Three steps in the first four seconds do not take 1.3 s each."""
    pace, begun = Pace(), job("resnet", JobState.RUNNING)
    assert begun.started_at is not None
    first = begun.started_at + 3.0
    for at in range(3):
        pace.note("a", Progress("step", 1 + at, 60), first + 0.3 * at)
    assert pace.seconds(begun, Progress("step", 3, 60), first + 1.0) is None
    for at in range(3, 20):
        pace.note("a", Progress("step", 1 + at, 60), first + 0.3 * at)
    last = Progress("step", 20, 60)
    assert pace.seconds(begun, last, first + 6.0) == pytest.approx(0.3)
    ended = job("resnet", JobState.SUCCEEDED)
    assert pace.seconds(ended, last, NOW) == pytest.approx(0.3), "as it was seen to run"


def test_nothing_is_left_of_what_does_not_run() -> None:
    done = Progress("step", 100, 1000)
    assert left_s(job("x", JobState.FAILED), done, 1.0) is None
    assert left_s(job("x", JobState.RUNNING), None, 1.0) is None
    assert Pace().seconds(job("x", JobState.RUNNING), Progress("step", 0, 9), NOW) is None


def test_preflight_tells_the_pace_before_the_first_step() -> None:
    verdicts = [{"device": "V100", "step_s": None}, {"device": "A100", "step_s": (0.2, 0.3)}]
    waiting = replace(job("x", JobState.RUNNING), estimate={"verdicts": verdicts})
    assert foreseen_step_s(waiting, "A100") == (0.2, 0.3)
    assert foreseen_step_s(waiting, "V100") is None
    assert foreseen_step_s(job("x", JobState.RUNNING), "A100") is None


def series(*sizes: float | None) -> Series:
    times = [NOW + 10 * at for at in range(len(sizes))]
    return Series(NOW, NOW + 10 * len(sizes), times, sizes, sizes, sizes, [10.0] * len(sizes))


def plotted(symbols: str, what: Series, bounds: Bounds) -> list[str]:
    ink = Ink(BUILT_IN, symbols)  # type: ignore[arg-type]
    lines = memory_lines(ink, what, bounds, 40, 7)
    return ["".join(words for words, _ in line) for line in lines]


def test_the_plot_shows_bound_and_limit_and_what_goes_over() -> None:
    rows = plotted("ascii", series(1000, 8000, 21000, 21000), Bounds(20000.0, 30000.0))
    assert [row[:10].strip() for row in rows[:-1]] == ["29.3 GiB", "", "19.5 GiB", "", "", ""]
    assert rows[0].startswith("29.3 GiB  limit ------------------------")
    assert rows[2].startswith("19.5 GiB  predicted -----###")
    assert "peak 20.5 GiB (105%)" in rows[-1]
    assert {len(row) for row in rows} == {40}


def test_a_curve_is_not_hidden_by_the_name_of_a_line() -> None:
    rows = plotted("ascii", series(21000, 21000, 21000, 21000), Bounds(20000.0, 30000.0))
    assert rows[2].startswith("19.5 GiB  ####")


def test_nothing_held_and_nothing_predicted_is_an_empty_plot() -> None:
    rows = plotted("block", series(0, 0), Bounds(None, None))
    assert "peak 0.0 MiB" in rows[-1]
    assert not "".join(rows[:-1]).strip()


def test_a_far_limit_is_only_named() -> None:
    rows = plotted("block", series(900, 1000), Bounds(1200.0, 34000.0))
    assert "limit 33.2 GiB" in rows[-1]
    assert not any(row.startswith("33.2") for row in rows)


def test_nothing_seen_says_so() -> None:
    assert plotted("block", series(None), Bounds(1.0, 2.0)) == ["No memory was seen of it yet."]


def test_a_curve_ends_with_the_attempt() -> None:
    cut = until(series(1, 2, 3, 4), NOW + 15)
    assert (list(cut.values), cut.end) == ([1, 2], NOW + 15)
