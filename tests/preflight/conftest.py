"""Scripts written on the fly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpuconsole.preflight import Analysis, analyse

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
