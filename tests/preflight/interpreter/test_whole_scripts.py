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


WRITTEN = (
    HEAD + "net = nn.Linear(3, 5)\nqueue = paddle.zeros([64, 3])\nat = paddle.zeros([1])\n" + LOOP
)


def test_a_slice_is_as_wide_as_its_ends_are_apart(scan: Callable[..., Analysis]) -> None:
    kept = "    i = int(at[0])\n    queue[i:i + 8] = paddle.randn([8, 3])\n"
    found = scan(WRITTEN + kept).estimate(backend="cpu")
    assert bytes_of(found) == bytes_of(scan(WRITTEN.replace("at =", "i = 0\nat =") + kept.replace(
        "int(at[0])", "0")).estimate(backend="cpu"))  # fmt: skip
    wrong = scan(WRITTEN + kept.replace("[8, 3])\n", "[7, 3])\n")).estimate(backend="cpu")
    assert wrong.errors[0].shapes == ((7, 3), (8, 3))


def test_a_number_that_nobody_knows_may_be_below_0(scan: Callable[..., Analysis]) -> None:
    other = "    i = int(at[0])\n    if i >= 0:\n        more = paddle.zeros([100, 100])\n"
    small = bytes_of(scan(WRITTEN).estimate(backend="cpu"))
    assert bytes_of(scan(WRITTEN + other).estimate(backend="cpu")) > small
    never = WRITTEN + other.replace("i >= 0", "i < 0")
    assert bytes_of(scan(never).estimate(backend="cpu")) > small


def test_a_script_that_gives_up_on_a_bad_loss_goes_on_with_a_good_one(
    scan: Callable[..., Analysis],
) -> None:
    small = bytes_of(scan(WRITTEN).estimate(backend="cpu"))
    for test in ("not math.isfinite(float(loss))", "math.isnan(loss)", "np.isnan(loss.item())",
                 "loss.item() > 100"):  # fmt: skip
        leave = f"    if {test}:\n        sys.exit(1)\n"
        assert bytes_of(scan("import math, sys" + WRITTEN + leave).estimate(backend="cpu")) == small
    raised = "    if loss.item() > 100:\n        sys.exit(1)\n    else:\n        raise ValueError\n"
    assert scan("import sys" + WRITTEN + raised).estimate(backend="cpu").memory is None


def test_all_names_of_a_library_module_can_be_taken(scan: Callable[..., Analysis]) -> None:
    plain = bytes_of(scan(WRITTEN).estimate(backend="cpu"))
    many = "from paddle.nn import *\nfrom paddle.vision.models import *\n"
    text = many + WRITTEN.replace("nn.Linear(3, 5)", "Linear(3, 5)")
    assert bytes_of(scan(text).estimate(backend="cpu")) == plain
    net = "net = resnet18(num_classes=5)\n" + LOOP.replace("[8, 3]", "[2, 3, 64, 64]")
    assert scan(many + HEAD + net).estimate(backend="cpu").memory is not None


SAMPLES = """
from collections import namedtuple
from dataclasses import dataclass

{kind}

class Data(paddle.io.Dataset):
    def __init__(self):
        self.items = [Item(np.zeros([7, 3], "float32"), i) for i in range(500)]
    def __getitem__(self, i):
        return self.items[i]
    def __len__(self):
        return len(self.items)

def collate(items):
    return np.concatenate([one.a for one in items]), np.array([one.b for one in items])

net = nn.Linear(3, 5)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=8, shuffle=True, collate_fn=collate):
    F.cross_entropy(net(x).reshape([len(y), -1]), y).backward()
    opt.step()
    opt.clear_grad()
"""


def test_samples_of_a_class_of_the_script_have_its_fields(scan: Callable[..., Analysis]) -> None:
    kinds = (
        'Item = namedtuple("Item", "a b")',
        "@dataclass\nclass Item:\n    a: object\n    b: int",
        "class Item:\n    def __init__(self, a, b):\n        self.a, self.b = a, b",
    )
    sizes = {bytes_of(scan(HEAD + SAMPLES.replace("{kind}", one)).estimate(backend="cpu"))
             for one in kinds}  # fmt: skip
    assert len(sizes) == 1


def test_what_may_be_an_array_is_not_taken_for_a_number(scan: Callable[..., Analysis]) -> None:
    waves = """
import random
class Waves(paddle.io.Dataset):
    def __getitem__(self, i):
        wave = (i % 7) * np.load("waves.npy")
        return (paddle.multiply(paddle.ones([3]), wave) if flag else wave,)
    def __len__(self):
        return 100
for (x,) in paddle.io.DataLoader(Waves(), batch_size=8):
"""
    loop = LOOP.split("for")[0] + waves + LOOP.split(":\n")[1].replace("paddle.randn([8, 3])", "x")
    for flag in (True, False):
        text = HEAD + f"flag = {flag}\nnet = nn.Conv1D(1, 5, 3)\n" + loop
        found = scan(text).estimate(backend="cpu")
        assert not found.errors, found.errors
        assert found.memory is None


CROPPED = """
class Waves(paddle.io.Dataset):
    def __getitem__(self, i):
        n = int(100 * np.random.uniform(0.5, 2.0))
        wave = np.sin(np.arange(n) / 16).astype("float32") + np.zeros(n, "float32")
        wave = wave / np.abs(wave).max()
        if wave.shape[0] >= 100:
            start = np.random.randint(0, len(wave) - 100 + 1)
            wave = wave[start:start + 100]
        else:
            wave = np.pad(wave, (0, 100 - wave.shape[0]))
        return (WAVE,)
    def __len__(self):
        return 100
net = nn.Linear(100, 5)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for (x,) in paddle.io.DataLoader(Waves(), batch_size=8):
    net(x).sum().backward()
    opt.step()
    opt.clear_grad()
"""


def test_what_is_cut_or_padded_to_a_length_has_it(scan: Callable[..., Analysis]) -> None:
    text = HEAD + CROPPED.replace("WAVE", "wave")
    fixed = HEAD + CROPPED.replace("WAVE", 'np.zeros([100], "float32")')
    assert bytes_of(scan(text).estimate(backend="cpu")) == bytes_of(
        scan(fixed).estimate(backend="cpu"))  # fmt: skip


def test_an_open_length_never_becomes_a_size(scan: Callable[..., Analysis]) -> None:
    for made in ("np.zeros(n)", "np.ones([4, n]).T", "np.zeros([n, 5]).reshape(10, 50)",
                 "np.zeros(n).reshape(-1, 16)", "np.zeros(np.zeros([n, 2]).size // 7)",
                 "np.stack([np.zeros(n), np.zeros(7)])", "np.array([1.0 for _ in range(n)])",
                 "np.array([one for one in np.zeros(n)])", "np.zeros(n)[3:]"):  # fmt: skip
        text = CROPPED.replace("WAVE", f'{made}.astype("float32")').replace("100, 5", "7, 5")
        found = scan(HEAD + text).estimate(backend="cpu")
        assert not found.errors, (made, found.errors)
        assert found.memory is None, made


READ = """
class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        BODY
        return np.zeros([3], "float32"), LABEL
    def __len__(self):
        return 100
net = nn.Linear(3, 5)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=8):
    F.cross_entropy(net(x), y.flatten()).backward()
    opt.step()
    opt.clear_grad()
"""


def test_one_of_two_numbers_is_a_number(scan: Callable[..., Analysis]) -> None:
    def of(body: str, label: str) -> int:
        lines = body.replace("\n", "\n        ")
        text = "import random\n" + HEAD + READ.replace("BODY", lines).replace("LABEL", label)
        return bytes_of(scan(text).estimate(backend="cpu"))

    plain = of("pass", "np.array([i], dtype='int64')")
    drawn = "random.random() > 0.5"
    for body, label in (
        (f"one = 1 if {drawn} else 2", "np.array([one])"),
        (f"one = 1\nif {drawn}:\n    one = 2", "np.array([one])"),
        (f"def f():\n    if {drawn}:\n        return 1\n    return 2", "np.array([f()])"),
        ("one = [1, 2, 3].index(random.randint(1, 3))", "np.array([one])"),
        ("one = 'abc'.find(random.choice('abc'))", "np.array([one])"),
    ):
        assert of(body, label) == plain, body


def test_windows_over_a_series(scan: Callable[..., Analysis]) -> None:
    series = """
from numpy.lib.stride_tricks import sliding_window_view
w = sliding_window_view(np.zeros([100, 3], "float32"), 16, axis=0).transpose(0, 2, 1)
assert w.shape == (85, 16, 3)
net = nn.Linear(w.shape[-1], 5)
"""
    found = scan(HEAD + series + LOOP).estimate(backend="cpu")
    assert bytes_of(found) == bytes_of(
        scan(HEAD + "net = nn.Linear(3, 5)\n" + LOOP).estimate(backend="cpu"))  # fmt: skip


def test_a_picture_that_may_be_changed_keeps_its_size(scan: Callable[..., Analysis]) -> None:
    body = """
import random
from PIL import Image, ImageDraw
class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        img = Image.new("RGB", (6, 4))
        ImageDraw.Draw(img).text((0, 0), "a")
        if random.random() < 0.5:
            img = Image.fromarray(np.array(img))
        return (np.array(img).astype("float32"),)
    def __len__(self):
        return 100
net = nn.Linear(3, 5)
opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for (x,) in paddle.io.DataLoader(Data(), batch_size=8):
    net(x).sum().backward()
    opt.step()
    opt.clear_grad()
"""
    assert bytes_of(scan(HEAD + body).estimate(backend="cpu")) > 8 * 4 * 6 * 3 * 4
