"""Rules that end a job by what its log reports: how they are written, and when they are broken."""

from __future__ import annotations

import math

import pytest

from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.log import TrainingReader
from gpuconsole.core.training.stop_rules import Broken, RuleError, Watch, parse_rule


def broken_by(rule: str, *lines: str) -> str:
    """Return why a log breaks a rule; "" when it does not."""
    reader, curves, watch = TrainingReader(), Curves(), Watch(parse_rule(rule))
    for line in lines:
        reading = reader.read(line)
        if reading is None:
            continue
        curves.take(reading)
        step = curves.at if curves.axis == "step" else None
        found = watch.take(reading.values, step, curves.epoch)
        if isinstance(found, Broken):
            return found.cause
    return ""


def test_a_loss_that_is_no_number() -> None:
    said = broken_by("loss  is nan", "step 1 loss: 0.5", "step 2 loss: nan")
    assert said == "Stopped by the rule `loss is nan`: loss was nan at step 2."
    assert broken_by("loss is nan", "step 2 loss: inf") == ""
    assert "was inf at step 2" in broken_by("loss is not finite", "step 2 loss: inf")


@pytest.mark.parametrize(
    "line",
    [
        "loss is nan, so this batch is skipped",
        "Warning: check_nan: loss may be nan: see the manual of the optimizer",
        "If loss: nan appears at step 5, lower the rate",
        "step 5 val_loss: nan",
        "step 5 loss: 0.5 (was nan)",
        "nan",
    ],
)
def test_a_line_that_does_not_surely_say_so_never_breaks_it(line: str) -> None:
    assert broken_by("loss is nan", "step 1 loss: 0.5", line) == ""


def test_a_limit_from_a_step_on() -> None:
    rule = "loss > 10 after 100 steps"
    assert broken_by(rule, "step 0 loss: 50", "step 99 loss: 50") == ""
    assert "loss was 50 at step 100" in broken_by(rule, "step 0 loss: 50", "step 100 loss: 50")
    assert broken_by(rule, "loss: 50", "loss: 50") == ""
    assert "in epoch 3" in broken_by("acc < 0.1 after 3 epochs", "epoch 0 acc: 0", "epoch 3 acc: 0")
    assert broken_by("acc <= 0", "epoch 1 acc: 0") != ""


def test_nothing_better_for_so_long() -> None:
    rule = "no better val_loss for 2 epochs"
    falls = [f"epoch {n} val_loss: {value}" for n, value in enumerate((5, 4, 4.5, 3, 3.1, 3.2))]
    assert broken_by(rule, *falls[:5]) == ""
    assert broken_by(rule, *falls) == (
        "Stopped by the rule `no better val_loss for 2 epochs`: val_loss was 3.2 in epoch 5, and at"
        " best 3 at epoch 3."
    )
    rises = [f"epoch {n} val_acc: {value}" for n, value in enumerate((0.1, 0.2, 0.3, 0.4))]
    assert broken_by("no better val_acc for 2 epochs", *rises) == ""
    assert broken_by("no lower val_acc for 2 epochs", *rises) != ""
    assert broken_by("no better loss for 2 epochs", *["loss: 1"] * 9) == ""


@pytest.mark.parametrize(
    ("text", "column", "why"),
    [
        ("loss is nam", 9, "expected `nan` or `not`"),
        ("loss nan", 6, "expected `is`"),
        ("loss > ten", 8, "expected a number"),
        ("loss > nan", 8, "expected a number"),
        ("loss > 1 after 5 minutes", 18, "expected `steps`"),
        ("loss > 1 after 0 steps", 16, "a number above 0"),
        ("loss is nan now", 13, "nothing more"),
        ("no better energy for 5 epochs", 11, "say `lower` or `higher`"),
        ("no better val_loss for 5", 25, "expected `steps`"),
        ("> 5", 1, "the name of a metric"),
        ("", 1, "the name of a metric"),
        ("loss is nan" + " " * 200 + "x", 120, "too long"),
    ],
)
def test_an_error_says_where(text: str, column: int, why: str) -> None:
    with pytest.raises(RuleError, match=why) as caught:
        parse_rule(text)
    assert caught.value.column == column


@pytest.mark.parametrize("unit", ["step", "steps", "epoch", "epochs"])
def test_a_number_of_one_or_of_several(unit: str) -> None:
    assert parse_rule(f"loss > 1 after 1 {unit}").text == f"loss > 1 after 1 {unit}"
    assert parse_rule(f"no better loss for 1 {unit}").text == f"no better loss for 1 {unit}"


def test_a_rule_keeps_its_words() -> None:
    assert parse_rule(" loss   >= 1e3  after 2  epochs ").text == "loss >= 1e3 after 2 epochs"
    assert math.isclose(parse_rule("loss >= 1e3").value, 1000.0)
