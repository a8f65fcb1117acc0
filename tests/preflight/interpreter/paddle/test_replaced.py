"""What scripts replace in Paddle: methods of layers, optimizers and tensors, and functions.

Peaks in MiB of Paddle 3.3.1's CPU allocator.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TRAINING = """
import functools, types, paddle
import paddle.nn as nn
import paddle.nn.functional as F
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 1000)
    def forward(self, x):
        return {forward}
def wider(old):
    return lambda *args: (old(*args) * 2).exp()
def extended(self, x):
    return extra(F.linear(x, self.weight, self.bias))
def holding(old):
    def call(*args):
        held = paddle.ones([1024, 1024]).exp()
        return old(*args)
    return call
{script}
for turn in range(4):
    loss = net(paddle.rand([128, 64])).mean()
    {step}
    opt.clear_grad()
"""
ADAM = "opt = paddle.optimizer.Adam(parameters=net.parameters())"
STEP = "loss.backward(); opt.step()"


def training(script: str, step: str = STEP, forward: str = "self.fc(x)") -> str:
    if "opt =" not in script:
        script += "\n" + ADAM
    return TRAINING.format(script=script, step=step, forward=forward)


def peak(scan: Scan, text: str) -> float:
    found = scan(text).estimate(backend="cpu")
    assert found.memory is not None, (found.unknowns, found.errors)
    return found.memory.tensors_peak_mib


LINEAR = "net = nn.Linear(64, 1000)"
EXTENDED = "net = nn.Linear(64, 64); extra = net.extra = nn.Linear(64, 1500)\n"
HELD = "net = nn.Linear(64, 3000)\n"


@pytest.mark.parametrize(
    ("script", "real"),
    [
        (EXTENDED + "net.forward = types.MethodType(extended, net)", 3.0786),
        (EXTENDED + "net.forward = functools.partial(extended, net)", 3.0786),
        (EXTENDED + "net.forward = extended.__get__(net)", 3.0786),
        (EXTENDED + "setattr(net, 'forward', types.MethodType(extended, net))", 3.0786),
        ("net = nn.Sequential(nn.Linear(64, 1000), nn.ReLU())\nnet.forward = wider(net.forward)",
         2.4879),
        (LINEAR + "\nnn.Linear.forward = wider(nn.Linear.forward)", 1.9997),
        ("nn.Linear.forward = wider(nn.Linear.forward)\nnet = Net()", 1.9997),
        ("nn.Linear.forward = holding(wider(nn.Linear.forward))\nnet = Net()", 9.0231),
        (LINEAR + "\nnn.Layer.__call__ = holding(nn.Layer.__call__)", 9.0231),
        (LINEAR + "\nold = nn.Linear.forward\nnn.Linear.forward = holding(old)\n"
         "nn.Linear.forward = old", 1.9997),
        (LINEAR + "\nnn.Layer.forward = holding(nn.Linear.forward)", 1.9997),
        ("class Fat(nn.Linear):\n    def forward(self, x):\n        return super().forward(x) * 2\n"
         "net = Fat(64, 1000)\nnn.Linear.forward = wider(nn.Linear.forward)", 2.4879),
        ("class Fat(nn.Linear):\n    def forward(self, x):\n"
         "        return nn.Linear.forward(self, x).exp()\nnet = Fat(64, 1000)", 1.9997),
        ("old = nn.Linear.__init__\ndef init(self, a, b):\n    old(self, a, 4 * b)\n"
         "nn.Linear.__init__ = init\nnet = nn.Linear(64, 1000)", 7.9048),
        (HELD + ADAM + "\nopt.step = holding(opt.step)", 10.9755),
        (HELD + "paddle.optimizer.Adam.step = holding(paddle.optimizer.Adam.step)", 10.9755),
    ],
)  # fmt: skip
def test_a_replaced_method_is_what_runs(scan: Scan, script: str, real: float) -> None:
    assert peak(scan, training(script)) == pytest.approx(real, rel=0.001)


@pytest.mark.parametrize(
    ("script", "step", "real"),
    [
        ("paddle.optimizer.Adam.step = holding(paddle.optimizer.Adam.step)",
         "loss.backward(); scaler.step(opt); scaler.update()", 10.9755),
        ("paddle.optimizer.Adam.minimize = holding(paddle.optimizer.Adam.minimize)",
         "loss.backward(); scaler.minimize(opt, loss)", 10.9755),
        ("paddle.Tensor.backward = holding(paddle.Tensor.backward)", STEP, 11.0067),
    ],
)  # fmt: skip
def test_a_replaced_step_runs_from_wherever_it_is_called(
    scan: Scan, script: str, step: str, real: float
) -> None:
    script = f"{HELD}scaler = paddle.amp.GradScaler(enable=False)\n{script}"
    assert peak(scan, training(script, step)) == pytest.approx(real, rel=0.001)


@pytest.mark.parametrize(
    ("script", "forward", "real"),
    [
        ("F.relu = wider(F.relu)\nnet = Net()", "F.relu(self.fc(x))", 2.9762),
        ("paddle.nn.functional.relu = wider(F.relu)\nnet = Net()", "nn.ReLU()(self.fc(x))", 2.9762),
        (
            "setattr(paddle, 'exp', wider(paddle.exp))\nnet = Net()",
            "paddle.exp(self.fc(x))",
            2.9762,
        ),
        ("paddle.Tensor.tanh = wider(paddle.tanh)\nnet = Net()", "self.fc(x).tanh()", 2.9762),
        ("paddle.Tensor.twice = wider(paddle.exp)\nnet = Net()", "self.fc(x).twice()", 2.9762),
    ],
)
def test_a_replaced_function_is_what_runs(
    scan: Scan, script: str, forward: str, real: float
) -> None:
    assert peak(scan, training(script, forward=forward)) == pytest.approx(real, rel=0.001)


@pytest.mark.parametrize(
    ("script", "forward", "why"),
    [
        ("F.linear = holding(F.linear)\nnet = Net()", "self.fc(x)", "script replaces"),
        ("paddle.Tensor.__add__ = lambda self, other: self.exp().exp()\nnet = Net()",
         "self.fc(x) + 1", "Tensor.__add__ is replaced"),
        ("net = Net()\nnet.fc.weight.exp = lambda: paddle.ones([1024, 1024])",
         "self.fc.weight.exp() + x.sum()", "exp of one tensor is replaced"),
        ("import something\nnet = Net()\nnet.fc.forward = something.made(net)", "self.fc(x)",
         "something"),
    ],
)  # fmt: skip
def test_what_runs_instead_and_is_not_followed_has_no_estimate(
    scan: Scan, script: str, forward: str, why: str
) -> None:
    found = scan(training(script, forward=forward)).estimate(backend="cpu")
    assert found.memory is None
    assert any(why in one.reason for one in found.unknowns)
