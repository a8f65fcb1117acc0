"""Iterations of a training loop that do something else than the first ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
LOOP = """
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(64, 256), paddle.nn.ReLU(), paddle.nn.Linear(256, 10))
opt = paddle.optimizer.Adam(parameters=net.parameters())
def evaluate(rows):
    with paddle.no_grad():
        return float(net(paddle.rand([rows, 64])).mean())
for iteration in range(20):
    net(paddle.rand([32, 64])).mean().backward()
    opt.step()
    opt.clear_grad()
    {rest}
"""


def peak(scan: Scan, text: str) -> float:
    memory = scan(text).estimate(backend="cpu").memory
    assert memory is not None
    return memory.tensors_peak_mib


@pytest.mark.parametrize(
    "test",
    [
        "iteration == 7",
        "iteration % 10 == 9",
        "(iteration + 1) % 5 == 0",
        "iteration > 0 and not iteration % 4",
        "iteration > 15",
    ],
)
def test_an_evaluation_in_a_later_iteration_counts(scan: Scan, test: str) -> None:
    rare = peak(scan, LOOP.format(rest=f"if {test}: evaluate(4096)"))
    assert rare == peak(scan, LOOP.format(rest="evaluate(4096)"))
    assert rare > 2 * peak(scan, LOOP.format(rest=""))


def test_a_turn_that_never_comes_does_not_count(scan: Scan) -> None:
    never = LOOP.format(rest="if iteration == 20: evaluate(4096)")
    assert peak(scan, never) == peak(scan, LOOP.format(rest=""))


def test_layers_that_are_trained_from_a_turn_on_have_gradients_and_states(scan: Scan) -> None:
    frozen = LOOP.replace(
        "for iteration in range(20):", "for iteration in range(20):\n    freeze(iteration)"
    )
    frozen = frozen.replace("def evaluate", (
        "def freeze(iteration):\n    pass\ndef evaluate"))  # fmt: skip
    late = LOOP.replace(
        "for iteration in range(20):",
        "for iteration in range(20):\n    net[0].weight.stop_gradient = iteration < 12",
    )
    assert peak(scan, late.format(rest="")) == peak(scan, frozen.format(rest=""))
    always = late.replace("iteration < 12", "True")
    assert peak(scan, always.format(rest="")) < peak(scan, late.format(rest=""))


@pytest.mark.parametrize(
    ("computed", "frozen"),
    [
        ("stage = min(iteration // 6, 1)", "place > stage"),
        ("stage = int(iteration >= 12)", "place > stage"),
        ("part = iteration // 8\n    both = part == 2", "place > 0 and not both"),
        ("part = iteration // 8\n    stage = part - 1", "place > stage"),
    ],
)
def test_layers_that_are_trained_from_a_stage_on_that_the_iteration_shows(
    scan: Scan, computed: str, frozen: str
) -> None:
    staged = LOOP.replace(
        "for iteration in range(20):",
        f"for iteration in range(20):\n    {computed}\n"
        "    for place, layer in enumerate([net[2], net[0]]):\n"
        f"        for weight in layer.parameters(): weight.stop_gradient = {frozen}",
    )
    assert peak(scan, staged.format(rest="")) == peak(scan, LOOP.format(rest=""))


def test_a_report_now_and_then_is_not_followed(scan: Scan) -> None:
    """A loop that only prints has nothing that needs memory: no further iteration is walked."""
    outcome = scan(LOOP.format(rest="if iteration % 10 == 9: print(iteration)")).outcome(
        None, "cpu"
    )
    plain = scan(LOOP.format(rest="")).outcome(None, "cpu")
    assert len(outcome.trace.events) == len(plain.trace.events)


def test_a_later_iteration_that_cannot_be_followed_leaves_the_answer(scan: Scan) -> None:
    estimate = scan(
        LOOP.format(rest="if iteration == 7: evaluate(paddle.nothing_like_it(net) + [1])")
    ).estimate(backend="cpu")
    assert estimate.memory is not None
    assert not estimate.errors


def test_a_queue_is_followed_until_it_is_full(scan: Scan) -> None:
    queue = LOOP.replace(
        "    net(paddle.rand([32, 64])).mean().backward()",
        "    out = net(paddle.rand([32, 64]))\n    bank = [*bank[-2:], out.detach()]\n"
        "    out.mean().backward()",
    ).replace("for iteration", "bank = []\nfor iteration")
    estimate = scan(queue.format(rest="")).estimate(backend="cpu")
    assert estimate.memory is not None
    assert "grows" not in estimate.flags
    held = scan(queue.replace("bank[-2:]", "bank[-1:]").format(rest="")).estimate(backend="cpu")
    assert held.memory is not None
    more = estimate.memory.tensors_peak_mib - held.memory.tensors_peak_mib
    assert more * 2**20 == pytest.approx(32 * 10 * 4, abs=4)


def _trainings(widths: str, step: str = "") -> str:
    return f"""
import paddle
def train(width):
    net = paddle.nn.Sequential(paddle.nn.Linear(64, width), paddle.nn.Linear(width, 10))
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    for iteration in range(5):
        net(paddle.rand([32, 64])).mean().backward()
        opt.step()
        opt.clear_grad()
    {step or "pass"}
for width in {widths}:
    train(width)
"""


def test_a_loop_that_trains_other_networks_needs_what_the_largest_does(scan: Scan) -> None:
    """Peaks in MiB of Paddle 3.3.1's CPU allocator: the layers of the last one wait for Python's
    collector."""
    assert peak(scan, _trainings("[2048]")) == pytest.approx(3.1018, rel=0.001)
    assert peak(scan, _trainings("[64, 2048, 256]")) == pytest.approx(3.1752, rel=0.001)
    assert peak(scan, _trainings("[256]")) == pytest.approx(0.3947, rel=0.001)
    assert peak(scan, _trainings("(256, 256)")) == pytest.approx(0.6879, rel=0.001)


def test_networks_that_wait_for_the_collector_make_the_memory_unknown(scan: Scan) -> None:
    """Of 1, 2, 8, 20, 100 and 500 such networks trained in turn Paddle 3.3.1's CPU allocator held
    0.39, 0.69, 2.3, 3.8, 5.5 and 7.5 MiB: Python's collector comes when it comes."""
    many, few = scan(_trainings("[256] * 500")), scan(_trainings("[256] * 8"))
    assert many.outcome(None, "cpu").steps < 1.5 * few.outcome(None, "cpu").steps
    assert many.estimate(backend="cpu").memory is None


def test_a_later_training_that_cannot_be_followed_is_said_not_to_count(scan: Scan) -> None:
    text = _trainings("[64, 128]", "open('x').nothing if width > 64 else 1 / (64 - width or 1)")
    text = text.replace("def train(width):", "def train(width):\n    assert width < 100")
    found = scan(text).estimate(backend="cpu")
    assert found.errors == ()
    assert found.memory is not None
    assert found.memory.tensors_peak_mib == peak(scan, _trainings("[64]"))
    assert any("not counted" in note for note in found.notes)
