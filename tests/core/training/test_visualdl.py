"""VisualDL's record files: one that VisualDL 2.5.3 wrote, and others that are damaged."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from random import Random

import pytest

from gpuconsole.core.training.curves import MOST_CURVES, Curves, Written, csv_text
from gpuconsole.core.training.log import TrainingReader
from gpuconsole.core.training.visualdl import (
    curves_of,
    metric_of,
    reports_of,
    scalars,
    with_records,
)

WRITTEN = Path(__file__).with_name("visualdl-2.5.3.vdlrecords").read_bytes()
"""By its LogWriter: 40 steps of `train/loss` with a NaN after them, `eval/acc` at four of them, a
histogram, a text that looks like a report, `add_scalars` of `lr`, and hyperparameters."""


def record(tag: str, step: int, value: float) -> bytes:
    """Return a record of one scalar."""
    name = tag.encode()
    own = b"\x08" + varint(step) + b"\x12" + varint(len(name)) + name
    own += b"\x25" + struct.pack("<f", value)
    body = b"\x0a" + varint(len(own)) + own
    return struct.pack("<Q", len(body)) + body


def varint(number: int) -> bytes:
    made = b""
    while number > 0x7F:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


def test_what_visualdl_wrote_is_read() -> None:
    made = curves_of({"vdl/vdlrecords.1.log": WRITTEN})
    assert sorted(made.curves) == ["loss", "lr_a", "lr_b", "val_acc"]
    loss, acc = made.curves["loss"], made.curves["val_acc"]
    assert (loss.count, loss.finite, made.axis) == (41, 40, "step")
    assert loss.points[10].at == 10
    assert loss.points[10].value == pytest.approx(2.0 * math.exp(-1.0))
    assert loss.no_number is not None
    assert loss.no_number.at == 40
    assert [(point.at, round(point.value, 3)) for point in acc.points] == [
        (9, 0.59), (19, 0.69), (29, 0.79), (39, 0.89),
    ]  # fmt: skip
    assert acc.best is not None
    assert acc.best.at == 39
    rows = csv_text([Written("j1", "train", made)], ["val_acc"]).splitlines()
    assert rows[1].startswith("j1,train,val_acc,9,,0.5899")
    again = Curves.from_json(made.as_json())
    assert again.as_json() == made.as_json()
    # A NaN that is the last value too is one row, of curves that were stored as well.
    assert len(csv_text([Written("j1", "train", again)], ["loss"]).splitlines()) == 1 + 41


def test_the_steps_of_a_run_come_in_their_order_with_what_each_reported() -> None:
    files = {
        "vdl/b.log": record("loss", 20, 0.5) + record("acc", 10, 0.25),
        "vdl/a.log": record("loss", 10, 1.0) + record("loss", 5, 2.0),
    }
    assert list(reports_of(files)) == [
        (5, {"loss": 2.0}), (10, {"loss": 1.0, "acc": 0.25}), (20, {"loss": 0.5}),
    ]  # fmt: skip
    assert list(reports_of({})) == []


def test_a_file_that_still_grows_is_read_as_far_as_it_goes() -> None:
    known = len(list(scalars(WRITTEN)))
    assert known == 47
    for size in range(len(WRITTEN)):
        assert len(list(scalars(WRITTEN[:size]))) <= known


def test_damaged_files_end_and_raise_nothing() -> None:
    random = Random(7)
    for _ in range(2000):
        data = bytearray(WRITTEN)
        for _ in range(random.randint(1, 6)):
            data[random.randrange(len(data))] = random.randrange(256)
        for found in scalars(bytes(data)):
            metric_of(found.tag)
    assert list(scalars(b"\xff" * 64)) == []
    assert list(scalars(struct.pack("<Q", 3) + b"\x0b\x01\x01")) == []
    assert list(scalars(record("loss", 2**60, 1.0))) == []


def test_tags_become_the_metrics_of_logs() -> None:
    names = {
        "train/loss": "loss", "eval/loss": "val_loss", "loss": "loss", "Train/Acc Top1": "acc_top1",
        "eval_accuracy": "val_accuracy", "val/top-1": "val_top_1", "train/learning_rate": "lr",
        "gen/loss": "gen_loss", "\x1b[31m": "", "///": "", "a" * 99: "a" * 32,
    }  # fmt: skip
    assert {tag: metric_of(tag) for tag in names} == names


def test_runs_in_two_folders_are_told_apart_and_a_value_written_twice_counts_once() -> None:
    files = {
        "vdl/a/vdlrecords.1.log": record("loss", 1, 3.0) + record("loss", 1, 2.0),
        "vdl/eval/vdlrecords.1.log": record("loss", 1, 5.0),
    }
    made = curves_of(files)
    assert {name: curve.value("last") for name, curve in made.curves.items()} == {
        "loss": 2.0, "val_loss": 5.0,
    }  # fmt: skip


def test_a_hostile_script_gets_a_bounded_number_of_curves() -> None:
    data = b"".join(record(f"metric{number}", 1, 1.0) for number in range(1000))
    assert len(curves_of({"vdlrecords.log": data}).curves) == MOST_CURVES


def logged(*lines: str) -> Curves:
    made, reader = Curves(), TrainingReader()
    for line in lines:
        reading = reader.read(line)
        assert reading is not None
        made.take(reading)
    return made


def test_curves_of_both_are_shown_together_and_the_logs_first() -> None:
    records = curves_of({"vdlrecords.log": WRITTEN})
    both = with_records(logged("step 1 loss: 9.0", "step 2 loss: 8.0"), records)
    assert both.curves["loss"].value("last") == 8.0
    assert both.curves["val_acc"].count == 4
    # Epochs and steps share no axis.
    assert with_records(logged("epoch 1 loss: 9.0"), records) is records
    assert with_records(logged("step 1 loss: 9.0"), Curves()).curves["loss"].count == 1
