"""Gradients of gradients: what their graph keeps, and which operators are not followed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.units import MIB
from gpuconsole.preflight import analyse

SCRIPT = """
import paddle
from paddle import nn

class Field(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 64), nn.Linear(2, 64), nn.Linear(64, 1)
    def forward(self, z):
        u, v = paddle.tanh(self.a(z)), paddle.tanh(self.b(z))
        return self.c({mixed})

net = Field()
opt = paddle.optimizer.Adam(1e-3, parameters=net.parameters())
for step in range(3):
    when, place = paddle.randn([2048, 1]), paddle.randn([2048, 1])
    when.stop_gradient = place.stop_gradient = False
    out = net(paddle.concat([when, place], axis=1))
    u_t = paddle.grad(out, when, create_graph=True)[0]
    u_x = paddle.grad(out, place, create_graph=True)[0]
    {again}
    loss = ((u_t + out * u_x) ** 2).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def estimate(folder: Path, mixed: str, again: str = "") -> Estimate:
    path = folder / "train.py"
    path.write_text(SCRIPT.format(mixed=mixed, again=again))
    return analyse(path).estimate(backend="cpu")


def peak(folder: Path, mixed: str, again: str = "") -> float:
    memory = estimate(folder, mixed, again).memory
    assert memory is not None
    return memory.tensors_peak_mib * MIB


def test_gradients_that_meet_are_added_into_a_block_of_their_own(tmp_path: Path) -> None:
    # What Paddle 3.3.1 held on the CPU.
    assert peak(tmp_path, "u * v") == pytest.approx(10_092_872, rel=0.01)


def test_a_third_order_is_followed_within_a_tenth(tmp_path: Path) -> None:
    again = "u_t = u_t + paddle.grad(u_x, place, create_graph=True)[0]"
    assert peak(tmp_path, "u * v", again) == pytest.approx(16_958_280, rel=0.1)


@pytest.mark.parametrize("mixed", ["nn.functional.silu(u) * v", "u / (1.0 + v * v)"])
def test_what_paddle_builds_of_many_operators_is_not_guessed(tmp_path: Path, mixed: str) -> None:
    answer = estimate(tmp_path, mixed)
    assert answer.memory is None
    assert any("second derivative" in one.reason for one in answer.unknowns)
