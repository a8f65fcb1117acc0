"""What closures and walks over tensors hold: as much as Python's would."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]

SCRIPT = """
import numpy as np
import paddle
import paddle.nn as nn

class Windows(paddle.io.Dataset):
    def __init__(self):
        self.tokens = np.random.randint(0, 50, size=90_000)
    def __len__(self):
        return 600
    def __getitem__(self, i):
        {sample}

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 48)
        self.out = nn.Linear(48, 144)
    def forward(self, x):
        b, t = x.shape
        y = self.out(self.table(x))
        {forward}

net = Net()
opt = paddle.optimizer.SGD(parameters=net.parameters())
for step, (x, y) in enumerate(paddle.io.DataLoader(Windows(), batch_size=16)):
    net(x).mean().backward()
    if (step + 1) % 4 == 0:
        opt.step()
        opt.clear_grad()
"""
WINDOW = "w = np.zeros([65], 'int64'); return w[:-1], w[1:]"


def peak(scan: Scan, sample: str, forward: str) -> float:
    estimate = scan(SCRIPT.format(sample=sample, forward=forward)).estimate(backend="cpu")
    assert estimate.memory is not None, estimate.unknowns
    return estimate.memory.tensors_peak_mib


ROWS = {
    "unpacked": "q, k, v = y.reshape([b, t, 3, 48]).transpose([2, 0, 1, 3]); return q * k * v",
    "indexed": "z = y.reshape([b, t, 3, 48]).transpose([2, 0, 1, 3]); q, k, v = z[0], z[1], z[2]; "
    "del z; return q * k * v",
    "listed": "q, k, v = list(y.reshape([b, t, 3, 48]).transpose([2, 0, 1, 3])); return q * k * v",
}


@pytest.mark.parametrize("form", ["unpacked", "listed"])
def test_a_tensor_is_walked_over_by_its_first_axis(scan: Scan, form: str) -> None:
    assert peak(scan, WINDOW, ROWS[form]) == peak(scan, WINDOW, ROWS["indexed"])


def test_a_tensor_without_axes_cannot_be_walked_over(scan: Scan) -> None:
    text = SCRIPT.format(sample=WINDOW, forward="a, c = y.mean(); return a")
    assert any("0-D" in one.message for one in scan(text).estimate(backend="cpu").errors)


@pytest.mark.parametrize(
    "closure",
    [
        "cut = lambda z: z.reshape([b, -1])",
        "def cut(z):\n            return z.reshape([b, -1])",
        "cut = [lambda z: z.reshape([b, -1])][0]",
    ],
)
def test_a_closure_holds_only_what_it_reads(scan: Scan, closure: str) -> None:
    """A closure kept by a name of its own call would else hold every name beside it."""
    body = "big = y * 2\n        "
    plain = f"{body}return big.reshape([b, -1]).exp()"
    closed = f"{closure}\n        {body}return cut(big).exp()"
    assert peak(scan, WINDOW, closed) == peak(scan, WINDOW, plain)


def test_a_closure_that_outlives_its_call_still_reads_its_names(scan: Scan) -> None:
    maker = "make = lambda n: lambda z: z.reshape([b, n])\n        "
    closed = f"{maker}cut = make(-1)\n        return cut(y).exp()"
    assert peak(scan, WINDOW, closed) == peak(scan, WINDOW, "return y.reshape([b, -1]).exp()")


def test_a_window_at_an_unknown_place_has_its_width(scan: Scan) -> None:
    cut = "at = i * 64; w = self.tokens[at:at + 64 + 1].astype('int64'); return w[:-1], w[1:]"
    assert peak(scan, cut, "return y.exp()") == peak(scan, WINDOW, "return y.exp()")
