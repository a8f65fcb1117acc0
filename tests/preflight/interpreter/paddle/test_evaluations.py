"""Evaluations after an epoch: their graphs live as long as Python holds them."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TRAINING = """
import numpy as np
import paddle
class Rows(paddle.io.Dataset):
    def __getitem__(self, place):
        return np.zeros([64], "float32"), 1
    def __len__(self):
        return 100000
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
