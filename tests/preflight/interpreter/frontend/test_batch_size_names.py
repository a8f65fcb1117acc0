"""The batch size where the network sees other rows than samples: its name tells the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.preflight import analyse

Write = Callable[..., Path]
SCRIPT = """
import argparse
from dataclasses import dataclass
import numpy as np
import paddle

{head}

def batches(size):
    for _ in range(50):
        parts = [np.zeros((7, 16), 'float32') for _ in range(size)]
        yield np.concatenate(parts), np.zeros((size, 1), 'float32')

net = paddle.nn.Linear(16, 32)
opt = paddle.optimizer.Adam(parameters=net.parameters())
for nodes, y in batches({size}):
    out = net(paddle.to_tensor(nodes)).reshape([y.shape[0], -1]).mean(1, keepdim=True)
    loss = ((out - paddle.to_tensor(y)) ** 2).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


@pytest.mark.parametrize(
    ("head", "size"),
    [
        ("GRAPHS_PER_BATCH = 12", "GRAPHS_PER_BATCH"),
        ("@dataclass\nclass Config:\n    batch_size: int = 12\ncfg = Config()", "cfg.batch_size"),
        ("cfg = {'batch_size': 12}", "cfg['batch_size']"),
        ("def make(batch=12):\n    return batch", "make()"),
        ("p = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=12)\n"
         "a = p.parse_args()", "a.batch_size"),
    ],
)  # fmt: skip
def test_a_name_tells_the_batch_size(write: Write, head: str, size: str) -> None:
    analysis = analyse(write(SCRIPT.format(head=head, size=size)))
    own, twice = analysis.estimate(backend="cpu"), analysis.estimate(24, backend="cpu")
    assert own.batch_size == 12
    assert own.memory is not None
    assert twice.memory is not None
    again = analyse(write(SCRIPT.format(head=head.replace("12", "24"), size=size)))
    same = again.estimate(backend="cpu")
    assert same.batch_size == 24
    assert same.memory is not None
    assert twice.memory.tensors_peak_mib == same.memory.tensors_peak_mib
    assert twice.memory.tensors_peak_mib > own.memory.tensors_peak_mib
    assert analysis.line("cpu") is not None


def test_a_number_that_the_rows_do_not_go_with_is_no_batch_size(write: Write) -> None:
    head = "LOG_EVERY_BATCH = 3\ndef size():\n    return len('abc')"
    analysis = analyse(write(SCRIPT.format(head=head, size="size()")))
    assert analysis.estimate(backend="cpu").batch_size == 21
    assert analysis.estimate(42, backend="cpu").memory is None


def test_what_acts_without_gradients_is_no_batch_of_training(write: Write) -> None:
    script = write("""
    import paddle
    batch_size = 16
    net = paddle.nn.Linear(8, 4)
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    for turn in range(4):
        seen = []
        for _ in range(40):
            with paddle.no_grad():
                net(paddle.randn([1, 8]))
            seen.append([0.0] * 8)
        whole = paddle.to_tensor(seen)
        for start in range(0, 32, batch_size):
            loss = net(whole[start:start + batch_size]).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
    """)
    analysis = analyse(script)
    assert analysis.estimate(backend="cpu").batch_size == 16
    assert analysis.estimate(8, backend="cpu").memory is not None
