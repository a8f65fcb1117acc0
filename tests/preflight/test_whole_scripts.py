"""What whole scripts brought to light: an unknown stays one, and what runs is not called wrong."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.units import MIB
from gpuconsole.preflight import Analysis

LOOP = """
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for step in range(5):
    loss = net(paddle.randn([8, 3])).sum()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
HEAD = """
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
"""


def bytes_of(found: Estimate) -> int:
    assert not found.errors, found.errors
    assert found.memory is not None, found.unknowns
    return round(found.memory.tensors_peak_mib * MIB)


def test_a_width_is_the_product_of_an_arrays_numbers(scan: Callable[..., Analysis]) -> None:
    made = "int(np.array((3,)).prod())", "int(np.prod((3, 1)))", "3"
    sizes = [
        bytes_of(scan(HEAD + f"net = nn.Linear({one}, 16)\n" + LOOP).estimate(backend="cpu"))
        for one in made
    ]
    assert sizes == [sizes[2]] * 3


def test_layers_after_one_that_is_not_known_are_not_called_wrong(
    scan: Callable[..., Analysis],
) -> None:
    net = "net = nn.Sequential(nn.Linear(np.random.randint(3, 4), 16), nn.Linear(16, 5))\n"
    found = scan(HEAD + net + LOOP).estimate(backend="cpu")
    assert not found.errors
    assert found.memory is None


def test_a_scalar_has_an_axis_to_squeeze_and_reduce(scan: Callable[..., Analysis]) -> None:
    plain = HEAD + "net = nn.Linear(3, 5)\n" + LOOP
    other = plain.replace(".sum()", ".sum().squeeze(-1).sum(axis=0)")
    assert scan(plain).estimate(backend="cpu").memory is not None
    assert not scan(other).estimate(backend="cpu").errors
    wrong = scan(plain.replace(".sum()", ".sum().squeeze(1)")).estimate(backend="cpu")
    assert "axis 1" in wrong.errors[0].message
