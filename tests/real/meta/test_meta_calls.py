"""The meta tier against real runs: shapes and types of some 250 calls, forward and backward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]


def _run(way: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/real/meta/meta_calls.py"), way],
        capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_calls_without_data_give_the_shapes_and_types_of_real_ones() -> None:
    real, meta = _run("real"), _run("meta")
    assert len(real) > 200
    differing = {name: (real[name], meta[name]) for name in real if real[name] != meta[name]}
    assert not differing
