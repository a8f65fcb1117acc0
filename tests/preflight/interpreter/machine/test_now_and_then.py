"""What comes only now and then in a loop over a loader, and what further turns leave behind.

The bytes were measured with Paddle 3.3.1 on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
LOADED = """
import numpy
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
class Rows(paddle.io.Dataset):
    def __init__(self, count):
        self.count = count
    def __getitem__(self, place):
        return numpy.zeros(784, "float32"), 1
    def __len__(self):
        return self.count
def training():
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return net, paddle.optimizer.Adam(1e-3, parameters=net.parameters())
def step(x, y):
    F.cross_entropy(net(x), y).backward()
    opt.step()
    opt.clear_grad()
"""
EVALUATED = """
def evaluate():
    outs = []
    with paddle.no_grad():
        for x, _ in paddle.io.DataLoader(Rows(4096), batch_size=1024):
            outs.append(net[0](x))
    return paddle.concat(outs).mean()
net, opt = training()
count = 0
for epoch in range(3):
    for x, y in paddle.io.DataLoader(Rows(1024), batch_size=64):
        {before}
        step(x, y)
        {after}
        if count % 20 == {rest}:
            evaluate()
"""
FOLDS = """
for fold in range({folds}):
    net, opt = training()
    for x, y in paddle.io.DataLoader(Rows(512), batch_size=64):
        step(x, y)
"""
ZIPPED = """
net, opt = training()
for epoch in range(3):
    few = paddle.io.DataLoader(Rows(512), batch_size=64)
    many = paddle.io.DataLoader(Rows({rows}), batch_size=64)
    for (x, y), (u, _) in zip(few, many):
        step(x, y)
"""


def peak(scan: Scan, text: str) -> int:
    memory = scan(LOADED + text).estimate(backend="cpu").memory
    assert memory is not None
    return round(memory.tensors_peak_mib * 2**20)


@pytest.mark.parametrize(("before", "after", "rest"), [
    ("count += 1", "pass", 0), ("pass", "count += 1", 0), ("pass", "count += 1", 13),
])  # fmt: skip
def test_what_a_counter_of_the_script_s_own_leads_to_is_followed(
    scan: Scan, before: str, after: str, rest: int
) -> None:
    """From 16.5 to 18.5 MiB were measured: how many batches wait rests on a thread."""
    text = EVALUATED.format(before=before, after=after, rest=rest)
    assert 19438788 <= peak(scan, text) <= 1.2 * 19438788


def test_networks_of_earlier_turns_stay_until_python_collects_them(scan: Scan) -> None:
    """Four folds were measured: by then the collector had taken one of the networks."""
    assert peak(scan, FOLDS.format(folds=4)) >= 11845200


def test_networks_of_more_turns_than_are_followed_are_unknown(scan: Scan) -> None:
    estimate = scan(LOADED + FOLDS.format(folds=40)).estimate(backend="cpu")
    assert estimate.memory is None
    assert "each epoch makes" in str(estimate.unknowns[0].reason)


def test_batches_that_wait_in_the_longer_of_two_zipped_loaders_add_up(scan: Scan) -> None:
    estimate = scan(LOADED + ZIPPED.format(rows=1024)).estimate(backend="cpu")
    assert estimate.memory is None
    assert "each epoch makes" in str(estimate.unknowns[0].reason)


def test_zipped_loaders_that_end_together_leave_nothing(scan: Scan) -> None:
    assert peak(scan, ZIPPED.format(rows=512)) == pytest.approx(6539464, rel=1e-3)
