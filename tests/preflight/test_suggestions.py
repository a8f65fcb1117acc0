"""What would help, estimated again; and the time of a step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.estimate import Estimate, Report, Suggestion
from gpuconsole.core.jobs import Task
from gpuconsole.preflight import Analysis, Card, analyse, report
from gpuconsole.preflight.memory.variant import Variant
from gpuconsole.preflight.roofline import (
    LAUNCH_S,
    MIXED_PRECISION,
    Work,
    recorded_work,
    roofline,
    step_range,
    work_of,
)

EXAMPLES = Path(__file__).parents[2] / "gpuconsole" / "data" / "examples"
TOO_BIG = EXAMPLES / "too_big.py"


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyse(TOO_BIG)


def card(gib: float, host: str = "h", uuid: str = "0") -> Card:
    return Card(f"{gib:g}G", host, "gpu", gib * 1024, uuid=uuid)


def helpful(analysis: Analysis, *cards: Card) -> dict[str, Suggestion]:
    found = report(Task("t", script=str(TOO_BIG)), cards, analysis=analysis)
    return {f"{one.kind}:{one.value}" if one.kind == "amp" else one.kind: one
            for one in found.suggestions}  # fmt: skip


def test_every_saving_is_the_difference_of_two_estimates(analysis: Analysis) -> None:
    made = helpful(analysis, card(24))
    whole = analysis.estimate().memory
    half = analysis.estimate(variant=Variant(amp="O1")).memory
    assert whole is not None
    assert half is not None
    assert made["amp:O1"].saves_mib == pytest.approx(whole.high_mib - half.high_mib)
    size = made["batch-size"].value
    assert isinstance(size, int)
    small = analysis.estimate(size).memory
    assert small is not None
    assert made["batch-size"].saves_mib == pytest.approx(whole.high_mib - small.high_mib)
    assert all(one.costs for key, one in made.items() if key != "device")


def test_the_smaller_batch_is_set_in_the_arguments(analysis: Analysis) -> None:
    one = helpful(analysis, card(24))["batch-size"]
    assert one.args is not None
    again = analyse(TOO_BIG, one.args)
    found = report(Task("t", script=str(TOO_BIG)), [card(24)], analysis=again)
    assert found.verdicts[0].verdict in ("fits", "tight")
    assert found.suggestions == ()


def test_accumulation_keeps_the_effective_batch(analysis: Analysis) -> None:
    batch = analysis.estimate().batch_size
    one = helpful(analysis, card(24))["accumulate"]
    assert batch is not None
    assert isinstance(one.value, int)
    largest = report(Task("t", script=str(TOO_BIG)), [card(24)], analysis=analysis).verdicts[0]
    assert largest.max_batch_size is not None
    assert batch % one.value == 0
    assert batch // one.value <= largest.max_batch_size


def test_what_is_enough_is_said(analysis: Analysis) -> None:
    half = analysis.estimate(variant=Variant(amp="O1")).memory
    assert half is not None
    enough = half.high_mib / 0.85 / 1024
    assert "this makes it fit" in helpful(analysis, card(enough * 1.01))["amp:O1"].text
    assert "not enough" in helpful(analysis, card(enough * 0.99))["amp:O1"].text


def test_sharding_needs_a_host_with_that_many_devices(analysis: Analysis) -> None:
    apart = [card(8, f"h{place}", str(place)) for place in range(8)]
    assert "sharding" not in helpful(analysis, *apart)


DEEP = """
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
class Encoder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30522, 1024)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(1024, 16, 4096), 24)
        self.head = nn.Linear(1024, 2)
    def forward(self, ids):
        return self.head(self.blocks(self.table(ids))[:, 0])
net = Encoder()
opt = paddle.optimizer.AdamW(1e-4, parameters=net.parameters())
for step in range(100):
    loss = F.cross_entropy(net(paddle.zeros([8, 512], 'int64')), paddle.zeros([8], 'int64'))
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def test_of_a_long_script_only_sharding_that_could_fit_is_followed(tmp_path: Path) -> None:
    """Such a script is followed a few times: none of them goes to ways that cannot be enough."""
    script = tmp_path / "deep.py"
    script.write_text(DEEP)
    deep = analyse(script)
    assert (deep.tries("gpu") or 99) < 20
    sharded = deep.estimate(variant=Variant(shard_level="os_g", shards=8)).memory
    assert sharded is not None
    gib = sharded.high_mib / 0.85 / 1024 * 1.005
    cards = [card(gib, uuid=str(place)) for place in range(8)]
    found = report(Task("t", script=str(script)), cards, analysis=deep)
    assert {one.kind for one in found.suggestions} >= {"amp", "recompute", "sharding"}
    assert next(one for one in found.suggestions if one.kind == "sharding").value == "os_g x8"


def test_a_job_that_fits_needs_no_help(analysis: Analysis) -> None:
    assert helpful(analysis, card(24), card(500)) == {}


# -- time of a step


def estimate(**more: object) -> Estimate:
    base = {"flops_per_step": 1e13, "bytes_per_step": 1e9, "flags": ()}
    return Estimate("t.py", 8, None, "gpu", "static", 1.0, None, **{**base, **more})  # type: ignore[arg-type]


def test_a_step_is_bound_by_arithmetic_or_by_traffic() -> None:
    spec = Catalogue.load().lookup("A100-SXM4-40GB")
    assert spec is not None
    assert spec.fp32_tflops is not None
    assert spec.bandwidth_gb_s is not None
    busy, wide = roofline(Work(1e13, 1e9), spec), roofline(Work(1e13, 1e13), spec)
    assert busy == pytest.approx(1e13 / (spec.fp32_tflops * 1e12 * 0.35))
    assert wide == pytest.approx(1e13 / (spec.bandwidth_gb_s * 1e9 * 0.70))
    half = roofline(work_of(estimate(flags=(MIXED_PRECISION,))), spec)
    assert half is not None
    assert busy is not None
    assert half < busy


def test_a_step_of_a_tiny_network_is_bound_by_launching_its_kernels() -> None:
    spec = Catalogue.load().lookup("A100-SXM4-40GB")
    assert spec is not None
    tiny = roofline(Work(1e6, 1e6, kernels=500), spec)
    assert tiny == pytest.approx(500 * LAUNCH_S)
    assert roofline(Work(1e15, 1e9, kernels=500), spec) == roofline(Work(1e15, 1e9), spec)
    nothing = replace(spec, fp32_tflops=None, bandwidth_gb_s=None)
    assert roofline(Work(1e6, 1e6, kernels=500), nothing) is None, "launches alone tell no step"


def test_the_work_of_a_queued_job_is_that_of_its_estimate() -> None:
    made = estimate(kernels_per_step=321, flags=(MIXED_PRECISION,))
    document = Report(made).as_json()
    assert recorded_work(document) == work_of(made) == Work(1e13, 1e9, True, 321)
    del document["kernels_per_step"]
    assert recorded_work(document) == Work(1e13, 1e9, True), "of a journal that knew no kernels"
    assert recorded_work({**document, "kernels_per_step": "many"}) == Work(1e13, 1e9, True)


def test_kernels_are_counted_in_one_step_whatever_the_batch_size(tmp_path: Path) -> None:
    layers = 6
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\n"
        "from paddle import nn\n"
        f"net = nn.Sequential(*[nn.Linear(8, 8) for _ in range({layers})])\n"
        "sgd = paddle.optimizer.SGD(parameters=net.parameters())\n"
        "for step in range(5):\n"
        "    loss = net(paddle.rand([4, 8])).mean()\n"
        "    loss.backward()\n"
        "    sgd.step()\n"
        "    sgd.clear_grad()\n"
    )
    found = analyse(script)
    # Each layer: forward, its input's gradient, and two parameters' gradients and updates.
    assert 5 * layers <= found.estimate().kernels_per_step <= 9 * layers
    assert found.estimate(64).kernels_per_step == found.estimate().kernels_per_step


def test_the_cold_range_spans_two_each_way_and_is_honest_about_nothing_known() -> None:
    low, high = step_range(estimate(), "A100-SXM4-40GB") or (0.0, 0.0)
    assert high == pytest.approx(4 * low)
    assert step_range(estimate(), "a card nobody knows") is None
    assert step_range(estimate(flops_per_step=0.0, bytes_per_step=0.0), "Tesla T4") is None


def test_mixed_precision_is_not_suggested_where_the_task_does_not_allow_it(
    analysis: Analysis,
) -> None:
    def kinds(allowed: bool | None) -> set[str]:
        task = Task("t", script=str(TOO_BIG), allow_mixed_precision=allowed)
        found = report(task, [card(24)], analysis=analysis)
        return {f"{one.kind}:{one.value}" for one in found.suggestions}

    assert {"amp:O1", "recompute:blocks"} <= kinds(None)
    assert kinds(True) == kinds(None)
    refused = kinds(False)
    assert "recompute:blocks" in refused
    assert not any("amp" in one or "O1" in one for one in refused)


def test_changes_of_the_loop_are_for_the_shipped_copy(analysis: Analysis) -> None:
    made = helpful(analysis, card(24))
    assert {edit.kind for edit in made["accumulate"].edits} == {"accumulate"}
    assert {edit.kind for edit in made["amp:O1"].edits} == {"amp"}
    steps, size = made["accumulate"].value, made["accumulate"].batch
    assert int(steps) * (size or 0) == analysis.estimate().batch_size
    assert made["amp:O1"].is_applicable
    assert not made["amp:O1"].by_hand


def test_what_is_not_certain_is_to_be_written_by_hand(tmp_path: Path) -> None:
    """With the line where it belongs, and the line that leaves doubt."""
    path = tmp_path / "train.py"
    text = TOO_BIG.read_text()
    path.write_text(text.replace("optimizer.step()", "decay()\n        optimizer.step()"))
    backward = 1 + next(
        at for at, line in enumerate(text.splitlines()) if "loss.backward()" in line
    )  # fmt: skip
    rows = path.read_text().splitlines()
    assert "backward" in rows[backward - 1]
    path.write_text("\n".join([*rows[:3], "def decay():\n    pass", *rows[3:]]))
    backward += 2
    found = report(Task("t", script=str(path)), [card(24)]).suggestions
    (one,) = (one for one in found if one.kind == "amp" and one.value == "O1")
    assert not one.is_applicable
    assert one.by_hand == (
        f"By hand: before train.py:{backward} put the forward pass and the loss under "
        "`with paddle.amp.auto_cast():`, and scale the loss there with a paddle.amp.GradScaler. "
        "Not applied automatically: something comes between backward and step "
        f"(train.py:{backward + 1})."
    )
