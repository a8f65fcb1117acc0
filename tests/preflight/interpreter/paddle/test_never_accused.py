"""What works in Paddle is never called wrong, however odd the call; `tests/real` runs the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.preflight import analyse
from tests.real.preflight.working_cases import CASES, script


@pytest.mark.parametrize(("call", "shape"), CASES, ids=[call for call, _ in CASES])
def test_a_working_call_is_no_fault(tmp_path: Path, call: str, shape: list[int]) -> None:
    path = tmp_path / "odd.py"
    path.write_text(script(call, shape), "utf-8")
    estimate = analyse(path, backend="cpu").estimate(backend="cpu")
    assert not estimate.errors, [error.message for error in estimate.errors]


@pytest.mark.parametrize("call", [
    "paddle.scatter(x, paddle.arange(2), paddle.rand([1, 4]))",
    "paddle.gather(x, paddle.zeros([2]))",
    "F.cross_entropy(x, paddle.zeros([2, 3], 'int64'))",
    "F.nll_loss(x, paddle.zeros([2, 1], 'int64'))",
    "x.masked_fill_(paddle.ones([5, 1], 'bool'), 0.0)",
    "x.reshape([0, 0, -1, 7])",
])  # fmt: skip
def test_a_call_that_fails_stays_a_fault(tmp_path: Path, call: str) -> None:
    path = tmp_path / "wrong.py"
    head = "import paddle\nimport paddle.nn.functional as F\n"
    path.write_text(f"{head}x = paddle.rand([3, 4])\ny = {call}\n", "utf-8")
    assert analyse(path, backend="cpu").estimate(backend="cpu").errors
