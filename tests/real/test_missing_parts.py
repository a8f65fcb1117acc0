"""Scripts whose libraries or data are not on this machine: measured all the same, or refused with
what is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight import measured
from tests.real.test_probe import messages

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

HEAD = """
import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F
"""
LOOP = """
net = nn.Sequential(nn.Flatten(), nn.Linear(48, 10))
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
def train(loader):
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
"""
SAMPLES = """
class Samples(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros([3, 4, 4], "float32"), np.int64(i % 10)
    def __len__(self):
        return 64
"""
LOGS = (
    HEAD
    + """
import nolib_progress
from nolib_board import Writer, BoardError
from nolib_board.utils.text import fmt as form
import nolib_plot.pyplot as plt
try:
    import nolib_optional
except ImportError:
    nolib_optional = None
try:
    from nolib_fused import layer
except Exception as error:
    layer = None
import importlib.util
assert nolib_optional is None and layer is None
assert importlib.util.find_spec("nolib_other") is None
class Watch(nolib_progress.Callback):
    def __init__(self):
        super().__init__("x")
        self.seen = 0
plt.figure(figsize=(3, 4)).add_subplot(111).plot([1, 2])
plt.rcParams["font.size"] = 3
@nolib_progress.timed
def square(x):
    return x * x
assert square(3) == 9
assert not isinstance(3, Writer)
"""
    + SAMPLES
    + LOOP
    + """
watch = Watch()
with Writer("logs") as writer:
    bar = nolib_progress.tqdm(paddle.io.DataLoader(Samples(), batch_size=8), desc="train")
    for number, (x, y) in enumerate(bar):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        writer.add_scalar("loss", loss, number)
        bar.set_postfix(loss=loss.item())
"""
)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(text: str) -> Path:
        script = tmp_path / "train.py"
        script.write_text(text)
        return script

    return written


def notes(script: Path) -> tuple[str, ...]:
    """Measure a script and return what its answer says of what was made up."""
    last = messages(script)[-1]
    assert "document" in last, last
    found = measured.load(last["document"])
    assert found.recording is not None
    estimate = found.estimate(16, backend="cpu")
    assert estimate.memory is not None
    return estimate.notes


def test_libraries_that_log_are_stood_in_for_and_named(write: Any) -> None:
    said = "\n".join(notes(write(LOGS)))
    assert "nolib_progress is not installed here" in said
    assert "nolib_board" in said
    assert "nolib_optional" not in said
    assert "nolib_fused" not in said


@pytest.mark.parametrize(
    "text",
    [
        "x = nolib_ops.rearrange(paddle.zeros([2, 3]), 'a b -> b a')\nx.shape",
        "net = nolib_ops.Net(12)\nnet(paddle.zeros([2, 3])).mean().backward()",
        "net = nn.Linear(3, nolib_ops.settings.width)",
        "net = nolib_ops.convert(nn.Linear(3, 3))\nnet(paddle.zeros([2, 3]))",
        "for name in nolib_ops.names(): pass",
        "x = paddle.to_tensor(nolib_ops.read('picture.jpg'))",
    ],
)
def test_a_library_that_decides_the_memory_is_needed_by_name(write: Any, text: str) -> None:
    error = messages(write(HEAD + "import nolib_ops\n" + text + "\n"))[-1]["error"]
    assert "nolib_ops" in error["message"]
    assert "installed here" in error["message"]
    assert "job's image" in error["message"]
