"""The demo in a real terminal: it opens at once, and its jobs come while one looks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.real.rig import terminal
from tests.real.rig.terminal import Terminal

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(terminal.why_not()), reason=terminal.why_not() or "-"),
]


def test_the_lab_is_there_before_its_jobs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuconsole", "demo", "--state", str(tmp_path / "state")]
    with Terminal(tmp_path, command, (120, 36)) as console:
        console.shows("SIMULATED", "a100-01", "A100-SXM4-40GB")
        console.press("2")
        console.shows("encoder-base", "too-big")
        console.press("1", "Enter", "Enter")
        console.shows("utilisation %, last 5 minutes", "limit 34.0 GiB")
        console.press("q")
        assert console.ended() == 0


def test_leaving_gives_up_the_jobs_that_were_still_to_come(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuconsole", "demo", "--state", str(tmp_path / "state")]
    with Terminal(tmp_path, command, (80, 24)) as console:
        console.shows("SIMULATED", "a100-01")
        console.press("q")
        assert console.ended() == 0
