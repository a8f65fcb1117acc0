"""How scripts train, feature by feature: the estimate against real Paddle on the CPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight import analyse
from tests.real import training_cases

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

# Runs every script in one process, one after the other, and prints the peak of each above what
# was alive before it.
HARNESS = """
import contextlib, gc, io, json, sys
import paddle
import paddle.base.core as core
for line in sys.stdin:
    name, text = json.loads(line)
    gc.collect()
    before = core.host_memory_stat_current_value("Allocated", 0)
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, name, "exec"), {"__name__": "__main__"})
    peak = core.host_memory_stat_peak_value("Allocated", 0)
    print(json.dumps([name, peak - before]), flush=True)
"""
TOLERANCE = 0.005
LOOSE = {
    # Paddle's second derivatives of a bias addition take copies that are not followed.
    "gradient-penalty": 0.06,
}


@pytest.fixture(scope="module")
def measured() -> dict[str, int]:
    """Peaks of all cases in bytes, measured in one child process."""
    lines = [json.dumps([name, training_cases.script(name)]) for name in training_cases.CASES]
    done = subprocess.run(
        [sys.executable, "-c", HARNESS], input="\n".join(lines), capture_output=True, text=True,
        timeout=170, check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    assert len(found) == len(lines), done.stderr[-2000:]
    return dict(found)


@pytest.mark.parametrize("name", list(training_cases.CASES))
def test_peak_equals_paddle(name: str, measured: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(training_cases.script(name))
    estimate = analyse(path).estimate(backend="cpu")
    assert estimate.memory is not None, estimate.unknowns
    got = estimate.memory.tensors_peak_mib * MIB
    assert got == pytest.approx(measured[name], rel=LOOSE.get(name, TOLERANCE))
