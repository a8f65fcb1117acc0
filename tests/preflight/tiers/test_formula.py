"""The tier for a task that names a model and no script."""

from __future__ import annotations

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.jobs import Task
from gpuconsole.preflight import Formula
from gpuconsole.preflight.tiers.formula import vision_model


def estimate(model: str, batch: int | None = 8, **more: object) -> Estimate:
    return Formula(Task("cold", model_name=model, batch_size=batch, **more)).estimate()  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["ernie-3.0-nano-zh", "t5-small", "resnet18", "mobilenet-v2"])
def test_models_of_both_tables_are_estimated(model: str) -> None:
    found = estimate(model)
    memory = found.memory
    assert (found.tier, found.batch_size, found.script) == ("formula", 8, "")
    assert memory is not None
    assert memory.optimizer_mib == pytest.approx(2 * memory.parameters_mib, rel=0.01)
    assert memory.high_mib == pytest.approx(
        memory.total_mib + 0.5 * memory.reserved_mib + memory.context_spread_mib
    )
    assert found.flops_per_step > 0


def test_inference_needs_neither_gradients_nor_state() -> None:
    trained, used = estimate("ernie-3.0-nano"), estimate("ernie-3.0-nano", kind="inference")
    assert used.memory is not None
    assert trained.memory is not None
    assert used.memory.gradients_mib == used.memory.optimizer_mib == 0
    assert used.memory.tensors_peak_mib < 0.3 * trained.memory.tensors_peak_mib


def test_longer_texts_need_more() -> None:
    short, long = (estimate("ernie-3.0-nano", sequence_length=n).memory for n in (64, 256))
    assert short is not None
    assert long is not None
    # Four times the tokens, sixteen times the scores.
    assert 4 < long.activations_mib / short.activations_mib < 16


def test_what_is_missing_is_said() -> None:
    assert "neither a script nor a model" in estimate("").unknowns[0].reason
    assert "batch_size_per_gpu" in estimate("bert-base", None).unknowns[0].reason
    assert "'nobody'" in estimate("nobody").unknowns[0].reason


def test_the_rule_of_thumb_is_shown_and_does_not_decide() -> None:
    found = estimate("ernie-gram", 16, sequence_length=512)
    assert "36 MiB" in found.notes[1]
    assert found.memory is not None
    assert found.memory.tensors_peak_mib > 100 * 36


def test_vision_models_by_name() -> None:
    assert vision_model("ResNet50") == "resnet50"
    assert vision_model("mobilenet-v3-small") == "mobilenet_v3_small"
    assert vision_model("BasicBlock") is None
    assert vision_model("") is None
