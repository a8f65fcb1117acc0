"""Peaks that a device's allocator counted, and what they tell of other batch sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole import preflight
from gpuconsole.errors import UsageError
from gpuconsole.preflight.memory.variant import Variant
from gpuconsole.preflight.tiers.device_peaks import OnDevice, load

MIB = 2**20


def document(*sizes: tuple[int, float, float], **more: Any) -> dict[str, Any]:
    runs = [
        {"batch": batch, "allocated": int(used * MIB), "reserved": int(held * MIB)}
        for batch, used, held in sizes
    ]
    facts = {"backend": "gpu", "card": "A100", "driver": "550.1", "paddle": "3.3.1"}
    return {"version": 1, "mode": "device", "runs": runs, **facts, **more}


STRAIGHT = document((2, 120, 130), (4, 140, 152), (8, 180, 192))


def measured(found: dict[str, Any]) -> OnDevice:
    return load(found, script="train.py")


def test_the_line_through_three_peaks_tells_other_batches() -> None:
    estimate = measured(STRAIGHT).estimate(32)
    memory = estimate.memory
    assert memory is not None
    assert estimate.tier == "device"
    assert memory.tensors_peak_mib == pytest.approx(100 + 10 * 32)
    assert memory.activations_mib == pytest.approx(320)
    # Of what is reserved the steepest pair decides, and no peak lies above it.
    assert memory.reserved_mib == pytest.approx(11 * 32 + 108)
    assert measured(STRAIGHT).estimate().memory is None
    assert measured(STRAIGHT).reserved_at("gpu")(8) == pytest.approx(196)


def test_card_driver_and_what_was_counted_are_told() -> None:
    notes = " ".join(measured(STRAIGHT).estimate(8).notes)
    assert "A100 (driver 550.1, Paddle 3.3.1)" in notes
    assert "120.0 of 130.0 MiB at batch 2" in notes
    assert "No real card has confirmed this tier yet" in notes


def test_what_grows_faster_than_the_batch_is_not_extrapolated() -> None:
    found = measured(document((2, 104, 110), (4, 116, 120), (8, 164, 170)))
    assert found.estimate(32).memory is None
    assert "faster than the batch size" in found.estimate(32).unknowns[0].reason
    assert found.reserved_at("gpu")(8) is None


def test_small_batches_in_the_allocator_s_grain_are_no_bend() -> None:
    assert measured(document((2, 10.0, 12), (4, 10.1, 12), (8, 10.6, 12))).refusal == ""


def test_it_answers_for_its_own_kind_of_device_alone() -> None:
    found = measured(STRAIGHT)
    assert found.estimate(8, backend="npu").memory is None
    assert found.reserved_at("npu")(8) is None
    assert found.estimate(8, variant=Variant(amp="O1")).memory is None
    with pytest.raises(UsageError):
        found.estimate(0)


@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"runs": 7, "backend": "gpu"}, {"runs": [], "backend": "gpu"},
        {**STRAIGHT, "runs": STRAIGHT["runs"][:2]}, {**STRAIGHT, "runs": STRAIGHT["runs"][:1] * 3},
        {**STRAIGHT, "runs": [{**run, "allocated": -1} for run in STRAIGHT["runs"]]},
        {**STRAIGHT, "runs": [{**run, "reserved": float("inf")} for run in STRAIGHT["runs"]]},
        {**STRAIGHT, "runs": [{**run, "reserved": float("nan")} for run in STRAIGHT["runs"]]},
        {**STRAIGHT, "runs": [{**run, "allocated": 10**320} for run in STRAIGHT["runs"]]},
        {**STRAIGHT, "runs": [{**run, "allocated": True} for run in STRAIGHT["runs"]]},
        {**STRAIGHT, "runs": [{**run, "batch": "8"} for run in STRAIGHT["runs"]]},
    ],
)  # fmt: skip
def test_what_is_no_measurement_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        load(wrong)


def test_what_reading_tells_of_the_script_stands_beside_its_peaks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\n"
        "paddle.distributed.init_parallel_env()\n"
        "net = paddle.nn.Linear(64, 64)\n"
        "adam = paddle.optimizer.Adam(parameters=net.parameters())\n"
        "for step in range(3):\n"
        "    loss = net(paddle.rand([16, 64])).mean()\n"
        "    loss.backward()\n"
        "    adam.step()\n"
        "    adam.clear_grad()\n"
    )
    one = load(STRAIGHT, script=str(script), analysis=preflight.analyse(script))
    own, given = one.estimate(), one.estimate(16)
    assert own.batch_size == 16
    assert "distributed" in own.flags
    assert own.flops_per_step
    assert own.batch_source is not None
    assert own.batch_source.line == 6
    assert given.batch_source == own.batch_source
