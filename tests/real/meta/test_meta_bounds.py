"""Results as long as data says: the meta tier's bound is never below what real data gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.real.meta import meta_bounds
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def shapes() -> dict[str, dict[str, Any]]:
    """Shapes by way of running, operator and draw."""
    found = {}
    for way in ("real", "meta"):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/real/meta/meta_bounds.py"), way],
            capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        found[way] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", meta_bounds.BOUNDED)
def test_a_bound_is_never_below_the_truth(shapes: dict[str, dict[str, Any]], name: str) -> None:
    for true, told in zip(shapes["real"][name], shapes["meta"][name], strict=True):
        assert isinstance(true, list)
        assert isinstance(told, list), told
        assert len(true) <= len(told)
        for one, other in zip(true, told, strict=False):
            assert len(one) == len(other)
            assert all(a <= b for a, b in zip(one, other, strict=True)), (true, told)


@pytest.mark.parametrize("name", meta_bounds.UNBOUNDED)
def test_what_has_no_bound_is_refused(shapes: dict[str, dict[str, Any]], name: str) -> None:
    for true, told in zip(shapes["real"][name], shapes["meta"][name], strict=True):
        assert isinstance(true, list)
        assert isinstance(told, str)
        assert told.startswith(("Unsupported: the size of what", "asked for a number")), told
