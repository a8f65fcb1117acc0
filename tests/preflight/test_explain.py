"""What the memory is made of, by layer and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight import analyse

SCRIPT = """
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 4096), nn.ReLU())
        self.head = nn.Linear(4096, 10)

    def forward(self, x):
        return self.head(self.body(x))

net = Net()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(10):
    x = paddle.randn([128, 64])
    y = paddle.randint(0, 10, [128])
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def test_layers_by_what_they_keep(write: Callable[..., Path]) -> None:
    found = analyse(write(SCRIPT)).explain(backend="cpu")
    assert found is not None
    by_name = {row.name: row for row in found.layers}
    relu, first, head = by_name["body.1"], by_name["body.0"], by_name["head"]
    # relu keeps its output; the Linear's own output dies with its bias added.
    assert relu.saved_mib == pytest.approx(128 * 4096 * 4 / MIB)
    assert relu.output_shape == (128, 4096)
    assert first.parameters_mib == pytest.approx((64 * 4096 + 4096) * 4 / MIB)
    assert first.saved_mib == 0.0
    assert first.flops >= 2 * 128 * 64 * 4096
    assert head.line == 13
    assert found.layers[0] is relu
    assert [row.saved_mib for row in found.layers] == sorted(
        (row.saved_mib for row in found.layers), reverse=True
    )


def test_the_peak_has_a_line_and_a_moment(write: Callable[..., Path]) -> None:
    path = write(SCRIPT)
    found = analyse(path).explain(backend="cpu")
    assert found is not None
    assert found.peak_file == str(path)
    assert found.peak_line in (13, 21, 22)
    assert found.peak_moment.split()[0] in ("forward", "backward", "step")


def test_what_cannot_be_told_is_not_explained(write: Callable[..., Path]) -> None:
    assert analyse(write("x = 1\n")).explain() is None
