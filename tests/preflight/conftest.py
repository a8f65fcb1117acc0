"""Scripts written on the fly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.preflight import Analysis, analyse
from tests.preflight.forms import WHOLE, key

TRAINING = """
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros({sample}, "{dtype}"), np.int64(i % 10)
    def __len__(self):
        return 10000

{net}

net = Net()
opt = paddle.optimizer.{optimizer}(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=32):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a script and return its path."""

    def make(text: str, name: str = "train.py") -> Path:
        path = tmp_path / name
        path.write_text(dedent(text))
        return path

    return make


@pytest.fixture
def scan(write: Callable[..., Path]) -> Callable[..., Analysis]:
    """Analyse a script given as text."""

    def make(text: str, *args: str) -> Analysis:
        return analyse(write(text), args)

    return make


@pytest.fixture
def training() -> Callable[..., str]:
    """Return a whole training script around a class `Net`."""

    def make(
        net: str, sample: str = "(64,)", dtype: str = "float32", optimizer: str = "Adam"
    ) -> str:
        return TRAINING.format(net=dedent(net), sample=sample, dtype=dtype, optimizer=optimizer)

    return make


@pytest.fixture
def project(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Write files below a folder and return it."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return tmp_path

    return make


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., tuple[object, ...]]:
    """Estimate the plain script of a network's arguments and a batch size."""

    def make(arguments: str, batch: int) -> tuple[object, ...]:
        folder = tmp_path / "plain"
        folder.mkdir(exist_ok=True)
        (folder / "plain.py").write_text(f"{WHOLE}\nfit(Net({arguments}), {batch})\n")
        return key(analyse(folder / "plain.py").estimate(backend="cpu"))

    return make


@pytest.fixture
def same(
    project: Callable[..., Path], plain: Callable[..., tuple[object, ...]]
) -> Callable[..., Estimate]:
    """Hold a script against the plain one of the same width and batch size; also at another."""

    def check(text: str, width: int, batch: int, *args: str, **files: str) -> Estimate:
        root = project({"train.py": WHOLE + dedent(text), **files})
        analysis = analyse(root / "train.py", args)
        estimate = analysis.estimate(backend="cpu")
        assert key(estimate) == plain(f"{width}", batch)
        assert key(analysis.estimate(batch + 7, backend="cpu")) == plain(f"{width}", batch + 7)
        return estimate

    return check
