"""The meta tier against Paddle's own allocator: the same loops with data and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.meta import meta_cases
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]
ABOVE = {"sums_that_are_bent_three_times": 1.05, "differences_that_are_bent_three_times": 1.16}
"""Cases that may hold a few tensors more than with Paddle, which frees them within its kernels, and
how many times Paddle's peak at most."""


@pytest.fixture(scope="module")
def peaks() -> dict[str, dict[str, list[int]]]:
    """Peaks in bytes by way of running, case and step."""
    found = {}
    for way in ("real", "meta"):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/real/meta/meta_cases.py"), way],
            capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        found[way] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", [one.__name__ for one in meta_cases.CASES])
def test_memory_without_data_is_that_of_a_real_run(
    peaks: dict[str, dict[str, list[int]]], name: str
) -> None:
    wanted, got = peaks["real"][name], peaks["meta"][name]
    assert len(got) == len(wanted) == 3
    for real, meta in zip(wanted, got, strict=True):
        assert real * 0.999 <= meta <= real * ABOVE.get(name, 1.001)
