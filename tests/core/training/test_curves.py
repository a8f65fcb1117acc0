"""Curves of a run: where points lie, what is kept of many, and their document."""

from __future__ import annotations

import json
import math

from gpuconsole.core.training.curves import (
    MOST_CURVES,
    MOST_POINTS,
    Curves,
    Written,
    csv_text,
    is_higher_better,
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
