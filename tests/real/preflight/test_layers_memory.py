"""Every layer and vision model against real Paddle on the CPU: parameters, forward, backward."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.preflight.layer_cases import FAMILIES, MODELS, LayerCase
from tests.real.preflight.operator_rig import HEAD, Case, in_interpreter, in_paddle, script

pytestmark = [
    pytest.mark.real,
    # Paddle warns when it is imported, and of types that it promotes.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]
TOLERANCE = 0.005
BATCH = 5
EXCEPTIONS = {
    # The CPU turns channels-last pictures and their gradients round for each kernel.
    "nn.Conv2D(6, 16, 3, data_format='NHWC')",
    # The loss runs in a library of its own, whose workspace follows the labels.
    "nn.CTCLoss()",
    # Random signs are drawn in several passes.
    "nn.AlphaDropout(0.3)",
    # A logarithm of a sum whose parts live a moment longer.
    "nn.SoftMarginLoss()",
}
"""Layers whose peak alone differs; parameters and what lives on are held like all others."""


def problems(text: str, *, exact: bool = True) -> Iterator[str]:
    """Say where the interpreter differs from Paddle, mark by mark."""
    real = in_paddle(text)
    mine, run = in_interpreter(text)
    for unknown in run.findings.unknowns.values():
        yield f"not understood: {unknown.reason}"
    for fault in run.findings.faults.values():
        yield f"held to be wrong: {fault.message}"
    if len(real) != len(mine):
        yield f"{len(mine)} marks instead of {len(real)}"
    for place, (there, here) in enumerate(zip(real, mine, strict=False)):
        room = TOLERANCE * max(there.peak, 1) + 8
        # The first mark is the layer's making: what it needs for a moment is never the peak.
        peaks = exact and place > 0
        if abs(there.live - here.live) > room or (peaks and abs(there.peak - here.peak) > room):
            yield f"mark {place}: Paddle {tuple(there)}, interpreter {tuple(here)}"


def case_text(case: LayerCase) -> str:
    before = f"mark()\nnet = {case.net}\nmark()"
    return script(Case("", case.call, case.inputs, case.loss, before), BATCH)


@pytest.mark.parametrize("family", FAMILIES)
def test_layers(family: str) -> None:
    found = {
        f"{case.net} {case.call}": list(problems(case_text(case), exact=case.net not in EXCEPTIONS))
        for case in FAMILIES[family]
    }
    assert {name: why for name, why in found.items() if why} == {}


@pytest.mark.parametrize("model", MODELS)
def test_vision_models(model: str) -> None:
    channels, side = MODELS[model]
    loss = "(y[0] + y[1] + y[2])" if model.startswith("googlenet") else "y"
    before = f"mark()\nnet = paddle.vision.models.{model}\nmark()"
    inputs = f"x=c(N,{channels},{side},{side})"
    assert list(problems(script(Case("", "net(x)", inputs, loss, before), 2))) == []


SIZES = {
    "encoder": "dict(kind='encoder', prefix='bert', layers=2, hidden=48, heads=4, intermediate=96,"
    " vocabulary=300, positions=64, types=2, tasks=3)",
    "shared": "dict(kind='encoder', prefix='albert', layers=3, hidden=48, heads=4, intermediate=96,"
    " vocabulary=300, positions=64, types=2, embedding=16, shared=True)",
    "gpt": "dict(kind='gpt', prefix='gpt', layers=2, hidden=48, heads=4, intermediate=96,"
    " vocabulary=300, positions=64)",
    "llama": "dict(kind='llama', prefix='llama', layers=2, hidden=48, heads=4, groups=2,"
    " intermediate=96, vocabulary=300, positions=64)",
    "t5": "dict(kind='t5', prefix='t5', layers=2, hidden=48, heads=4, intermediate=96,"
    " vocabulary=300, positions=64)",
}


@pytest.mark.parametrize("kind", SIZES)
def test_language_models(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources that build them are Paddle programs: Paddle runs them too."""
    import sys
    import types

    import paddle

    folder = Path(__file__).parents[3] / "gpuconsole" / "data" / "paddle" / "nlp"
    module = types.ModuleType("paddlenlp.transformers")
    module.__dict__["_facts"] = module.__dict__["_unknown_setting"] = None
    monkeypatch.setitem(sys.modules, "paddlenlp", types.ModuleType("paddlenlp"))
    monkeypatch.setitem(sys.modules, "paddlenlp.transformers", module)
    monkeypatch.setattr(paddle.nn, "_note_length", lambda length: None, raising=False)
    for stem in ("configuration", "encoders", "decoders", "t5", "heads"):
        exec(compile((folder / f"{stem}.py").read_text(), stem, "exec"), module.__dict__)
    head = "ForSequenceClassification" if kind in ("encoder", "shared") else "ForMaskedLM"
    text = HEAD + f"from paddlenlp.transformers import {head}\n"
    case = Case("", "net(x)", "x=i(N,20,<300)", "y", f"mark()\nnet = {head}({SIZES[kind]})\nmark()")
    assert list(problems(text + script(case, 3))) == []
