"""The shipped operator table against the installed Paddle, made anew by its own tool."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]
TOOL = Path(__file__).parents[3] / "tools" / "operator_table.py"


def test_the_shipped_table_is_what_paddle_shows() -> None:
    """Hooks, static graph and byte counters agree, and with them every row of the file."""
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    right, _, total = done.stdout.split()[:3]
    assert right == total
    assert int(total) > 150
