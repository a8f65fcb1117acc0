"""Programs in the meta tier against Paddle's own allocator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.meta import meta_programs
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]
HIGHER = {"evaluated": 1.25}
"""By case: how much more may be told. A program writes sums and activations in place of what they
are made of."""


BY_CHANCE = 0.005
"""Which part of a peak Paddle's threads decide, from process to process: of one program the
smallest of 60 steps was 5,288,024 bytes, as told, in one process of five, and up to 5,312,600 in
others."""
MORE = 3
"""Further measurements where a peak seems too large: a thread may be late in each step."""


@pytest.fixture(scope="module")
def peaks() -> dict[str, dict[str, int]]:
    """Peaks in bytes by way of running and case."""
    found = {way: peaks_of(way) for way in ("real", "meta")}
    real, told = found["real"], found["meta"]
    for _ in range(MORE):
        late = [name for name in meta_programs.CASES if told[name] < (1 - BY_CHANCE) * real[name]]
        if not late:
            break
        for name, again in peaks_of("real", *late).items():
            real[name] = min(real[name], again)
    return found


def peaks_of(way: str, *cases: str) -> dict[str, int]:
    """Return the peak of each case in bytes, or of some."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/real/meta/meta_programs.py"), way, *cases],
        capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", meta_programs.CASES)
def test_a_program_holds_what_paddle_holds(peaks: dict[str, dict[str, int]], name: str) -> None:
    real, told = peaks["real"][name], peaks["meta"][name]
    assert (1 - BY_CHANCE) * real <= told <= HIGHER.get(name, 1.001) * real
