"""What runs under `no_grad` keeps nothing for backward, however the switching is written."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]

SCRIPT = """
import contextlib
import functools
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros([64], "float32"), np.int64(i % 10)
    def __len__(self):
        return 100_000

def encoder():
    return nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(),
                         nn.Linear(512, 10))

class Off:
    def __enter__(self):
        self.inner = paddle.no_grad()
        self.inner.__enter__()
    def __exit__(self, *error):
        self.inner.__exit__(*error)

@contextlib.contextmanager
def quiet():
    with paddle.no_grad():
        yield

@paddle.no_grad()
def looked_up(x):
    return x

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.query = encoder()
        self.key = encoder()

    @paddle.no_grad()
    def update(self):
        pass

    @paddle.no_grad()
    def fail(self):
        raise ValueError("no")

    @staticmethod
    @paddle.no_grad()
    def still(x):
        return x

    @property
    @paddle.no_grad()
    def one(self):
        return 1

    @classmethod
    @paddle.no_grad()
    def made(cls, net, x):
        return net(x)

    @paddle.no_grad()
    @paddle.enable_grad()
    @paddle.no_grad()
    def twice(self, x):
        return self.key(x)

    @paddle.no_grad()
    def keys(self, x):
        yield self.key(x)

    @paddle.enable_grad()
    def on(self):
        pass

    def forward(self, x):
{body}
        return self.query(x) + k

net = Net()
opt = paddle.optimizer.SGD(parameters=net.query.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=32):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
ON = "k = self.key(x)"
OFF = "with paddle.no_grad():\n    k = self.key(x)"
NESTED = {
    "a decorated method": "with paddle.no_grad():\n    self.update()\n    k = self.key(x)",
    "a decorated function": "with paddle.no_grad():\n    looked_up(x)\n    k = self.key(x)",
    "a block":
        "with paddle.no_grad():\n    with paddle.no_grad():\n        pass\n    k = self.key(x)",
    "a block that switches on":
        "with paddle.no_grad():\n    with paddle.enable_grad():\n        pass\n    k = self.key(x)",
    "a method that switches on": "with paddle.no_grad():\n    self.on()\n    k = self.key(x)",
    "set_grad_enabled":
        "with paddle.no_grad():\n    with paddle.set_grad_enabled(True):\n        pass\n"
        "    k = self.key(x)",
    "an error in a decorated method":
        "with paddle.no_grad():\n    try:\n        self.fail()\n    except ValueError:\n"
        "        pass\n    k = self.key(x)",
    "continue":
        "with paddle.no_grad():\n    for _ in range(2):\n        with paddle.no_grad():\n"
        "            continue\n    k = self.key(x)",
    "a context of the script":
        "with paddle.no_grad():\n    with Off():\n        pass\n    k = self.key(x)",
    "a generator as a context":
        "with paddle.no_grad():\n    with quiet():\n        pass\n    k = self.key(x)",
}  # fmt: skip
FORMS = {
    "static": "with paddle.no_grad():\n    k = self.key(self.still(x))",
    "property": "with paddle.no_grad():\n    k = self.key(x)\nn = self.one\nassert n == 1",
    "class method": "k = self.made(self.key, x)",
    "several decorators": "k = self.twice(x)",
    "generator": "k = None\nfor k in self.keys(x):\n    pass",
    "between a generator's items": "for _ in self.keys(x):\n    k = self.key(x)",
    "called with a layer": "k = paddle.no_grad()(self.key)(x)",
    "called with a lambda": "k = paddle.no_grad()(lambda z: self.key(z))(x)",
    "partial": "k = functools.partial(paddle.no_grad()(self.key), x)()",
    "a stack":
        "with contextlib.ExitStack() as s:\n    s.enter_context(paddle.no_grad())\n"
        "    k = self.key(x)",
    "by hand":
        "off = paddle.no_grad()\noff.__enter__()\nk = self.key(x)\noff.__exit__(None, None, None)",
    "a context of the script": "with Off():\n    k = self.key(x)",
    "at once": "paddle.set_grad_enabled(False)\nk = self.key(x)\npaddle.set_grad_enabled(True)",
}  # fmt: skip
STAY_ON = {
    "after an error":
        "try:\n    with paddle.no_grad():\n        raise ValueError('no')\nexcept ValueError:\n"
        "    pass\nk = self.key(x)",
    "after a stack":
        "with contextlib.ExitStack() as s:\n    s.enter_context(paddle.no_grad())\nk = self.key(x)",
    "after a generator": "for k in self.keys(x):\n    pass\ndel k\nk = self.key(x)",
    "before the first item": "g = self.keys(x)\nk = self.key(x)\ndel g",
}  # fmt: skip


def peak(scan: Scan, body: str) -> float:
    text = SCRIPT.replace("{body}", indent(body, " " * 8))
    estimate = scan(text).estimate(1024, backend="cpu")
    assert estimate.memory is not None, estimate.unknowns
    assert not estimate.unknowns
    return estimate.memory.tensors_peak_mib


def test_the_forward_under_no_grad_keeps_nothing(scan: Scan) -> None:
    """With gradients the outputs of two linears of 512 and of their GELUs are kept, 2 MiB each."""
    assert peak(scan, ON) - peak(scan, OFF) > 3 * 1024 * 512 * 4 / 2**20


@pytest.mark.parametrize("body", NESTED.values(), ids=NESTED)
def test_what_is_nested_gives_the_former_state_back(scan: Scan, body: str) -> None:
    assert peak(scan, body) == peak(scan, OFF)


@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS)
def test_every_way_to_write_it_switches_off(scan: Scan, body: str) -> None:
    assert peak(scan, body) == peak(scan, OFF)


@pytest.mark.parametrize("body", STAY_ON.values(), ids=STAY_ON)
def test_gradients_are_on_again_after_it(scan: Scan, body: str) -> None:
    assert peak(scan, body) == peak(scan, ON)


def test_one_object_entered_twice_forgets_what_was_before(scan: Scan) -> None:
    """As in Paddle, where the object itself holds the former state."""
    twice = "off = paddle.no_grad()\nwith off:\n    with off:\n        pass\n"
    after = f"{twice}k = self.key(x)\npaddle.set_grad_enabled(True)"
    assert peak(scan, after) == peak(scan, OFF)
