"""Networks that a script trains one after the other wait in cycles for Python's collector, held
against Paddle's own allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.estimate import Memory
from gpuconsole.core.units import MIB
from gpuconsole.preflight.tiers import measured, probe_request
from tests.real.meta.probe_answers import really_afresh, said

pytestmark = pytest.mark.real
SCRIPT = """
import gc
import paddle

{before}


def train(width):
    net = paddle.nn.Sequential(paddle.nn.Linear(64, width), paddle.nn.Linear(width, 64))
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    for _ in range(3):
        net(paddle.ones([4, 64])).mean().backward()
        adam.step()
        adam.clear_grad()


for width in (256, 32, 128, 64):
    train(width)
    {between}
"""
TOLD = """
from paddle.base import core
print(core.host_memory_stat_peak_value("Allocated", 0))
"""
LARGEST = 4 * (2 * 64 * 256 + 256 + 64)
"""Bytes of the parameters of the first network."""


def _both(tmp_path: Path, before: str, between: str) -> tuple[int, Memory]:
    """Return the peak of a real run in bytes, and what is estimated."""
    text = SCRIPT.format(before=before, between=between)
    script = tmp_path / "train.py"
    script.write_text(text)
    question: Any = probe_request.build(None, script, mode="meta", backend="cpu")
    memory = measured.load(said(question)["document"]).estimate(None, backend="cpu").memory
    assert memory is not None
    return int(really_afresh(text + TOLD).splitlines()[-1]), memory


def test_without_a_collector_all_of_them_stay(tmp_path: Path) -> None:
    truth, memory = _both(tmp_path, "gc.disable()", "pass")
    assert truth > 6 * LARGEST
    assert memory.tensors_peak_mib * MIB == pytest.approx(truth, abs=64)


def test_a_script_that_collects_holds_but_the_largest(tmp_path: Path) -> None:
    truth, memory = _both(tmp_path, "", "gc.collect()")
    assert truth < 6 * LARGEST
    assert memory.tensors_peak_mib * MIB == pytest.approx(truth, abs=64)


def test_whenever_python_collects_the_truth_is_in_the_range(tmp_path: Path) -> None:
    """When it does hangs on how many objects the script, its libraries and Paddle have made."""
    for before in ("gc.set_threshold(100)", "gc.set_threshold(10_000)"):
        truth, memory = _both(tmp_path, before, "pass")
        assert memory.low_mib * MIB <= truth <= memory.high_mib * MIB
