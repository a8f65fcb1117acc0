"""Curves of a run: where points lie, what is kept of many, and their document."""

from __future__ import annotations

import json
import math

import pytest

from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.training.curves import (
    MOST_CURVES,
    MOST_POINTS,
    Curve,
    Curves,
    Figures,
    Point,
    Written,
    chosen_metric,
    compared,
    csv_text,
    figures,
    is_higher_better,
    ranked,
)
from gpuconsole.core.training.log import Reading


def of(*readings: Reading) -> Curves:
    curves = Curves()
    for reading in readings:
        curves.take(reading)
    return curves


def places(curves: Curves, name: str) -> list[float]:
    return [point.at for point in curves.curves[name].points]


def test_steps_of_an_epoch_are_laid_end_to_end() -> None:
    found = of(
        *(Reading({"loss": 1.0}, epoch, step, 100) for epoch in (1, 2) for step in (50, 100)),
        Reading({"val_loss": 2.0}, 2),
    )
    assert places(found, "loss") == [50, 100, 150, 200]
    assert places(found, "val_loss") == [200]
    assert found.axis == "step"


def test_steps_that_start_again_after_less_than_all_are_laid_after_all() -> None:
    found = of(Reading({"loss": 1.0}, 1, 90, 100), Reading({"loss": 1.0}, 2, 0, 100))
    assert places(found, "loss") == [90, 100]


def test_steps_that_run_through_stay_as_they_are() -> None:
    found = of(Reading({"loss": 1.0}, 1, 90, 200), Reading({"loss": 1.0}, 2, 110, 200))
    assert places(found, "loss") == [90, 110]


def test_a_log_that_counts_epochs_alone_or_nothing() -> None:
    assert places(of(Reading({"loss": 1.0}, 3), Reading({"loss": 1.0}, 4)), "loss") == [3, 4]
    assert places(of(Reading({"loss": 1.0}), Reading({"loss": 1.0})), "loss") == [1, 2]


def test_of_a_million_values_a_bounded_number_is_kept_and_the_ends_are_exact() -> None:
    curves = Curves()
    for step in range(100_000):
        value = -5.0 if step == 33_333 else math.nan if step == 40_001 else float(step % 7)
        curves.take(Reading({"loss": value}, None, step))
    loss = curves.curves["loss"]
    assert MOST_POINTS // 2 <= len(loss.points) < MOST_POINTS
    assert loss.count == 100_000
    assert loss.least is not None
    assert (loss.least.at, loss.least.value) == (33_333, -5.0)
    assert loss.no_number is not None
    assert loss.no_number.at == 40_001
    assert loss.last is not None
    assert loss.shown()[-1] == loss.last
    gaps = {
        second.at - first.at for first, second in zip(loss.points, loss.points[1:], strict=False)
    }
    assert max(gaps) <= loss.stride + 1


def test_names_without_end_are_left_out() -> None:
    found = of(*(Reading({f"loss_{number}": 1.0}) for number in range(100)))
    assert len(found.curves) == MOST_CURVES


def test_a_document_comes_back_as_it_was() -> None:
    found = of(Reading({"loss": 1.5, "acc": 0.5}, 1.0, 1), Reading({"loss": math.nan}, 1.0, 2))
    text = json.dumps(found.as_json(), allow_nan=False)
    again = Curves.from_json(json.loads(text))
    assert json.dumps(again.as_json()) == text
    assert again.curves["loss"].points == found.curves["loss"].points


def test_the_best_is_what_the_name_of_a_metric_says() -> None:
    found = of(*(Reading({"loss": v, "val_acc": v, "energy": v}) for v in (2.0, 1.0, 3.0)))
    best = {name: curve.best.value if curve.best else None for name, curve in found.curves.items()}
    assert best == {"loss": 1.0, "val_acc": 3.0, "energy": None}
    assert is_higher_better("val_top1")
    assert is_higher_better("celoss") is False
    assert is_higher_better("step_s") is False


def test_csv_has_a_row_for_each_point_and_no_formula() -> None:
    found = of(Reading({"loss": 1.0}, 1, 10), Reading({"loss": math.nan}, 1, 20))
    text = csv_text([Written("j1", "=cmd()", found)])
    assert text.splitlines() == [
        "job,name,metric,step,epoch,value",
        "j1,'=cmd(),loss,10,1,1.0",
        "j1,'=cmd(),loss,20,1,nan",
    ]
    assert csv_text([Written("j1", "a", found)], ["acc"]).splitlines() == text.splitlines()[:1]


def job(name: str, *args: str, peak_mib: float | None = None) -> Job:
    attempts = (Attempt(1, "h", peak_mib=9.0), Attempt(2, "h", peak_mib=peak_mib))
    return Job(name, Task(name, args=args), "eve", JobState.SUCCEEDED, 1.0, attempts=attempts)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], ""), (["lr"], "lr"), (["step_s", "lr"], "step_s"), (["energy", "loss"], "loss"),
        (["loss", "acc"], "loss"), (["acc", "val_acc", "val_loss"], "val_loss"),
        (["loss", "val_energy"], "loss"), (["loss", "val_acc"], "val_acc"),
    ],
)  # fmt: skip
def test_jobs_are_compared_by_what_a_person_looks_at_first(names: list[str], chosen: str) -> None:
    curves = of(Reading(dict.fromkeys(names, 1.0), 1))
    assert chosen_metric(compared([job("a")], [curves])) == chosen


def test_metrics_that_a_person_looks_at_come_first() -> None:
    names = ("lr", "energy", "step_s", "f1", "val_acc", "acc", "val_loss", "loss", "top1")
    assert of(Reading(dict.fromkeys(names, 1.0), 1)).main() == [
        "loss", "val_loss", "acc", "val_acc", "f1", "top1", "lr", "energy", "step_s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "order"),
    [("loss", ["b", "c", "a", "none", "nan"]), ("acc", ["a", "c", "b", "none", "nan"]),
     ("energy", ["b", "c", "a", "none", "nan"])],
)  # fmt: skip
def test_the_best_comes_first_and_without_a_value_a_job_comes_last(
    metric: str, order: list[str]
) -> None:
    values = {"a": 3.0, "b": 1.0, "c": 2.0}
    curves = [of(Reading({metric: value}, 1)) for value in values.values()]
    curves += [Curves(), of(Reading({metric: math.nan}, 1))]
    jobs = compared([job(name) for name in (*values, "none", "nan")], curves)
    assert [each.job.id for each in ranked(jobs, metric)] == order


def test_the_figures_of_a_job_are_those_of_its_last_attempt() -> None:
    run = of(
        Reading({"loss": 3.0, "step_s": 0.5}, 1, 10),
        Reading({"loss": 1.0, "step_s": 1.5}, 1, 20),
        Reading({"loss": 2.0}, 1, 30),
    )
    jobs = [job("a", "--lr", "1", "--k", "8", peak_mib=12.5), job("b", "--lr", "2", "--k", "8")]
    first, second = compared(jobs, [run, Curves()])
    assert (first.parameters, second.parameters) == ({"lr": "1"}, {"lr": "2"})
    assert figures(first, "loss") == Figures(2.0, 1.0, 20.0, 1.0, 12.5)
    assert figures(first, "acc") == Figures(None, None, None, 1.0, 12.5)
    assert figures(second, "loss") == Figures(None, None, None, None, None)


@pytest.mark.parametrize(
    ("count", "kept", "stride"),
    [(MOST_POINTS - 1, MOST_POINTS - 1, 1), (MOST_POINTS, MOST_POINTS // 2, 2),
     (MOST_POINTS + 1, MOST_POINTS // 2 + 1, 2), (MOST_POINTS + 2, MOST_POINTS // 2 + 1, 2)],
)  # fmt: skip
def test_beyond_its_most_every_second_point_is_kept(count: int, kept: int, stride: int) -> None:
    curve = Curve("loss")
    for at in range(count):
        curve.add(Point(float(at), float(at)))
    assert (len(curve.points), curve.stride, curve.finite) == (kept, stride, count)
    assert [point.at for point in curve.points] == [float(at) for at in range(0, count, stride)]
    assert curve.mean(2) == (curve.points[-1].at + curve.points[-2].at) / 2
    assert Curve("loss").mean() is None


def test_a_run_that_starts_again_or_counts_nothing_keeps_its_place() -> None:
    """Without the number of steps of an epoch, its last step is where the next begins."""
    run = of(
        Reading({"loss": 1.0}, 1, 90), Reading({"loss": 1.0}, 2, 90), Reading({"loss": 1.0}, 3, 5)
    )
    assert places(run, "loss") == [90, 90, 95]
    assert (run.epoch, run.at) == (3, 95.0)
    # A line that counts nothing is where the one before it was.
    run.take(Reading({"loss": 1.0}))
    assert places(run, "loss")[-1] == 95
    assert [point.epoch for point in run.curves["loss"].points] == [1, 2, 3, 3]
    epochs = of(Reading({"loss": 1.0}, 3), Reading({"loss": 1.0}))
    assert places(epochs, "loss") == [3, 3]
