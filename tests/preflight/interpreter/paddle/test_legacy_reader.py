"""Readers of the older kind: `paddle.batch` around functions that give samples."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

SCRIPT = """
import numpy as np
import paddle
import paddle.nn as nn

def reader():
    for place in range(1000):
        yield np.random.rand(3, 16, 16).astype("float32"), place % 10

net = nn.Sequential(nn.Flatten(), nn.Linear(768, 10))
opt = paddle.optimizer.Adam(parameters=net.parameters())
for batch in {batches}:
    x = paddle.to_tensor(np.stack([one[0] for one in batch]))
    y = paddle.to_tensor(np.array([one[1] for one in batch]).reshape(-1, 1))
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
HAND_MADE = "[[next(iter(reader())) for _ in range(32)] for _ in range(3)]"


@pytest.mark.parametrize(
    "batches",
    [
        "paddle.batch(reader, batch_size=32)()",
        "paddle.batch(reader, 32, drop_last=True)()",
        "paddle.batch(paddle.reader.shuffle(reader, buf_size=500), batch_size=32)()",
        "paddle.batch(paddle.reader.buffered(paddle.reader.firstn(reader, 300), 8), 32)()",
        "paddle.batch(paddle.reader.map_readers(lambda s: s, reader), 32)()",
        "paddle.batch(paddle.reader.xmap_readers(lambda s: s, reader, 4, 100), 32)()",
        "paddle.batch(paddle.reader.chain(reader, reader), 32)()",
        "paddle.batch(paddle.reader.compose(reader), 32)()",
    ],
)
def test_batches_of_a_reader(scan: Callable[..., Analysis], batches: str) -> None:
    found = scan(SCRIPT.format(batches=batches)).estimate(backend="cpu")
    plain = scan(SCRIPT.format(batches=HAND_MADE)).estimate(backend="cpu")
    assert found.memory is not None, found.unknowns
    assert found.batch_size == 32
    assert found.memory == plain.memory


def test_the_batch_of_a_reader_can_be_another(scan: Callable[..., Analysis]) -> None:
    analysis = scan(SCRIPT.format(batches="paddle.batch(reader, batch_size=32)()"))
    other = scan(SCRIPT.format(batches="paddle.batch(reader, batch_size=80)()"))
    assert analysis.estimate(80, backend="cpu").memory == other.estimate(backend="cpu").memory
