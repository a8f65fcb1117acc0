"""What projects with registries and augmentations do: functions drawn at random, rates of layers
that `linspace` spaces, decorated methods that call `super()`, a `forward` set on the object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.preflight import Analysis, analyse
from gpuconsole.preflight.memory.liveness import peak
from gpuconsole.preflight.tiers.static_run import Outcome

Write = Callable[..., Path]

SCRIPT = """
import random
import numpy as np
import paddle
from paddle import nn
from PIL import Image

{before}

class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        img = np.zeros((24, 24, 3), "uint8")
        {sample}
        return img.transpose((2, 0, 1)).astype("float32"), i % 2
    def __len__(self):
        return 1000

{net}
opt = paddle.optimizer.SGD(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=8):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
NET = "net = nn.Sequential(nn.Flatten(), nn.Linear(1728, 2))"
TWO = """
class Flip:
    def __call__(self, img):
        return img[:, ::-1]
class Shift:
    def __init__(self, by): self.by = by
    def __call__(self, img):
        return img + {shift}
"""


def text(before: str = "", sample: str = "pass", net: str = NET) -> str:
    """Return a script that trains, with more code at three places."""
    return SCRIPT.format(before=before, sample=sample.replace("\n", "\n        "), net=net)


def read(write: Write, script: str) -> Analysis:
    """Read a script."""
    return analyse(write(script))


def peak_of(outcome: Outcome) -> float:
    """Return the peak of a script that is followed to its steady state."""
    assert not outcome.blocked, outcome.unknowns
    return peak(outcome.trace).total


@pytest.fixture
def plain(write: Write) -> float:
    """The peak of the script without anything more."""
    return peak_of(read(write, text()).outcome(None, "cpu"))


@pytest.mark.parametrize(
    ("before", "sample"),
    [
        (TWO.format(shift="0"), "img = random.choice([Flip(), Shift(2)])(img)"),
        (
            TWO.format(shift="0"),
            "for op in np.random.choice([Flip(), Shift(1), Flip()], 2):\n    img = op(img)",
        ),
        (
            TWO.format(shift="0") + "ops = {Flip(): 0.5, Shift(1): 0.5}\nops[None] = 1 - 1.0",
            "op = random.choices(list(ops), weights=list(ops.values()), k=1)[0]\n"
            "img = op(img) if op else None",
        ),
        (
            "",
            "if random.random() < 1.0:\n    img = img + img\nelse:\n    img = np.zeros((9, 9, 3))",
        ),
        ("", "if np.random.rand() >= 1:\n    img = np.zeros((9, 9, 3))"),
        (
            "import cv2",
            "img = np.array(Image.fromarray(cv2.imread(str(i))).resize((24, 24)))",
        ),
    ],
)
def test_what_is_drawn_gives_a_picture_of_one_size(
    write: Write, plain: float, before: str, sample: str
) -> None:
    found = read(write, text(before, sample)).outcome(None, "cpu")

    assert peak_of(found) == plain
    assert not found.bound
    assert not found.faults


def test_functions_of_which_each_gives_another_shape_tell_no_shape(write: Write) -> None:
    before = "def crop(img): return img[:8]\ndef keep(img): return img"

    found = read(write, text(before, "img = random.choice([crop, keep])(img)"))

    assert found.outcome(None, "cpu").blocked
    assert not found.outcome(None, "cpu").faults


RATES = """
class Block(nn.Layer):
    def __init__(self, rate):
        super().__init__()
        if rate > {limit}:
            self.part = nn.Linear(1728, 2)
        else:
            self.part = nn.Sequential(nn.Linear(1728, 64), nn.Linear(64, 2))
    def forward(self, x):
        return self.part(x.flatten(1))
rates = {rates}
net = Block(rates[1:3][0])
"""


@pytest.mark.parametrize(
    "rates",
    [
        "np.linspace(0, 0.3, 4)",
        "[one.item() for one in paddle.linspace(start=0, stop=0.3, num=4)]",
        "[float(one) for one in paddle.linspace(0, 0.3, 4)]",
        "[one.numpy() for one in paddle.linspace(0, 0.3, 4)]",
        "paddle.linspace(0, 0.3, 4).tolist()",
    ],
)
@pytest.mark.parametrize("limit", [0.05, 0.15])
def test_rates_of_layers_decide_what_layers_there_are(
    write: Write, rates: str, limit: float
) -> None:
    outcome = read(write, text(net=RATES.format(limit=limit, rates=rates))).outcome(None, "cpu")

    # The second rate is 0.1: above one limit, below the other.
    assert not outcome.blocked
    assert not outcome.bound
    assert sum(one.kind == "Linear" for one in outcome.layers.values()) == 1 + (limit > 0.1)


@pytest.mark.parametrize(
    "change",
    [
        "numbers[1] = 9", "numbers.set_value(more)", "numbers.fill_(9)", "numbers.add_(more)",
        "numbers[1] += 9",
    ],
)  # fmt: skip
def test_numbers_that_are_written_over_are_not_known(write: Write, change: str) -> None:
    net = (
        f"more = paddle.ones([4])\nnumbers = paddle.linspace(0, 0.3, 4)\n{change}\n"
        "net = nn.Sequential(nn.Flatten(), nn.Linear(1728, 2 if numbers[1].item() < 1 else 500))"
    )

    assert read(write, text(net=net)).outcome(None, "cpu").bound


@pytest.mark.parametrize("change", ["numbers[1] = 9", "numbers.fill(9)", "numbers[1] += 9"])
def test_arrays_that_are_written_over_are_not_known(write: Write, change: str) -> None:
    net = (
        f"numbers = np.linspace(0, 0.3, 4)\n{change}\n"
        "net = nn.Sequential(nn.Flatten(), nn.Linear(1728, 2 if numbers[1] < 1 else 500))"
    )

    assert read(write, text(net=net)).outcome(None, "cpu").bound


DECORATED = """
def kept(function):
    def wrapper(self, x):
        return function(self, x)
    return wrapper
class First(nn.Layer):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(1728, 2)
    def forward(self, x):
        return self.line(x.flatten(1))
class Second(First):
    @kept
    def forward(self, x):
        return super().forward(x)
net = Second()
"""
OWN_FORWARD = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(1728, 2)
        self.forward = self.{name}
    def {name}(self, x):
        return self.line(x.flatten(1))
    {more}
net = Net()
"""


@pytest.mark.parametrize(
    "net",
    [
        DECORATED,
        OWN_FORWARD.format(name="forward_slow", more=""),
        OWN_FORWARD.format(name="forward_slow", more="def forward(self, x):\n        return None"),
    ],
)
def test_methods_are_found_as_python_finds_them(write: Write, plain: float, net: str) -> None:
    found = read(write, text(net=net)).outcome(None, "cpu")

    assert peak_of(found) == pytest.approx(plain, rel=0.01)


def test_defining_functions_at_the_top_costs_one_step_each(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "\n".join(f"        x = x + {number}" for number in range(200))
    classes = "\n".join(f"class C{n}:\n    def run(self, x):\n{body}" for n in range(20))

    few = read(write, text()).outcome(None, "cpu").steps
    many = read(write, text(classes)).outcome(None, "cpu").steps

    assert many - few < 20 * 50


@pytest.mark.parametrize("change", ["img /= 255.0", "img -= np.array([0.5, 0.4, 0.3])"])
def test_arrays_keep_their_type_when_they_are_changed_in_place(
    write: Write, plain: float, change: str
) -> None:
    script = text(sample=f"img = img.astype('float32')\n{change}").replace('.astype("float32")', "")

    assert peak_of(read(write, script).outcome(None, "cpu")) == plain


MASKED = """img = cv2.imread(str(i))
mask = np.asarray(Image.open(str(i)))
if mask.shape[0] != img.shape[0]:
    mask = mask.no_such_method()
elif mask.shape[1] != img.shape[1]:
    mask = mask.no_such_method()
img, mask = cv2.resize(img, (24, 24)), cv2.resize(mask, (24, 24))
img = img + mask[:, :, None]"""
SQUARE = """img = cv2.imread(str(i))
img = cv2.resize(img, (24, 24)) if img.shape[0] != img.shape[1] else cv2.resize(img, (8, 8))"""


def test_a_picture_and_its_mask_are_taken_to_have_one_size(write: Write, plain: float) -> None:
    found = read(write, text("import cv2", MASKED)).outcome(None, "cpu")

    assert peak_of(found) == plain
    assert any("one size" in note for note in found.notes)


def test_a_picture_is_not_taken_to_be_a_square(write: Write) -> None:
    found = read(write, text("import cv2", SQUARE)).outcome(None, "cpu")

    assert found.blocked or found.bound
    assert not any("one size" in note for note in found.notes)


def test_an_optimizer_of_one_process_is_no_fleet(write: Write, plain: float) -> None:
    loop = "loss.backward()\n    opt.step()"
    fleet = (
        "loss.backward()\n    if isinstance(opt, paddle.distributed.fleet.Fleet):\n"
        "        opt = opt.user_defined_optimizer\n    opt.step()"
    )

    assert peak_of(read(write, text().replace(loop, fleet)).outcome(None, "cpu")) == plain
