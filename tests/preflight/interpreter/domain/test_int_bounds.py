"""How many segments or nodes there are: the largest number that an array can hold, and one more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
SCRIPT = """
import numpy as np
import paddle
import paddle.nn as nn

N = 400
{ids}
ids = paddle.to_tensor(ids) if not isinstance(ids, paddle.Tensor) else ids
net = nn.Linear(16, 8)
opt = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(3):
    out = net(paddle.randn([1200, 16]))
    out = {pooled}
    loss = (out * out).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
EXACT = "ids = np.repeat(np.arange(N), 3)"


@pytest.mark.parametrize(
    "ids",
    [
        EXACT,
        "ids = np.random.randint(0, N, size=1200)",
        "ids = np.random.default_rng(0).integers(0, N, 1200).astype('int64')",
        "ids = np.sort(np.concatenate([np.arange(N), np.random.randint(0, N, 800)]))",
        "both = np.stack([np.random.randint(0, N, 1200), np.repeat(np.arange(N), 3)])\n"
        "both = paddle.to_tensor(both)\nids = both[1]",
        "ids = paddle.randint(0, N, [1200])",
        "order = np.random.permutation(1200)\nids = np.repeat(np.arange(N), 3)[order]",
        "ids = np.random.RandomState(0).choice(N, 1200)",
        "ids = np.concatenate([np.full(3, one) for one in range(N)])",
        "ids = (np.arange(1200) + 7) % N",
        "ids = np.arange(1200) // 3",
        "parts = []\nfor one in range(0, N, 4):\n    parts.append(np.arange(12) // 3 + one)\n"
        "ids = np.concatenate(parts)",
        "ids = np.repeat(np.random.permutation(N // 2) * 2, 6) + 1",
    ],
)
def test_segments_are_counted_by_the_largest_number(scan: Scan, ids: str) -> None:
    found, plain = (
        scan(SCRIPT.format(ids=one, pooled="paddle.geometric.segment_sum(out, ids)"))
        .estimate(backend="cpu")
        for one in (ids, EXACT)
    )  # fmt: skip
    assert found.memory is not None, found.unknowns
    assert plain.memory is not None
    # The numbers themselves may be held twice, sliced or cast.
    assert abs(found.memory.activations_mib - plain.memory.activations_mib) < 0.03


def test_segments_of_numbers_from_a_file_are_not_guessed(scan: Scan) -> None:
    ids = "ids = np.load('graph.npy')"
    pooled = "paddle.geometric.segment_sum(out, ids)"
    assert scan(SCRIPT.format(ids=ids, pooled=pooled)).estimate(backend="cpu").memory is None


def test_the_largest_number_is_known_where_all_are(scan: Scan) -> None:
    ids = EXACT.replace("ids", "ids = known", 1)
    found, plain = (
        scan(SCRIPT.format(ids=ids, pooled=f"net(paddle.zeros([{rows}, 16]))"))
        .estimate(backend="cpu")
        for rows in ("int(known.max()) + 1", "400")
    )  # fmt: skip
    assert found.memory is not None
    assert found.memory == plain.memory
