"""Evaluations after an epoch: their graphs live as long as Python holds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.preflight import Analysis, analyse

Scan = Callable[..., Analysis]
TRAINING = """
import numpy as np
import paddle
class Rows(paddle.io.Dataset):
    def __getitem__(self, place):
        return np.zeros([64], "float32"), 1
    def __init__(self, count=100000):
        self.count = count
    def __len__(self):
        return self.count
parts = [part for _ in range(8) for part in (paddle.nn.Linear(64, 64), paddle.nn.ReLU())]
net = paddle.nn.Sequential(*parts, paddle.nn.Linear(64, 10))
opt = paddle.optimizer.SGD(parameters=net.parameters())
rows = paddle.io.DataLoader(Rows(), batch_size=4096)
def evaluate():
    for x, y in rows:
        {body}
for epoch in range(3):
    for x, y in rows:
        loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
    {rest}
"""


def peak(scan: Scan, body: str, rest: str = "evaluate()") -> float:
    memory = scan(TRAINING.format(body=body, rest=rest)).estimate(backend="cpu").memory
    assert memory is not None
    return memory.tensors_peak_mib


def test_the_graph_of_an_evaluation_lives_on_while_the_next_batch_is_evaluated(scan: Scan) -> None:
    held = peak(scan, "loss = paddle.nn.functional.cross_entropy(net(x), y)")
    let_go = peak(scan, "float(paddle.nn.functional.cross_entropy(net(x), y))")
    # What each of eight layers makes, twice over.
    graph_mib = 8 * 4096 * 64 * 4 / 2**20
    assert held - let_go > graph_mib


def test_an_evaluation_of_one_batch_has_one_graph(scan: Scan) -> None:
    """Measured with Paddle 3.3.1: no second batch comes while the graph of the first lives on."""
    kept = "loss = paddle.nn.functional.cross_entropy(net(x), y)"
    let_go = "float(paddle.nn.functional.cross_entropy(net(x), y))"
    one = TRAINING.replace("in rows:\n        {body}", "in few:\n        {body}")
    one = one.replace(
        "def evaluate", "few = paddle.io.DataLoader(Rows(4096), batch_size=4096)\ndef evaluate"
    )
    peaks = [
        scan(one.format(body=body, rest="evaluate()")).estimate(backend="cpu").memory
        for body in (kept, let_go)
    ]
    assert peaks[0] is not None
    assert peaks[1] is not None
    assert peaks[0].tensors_peak_mib == pytest.approx(peaks[1].tensors_peak_mib, rel=0.02)


SIZES = """
import numpy as np
import paddle
{numbers}
class Rows(paddle.io.Dataset):
    def __getitem__(self, place):
        return np.zeros([64], "float32"), 1
    def __len__(self):
        return 100000
net = paddle.nn.Linear(64, 64)
opt = paddle.optimizer.SGD(parameters=net.parameters())
rows = paddle.io.DataLoader(Rows(), batch_size={trained})
held_out = paddle.io.DataLoader(Rows(), batch_size={evaluated})
for epoch in range(3):
    for x, y in rows:
        loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
    for x, y in held_out:
        float(paddle.nn.functional.cross_entropy(net(x), y))
"""


OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--train_batch_size", type=int, default=4096)
parser.add_argument("--test_batch_size", type=int, default=4096)
args = parser.parse_args()
"""
SETTINGS = """
import yaml
args = yaml.safe_load(open("sizes.yaml"))
"""


@pytest.mark.parametrize(
    ("numbers", "trained", "evaluated", "follows"),
    [
        ("SIZE = 4096", "SIZE", "SIZE", True),
        ("SIZE = 4096", "SIZE", "int(str(SIZE))", True),
        ("", "4096", "4096", True),
        ("", "4096", "2048", False),
        (OPTIONS, "args.train_batch_size", "args.train_batch_size", True),
        (OPTIONS, "args.train_batch_size", "args.test_batch_size", False),
        (SETTINGS, "args['train']", "args['train']", True),
        (SETTINGS, "args['train']", "args['test']", False),
    ],
)
def test_an_evaluation_keeps_a_batch_size_that_has_a_setting_of_its_own(
    tmp_path: Path, numbers: str, trained: str, evaluated: str, follows: bool
) -> None:
    """Who changes the batch size of training leaves the other number as it is."""
    script = tmp_path / "train.py"
    script.write_text(SIZES.format(numbers=numbers, trained=trained, evaluated=evaluated))
    (tmp_path / "sizes.yaml").write_text("train: 4096\ntest: 4096\n")
    memory = analyse(script).estimate(8, backend="cpu").memory
    assert memory is not None
    batch_mib = 2048 * 64 * 4 / 2**20
    assert (memory.tensors_peak_mib < batch_mib) is follows


@pytest.mark.parametrize(
    "test",
    [
        "epoch > 20",
        "epoch % settings['every'] == 0 and epoch > settings['from']",
        "settings['evaluates'] and epoch > settings.get('from', 0)",
        "epoch > settings['nested']['from']",
    ],
)
def test_evaluations_that_begin_with_a_later_epoch_are_seen(scan: Scan, test: str) -> None:
    """The numbers of the test may stand in a dictionary, as settings do."""
    settings = "settings = {'every': 1, 'from': 20, 'evaluates': True, 'nested': {'from': 20}}"
    body = "loss = paddle.nn.functional.cross_entropy(net(x), y)"
    text = TRAINING.format(body=body, rest=f"if {test}: evaluate()")
    text = text.replace("for epoch in range(3):", f"{settings}\nfor epoch in range(1, 31):")
    memory = scan(text).estimate(backend="cpu").memory
    assert memory is not None
    assert memory.tensors_peak_mib == pytest.approx(peak(scan, body), rel=0.02)


KEPT = """
import paddle
parts = [part for _ in range(8) for part in (paddle.nn.Linear(64, 64), paddle.nn.ReLU())]
net = paddle.nn.Sequential(*parts, paddle.nn.Linear(64, 10))
opt = paddle.optimizer.SGD(parameters=net.parameters())
for epoch in range(3):
    for turn in range(4):
        loss = net(paddle.ones([256, 64])).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
    checked = net(paddle.ones([2048, 64])).mean()
"""


def test_what_an_evaluation_keeps_is_there_in_the_next_epoch(scan: Scan) -> None:
    """Peaks in MiB of Paddle 3.3.1's CPU allocator; without a graph the first epoch is like all."""
    kept = scan(KEPT).estimate(backend="cpu").memory
    assert kept is not None
    assert kept.tensors_peak_mib == pytest.approx(9.7589, rel=0.001)
