"""Verdicts, the largest batch, suggestions, and the formula tier."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.jobs import Task
from gpuconsole.errors import UsageError
from gpuconsole.preflight import Card, analyse, cards, report

EXAMPLES = Path(__file__).parents[2] / "gpuconsole" / "data" / "examples"
TOO_BIG = EXAMPLES / "too_big.py"


def card(gib: float, held_mib: float = 0.0, threshold: float = 0.85) -> Card:
    return Card(f"{gib:.0f}G", "host", "gpu", gib * 1024, held_mib, threshold)


def task(script: Path = TOO_BIG, *args: str, **more: object) -> Task:
    return Task("t", script=str(script), args=args, **more)  # type: ignore[arg-type]


def test_limit_is_the_smaller_of_threshold_and_what_is_left() -> None:
    assert card(10).limit_mib == pytest.approx(0.85 * 10240)
    assert card(10, held_mib=5000).limit_mib == pytest.approx(10240 - 5000 - 0.02 * 10240)
    assert Card("n", "h", "gpu", 1000, exact=True).limit_mib == 1000


@pytest.mark.parametrize("gib", [8, 24, 40, 80])
def test_max_batch_is_exact(gib: float) -> None:
    analysis = analyse(TOO_BIG)
    one = card(gib)
    largest = report(task(), [one], analysis=analysis).verdicts[0].max_batch_size
    assert largest
    for batch, fits in ((largest, True), (largest + 1, False)):
        memory = analysis.estimate(batch).memory
        assert memory is not None
        assert (memory.high_mib <= one.limit_mib) is fits
        verdict = report(task(batch_size=batch), [one], analysis=analysis).verdicts[0]
        assert (verdict.verdict in ("fits", "tight")) is fits
        assert verdict.max_batch_size == largest


def test_exact_card_has_no_context_and_no_margin() -> None:
    analysis = analyse(EXAMPLES / "mnist_cnn.py")
    one = Card("question", "", "cpu", 100.0, exact=True)
    largest = report(Task("t"), [one], analysis=analysis).verdicts[0].max_batch_size
    assert largest
    for batch, fits in ((largest, True), (largest + 1, False)):
        memory = analysis.estimate(batch, backend="cpu").memory
        assert memory is not None
        assert (memory.tensors_peak_mib <= 100.0) is fits


def test_too_big_is_stopped_with_suggestions() -> None:
    found = report(task(allow_mixed_precision=True), [card(24), card(24, 10_000)])
    assert [one.verdict for one in found.verdicts] == ["will-not-fit"] * 2
    first, second = found.verdicts
    assert first.max_batch_size is not None
    assert second.max_batch_size is not None
    assert first.max_batch_size > second.max_batch_size > 0
    assert first.oom_probability is not None
    assert first.oom_probability > 0.9
    by_kind = {one.kind: one for one in found.suggestions}
    smaller = by_kind["batch-size"]
    assert isinstance(smaller.value, int)
    assert smaller.value % 8 == 0
    assert smaller.value <= first.max_batch_size
    assert smaller.saves_mib > 0
    assert str(smaller.value) in smaller.text
    assert {"accumulate", "device"} <= set(by_kind)
    assert "GB" in by_kind["device"].text
    json.dumps(found.as_json())


def test_words_follow_the_headroom() -> None:
    analysis = analyse(EXAMPLES / "mnist_cnn.py")
    memory = analysis.estimate().memory
    assert memory is not None
    for capacity, word in (
        (memory.high_mib * 2 / 0.85, "fits"),
        (memory.high_mib * 1.02 / 0.85, "tight"),
        (memory.high_mib * 0.99 / 0.85, "will-not-fit"),
    ):
        one = Card("x", "h", "gpu", capacity)
        verdict = report(Task("t"), [one], analysis=analysis).verdicts[0]
        assert verdict.verdict == word
        assert verdict.headroom_mib == pytest.approx(one.limit_mib - memory.high_mib)


def test_oom_probability_falls_with_capacity() -> None:
    analysis = analyse(TOO_BIG)
    found = report(task(), [card(one) for one in (8, 24, 80, 192)], analysis=analysis)
    chances = [one.oom_probability for one in found.verdicts]
    reported = [chance for chance in chances if chance is not None]
    assert reported == sorted(reported, reverse=True)
    assert chances[0] == 1.0


def test_no_chance_to_live_stands_beside_a_refusal() -> None:
    analysis = analyse(TOO_BIG)
    memory = analysis.estimate(context_mib=600.0).memory
    assert memory is not None
    # All of the range is physically there, and little of it may be used.
    one = Card("roomy", "h", "gpu", memory.high_mib * 1.05, threshold=0.5, context_mib=600.0)
    [refused] = report(task(), [one], analysis=analysis).verdicts
    assert (refused.verdict, refused.oom_probability) == ("will-not-fit", None)


def test_a_large_fleet_is_worked_out_by_class() -> None:
    fleet = [
        Card(f"c{i % 4}", f"h{i}", "gpu", 16384.0 * (1 + i % 4), uuid=str(i)) for i in range(8000)
    ]
    found = report(task(), fleet)
    assert len(found.verdicts) == 8000
    assert found.verdicts[7999].uuid == "7999"
    assert found.verdicts[0].max_batch_size == found.verdicts[4].max_batch_size


def test_cards_of_a_snapshot() -> None:
    devices = (
        Device("GPU-1", 0, "RTX 3090", memory_total_mib=24576, memory_used_mib=1000),
        Device("GPU-2", 1, "RTX 3090", memory_total_mib=24576, lost=True),
        Device("GPU-3", 2, "?"),
    )
    (only,) = cards(FleetSnapshot(hosts=(Host("a", devices=devices),)), 0.9)
    assert (only.uuid, only.held_mib, only.threshold, only.index) == ("GPU-1", 1000, 0.9, 0)


def test_will_fail_says_the_line(write: Callable[..., Path], training: Callable[..., str]) -> None:
    net = "class Net(nn.Linear):\n    pass"
    path = write(training(net).replace("Net()", "Net(65, 10)"))
    found = report(task(path), [card(24)])
    assert found.verdicts[0].verdict == "will-fail"
    assert found.suggestions[0].kind == "fix-script"
    assert found.as_json()["errors"][0]["shapes"] == ((32, 64), (65, 10))


TWO_PLACES = """
import paddle
net = paddle.nn.Linear(64, 10)
opt = paddle.optimizer.SGD(parameters=net.parameters())
for _ in range(3):
    x = paddle.rand([8, 64])
    y = paddle.randint(0, 10, [8])
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def test_a_batch_size_that_is_put_in_makes_no_script_wrong(write: Callable[..., Path]) -> None:
    """It is written at two places, of which one takes another: only the own one is known."""
    script = write(TWO_PLACES)
    own = report(task(script), [card(24)])
    assert own.verdicts[0].verdict == "fits"
    assert own.verdicts[0].max_batch_size is None
    other = report(task(script, batch_size=16), [card(24)])
    assert other.verdicts[0].verdict == "unknown"
    assert other.estimate.errors == ()
    first = other.estimate.unknowns[0]
    assert "with a batch of 16 put in at train.py:6 alone it fails" in first.reason


def test_a_batch_size_that_an_option_gives_fails_as_the_job_would(
    write: Callable[..., Path],
) -> None:
    parsed = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()
"""
    script = write(parsed + TWO_PLACES.replace("[8, 64]", "[args.batch, 64]"))
    assert report(task(script, "--batch", "16"), [card(24)]).verdicts[0].verdict == "will-fail"


def test_unknown_verdict_says_why(write: Callable[..., Path]) -> None:
    found = report(task(write("x = 1\n")), [card(24)])
    assert found.verdicts[0].verdict == "unknown"
    assert found.verdicts[0].reason
    assert found.as_json()["memory"] is None


# -- formula


def cold(**more: object) -> Task:
    values = {"model_name": "ernie-gram", "sequence_length": 512, "batch_size": 16, **more}
    return Task("cold", **values)  # type: ignore[arg-type]


def test_formula_of_a_known_model() -> None:
    found = report(cold(), [card(40)])
    estimate, memory = found.estimate, found.estimate.memory
    assert estimate.tier == "formula"
    assert memory is not None
    assert memory.parameters_mib == pytest.approx(381, abs=5)
    # Twelve layers of width 768 at 16 x 512 tokens: 17.5 S h + 2.25 a S^2 floats each.
    expected = 16 * 12 * 4 * (17.5 * 512 * 768 + 2.25 * 12 * 512**2) / 2**20
    assert memory.activations_mib == pytest.approx(expected, rel=0.05)
    assert memory.high_mib - memory.total_mib >= 0.5 * memory.reserved_mib
    assert "36 MiB" in estimate.notes[1]
    assert found.verdicts[0].max_batch_size


def test_formula_flags_and_unknowns() -> None:
    assert "long-sequence" not in report(cold(), []).estimate.flags
    assert "long-sequence" in report(cold(sequence_length=513), []).estimate.flags
    nobody = report(cold(model_name="nobody-knows"), [card(40)])
    assert nobody.estimate.tier == "unknown"
    assert "nobody-knows" in nobody.estimate.unknowns[0].reason
    assert nobody.verdicts[0].verdict == "unknown"
    assert report(cold(batch_size=None), []).estimate.tier == "unknown"
    with pytest.raises(UsageError):
        report(cold(batch_size=0), [])


def test_formula_agrees_with_the_static_tier_on_an_encoder(
    write: Callable[..., Path], training: Callable[..., str]
) -> None:
    net = """
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(30522, 768)
            layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.1)
            self.encoder = nn.TransformerEncoder(layer, 12)
            self.head = nn.Linear(768, 10)
        def forward(self, x):
            return self.head(self.encoder(self.embed(x))[:, 0])
    """
    path = write(training(net, sample="(128,)", dtype="int64"))
    static = analyse(path).estimate(16).memory
    formula = report(cold(model_name="bert-base", sequence_length=128), []).estimate.memory
    assert static is not None
    assert formula is not None
    assert formula.tensors_peak_mib == pytest.approx(static.tensors_peak_mib, rel=0.1)
