"""What scripts compute with gradients keeps them; callbacks of `fit` keep what they like.

The bytes were measured with Paddle 3.3.1 on a CPU, the most of several runs: a loader's thread is
sometimes a batch ahead.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TRAINING = """
import paddle
from paddle import nn
net = nn.Sequential(*[nn.Linear(200, 200) for _ in range(6)])
params = net.parameters()
k = []
{code}
opt = paddle.optimizer.SGD(parameters=net.parameters())
for i in range(10):
    loss = net(paddle.rand([4, 200])).mean()
    loss.backward()
    {each}
    opt.step()
    opt.clear_grad()
"""
FIT = """
import copy
import numpy as np
import paddle
from paddle import nn

class Points(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros([64], "float32"), np.int64(i % 10)
    def __len__(self):
        return 96

class Own(paddle.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.kept = []
    {code}

net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
model = paddle.Model(net)
model.prepare(paddle.optimizer.Adam(parameters=model.parameters()), nn.CrossEntropyLoss())
loader = paddle.io.DataLoader(Points(), batch_size=32)
model.fit(loader, epochs={epochs}, verbose=0, callbacks=[Own()])
"""


@pytest.mark.parametrize(
    ("each", "measured"),
    [
        ("norm = (params[0].grad ** 2).sum()", 2249616),
        ("norm = paddle.sqrt(sum((p.grad ** 2).sum() for p in params))", 3054420),
        ("norm = float((params[0].grad ** 2).sum())", 2115208),
    ],
)
def test_a_norm_of_gradients_holds_them_until_it_goes(scan: Scan, each: str, measured: int) -> None:
    estimate = scan(TRAINING.format(code="", each=each)).estimate(backend="cpu")
    assert estimate.memory is not None
    assert estimate.memory.tensors_peak_mib * 2**20 == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize(
    ("code", "each"),
    [
        ("", "k.append((params[0].grad ** 2).sum())"),
        ("params[2].register_hook(lambda grad: k.append(grad.norm()))", "pass"),
    ],
)
def test_norms_that_are_listed_hold_the_gradients_of_all_steps(
    scan: Scan, code: str, each: str
) -> None:
    estimate = scan(TRAINING.format(code=code, each=each)).estimate(backend="cpu")
    assert estimate.memory is None
    assert "memory grows by 0.15 MiB a step" in estimate.unknowns[0].reason


@pytest.mark.parametrize(
    ("code", "each", "measured"),
    [
        (
            "for p in params: p.register_hook(lambda g: paddle.clip(g, -0.1, 0.1))",
            "pass",
            3233608,
        ),
        (
            "def seen(g):\n    k[:] = [g.sum(1), g.shape.index(200)]\n"
            "params[0].register_hook(seen)",
            "pass",
            2116008,
        ),
        (
            "def look(layer, given, out):\n"
            "    out.register_hook(lambda g: k.append(float(g.mean([0, 1]))))\n"
            "net[2].register_forward_post_hook(look)",
            "pass",
            2115208,
        ),
    ],
)
def test_a_hook_sees_a_gradient_of_its_shape_and_what_it_gives_back_holds_it(
    scan: Scan, code: str, each: str, measured: int
) -> None:
    estimate = scan(TRAINING.format(code=code, each=each)).estimate(backend="cpu")
    assert not estimate.errors
    assert estimate.memory is not None
    assert estimate.memory.tensors_peak_mib * 2**20 == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize(
    ("each", "measured"),
    [
        ("for p in params: p.grad = paddle.zeros(p.shape)", 2115208),
        (
            "opt.clear_grad(set_to_zero=False)\n"
            "    flat = paddle.zeros([6 * 40200])\n"
            "    for i in range(6):\n"
            "        params[2 * i].grad = flat[i * 40200:i * 40200 + 40000].reshape([200, 200])",
            3076008,
        ),
    ],
)
def test_a_gradient_that_is_set_is_copied(scan: Scan, each: str, measured: int) -> None:
    estimate = scan(TRAINING.format(code="", each=each)).estimate(backend="cpu")
    assert estimate.memory is not None
    assert estimate.memory.tensors_peak_mib * 2**20 == pytest.approx(measured, rel=0.01)


EPOCH = "def on_epoch_end(self, epoch, logs=None): self.kept{} copy.deepcopy(net.state_dict())"


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        ("pass", 440780),
        (EPOCH.format(" ="), 517620),
        (
            "def on_train_begin(self, logs=None):\n"
            "        self.kept = [p.clone() for p in self.model.network.parameters()]",
            517616,
        ),
        (
            "def on_train_batch_end(self, step, logs=None):\n"
            "        if logs['loss'][0] > 1: self.kept.append(logs['loss'])",
            440780,
        ),
    ],
)
def test_what_callbacks_of_the_script_keep_is_counted(scan: Scan, code: str, measured: int) -> None:
    estimate = scan(FIT.format(code=code, epochs=3)).estimate(backend="cpu")
    assert estimate.memory is not None
    assert estimate.memory.tensors_peak_mib * 2**20 == pytest.approx(measured, rel=0.01)


def test_callbacks_that_keep_a_state_of_each_epoch_keep_as_many(scan: Scan) -> None:
    code = "def on_epoch_end(self, epoch, logs=None):\n" + (
        "        self.kept.append(copy.deepcopy(net.state_dict()))"
    )
    three = scan(FIT.format(code=code, epochs=3)).estimate(backend="cpu")
    assert three.memory is not None
    assert three.memory.tensors_peak_mib * 2**20 == pytest.approx(594460, rel=0.01)
    assert scan(FIT.format(code=code, epochs=90)).estimate(backend="cpu").memory is None
