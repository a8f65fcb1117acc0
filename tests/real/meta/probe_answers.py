"""What the probe says of a script, and what a script really does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpuconsole.preflight.probe import measure
from gpuconsole.preflight.tiers import probe_request
from tests.real.rig import forks
from tests.waiting import DEADLINE_S


def said(question: Any, *words: str) -> Any:
    """Return the last line that the probe answers a question with; `--run` asks for one run. Runs
    begin with Paddle imported."""
    env = measure.environment(question)
    done = forks.asked(question, env, *words, timeout=10 * DEADLINE_S)
    return json.loads(done.stdout.splitlines()[-1])


def said_afresh(question: Any, *words: str) -> Any:
    """The same, asked as a process of its own that starts others."""
    done = subprocess.run(
        [sys.executable, str(probe_request.PROBE / "probe.py"), *words], input=json.dumps(question),
        capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def really(text: str, *args: str, cwd: Path | None = None, way: str = "paddle") -> str:
    """Return what a program prints that begins with Paddle imported, as it is or for the tier."""
    done = forks.run("-c", text, *args, cwd=cwd, way=way, timeout=10 * DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def really_afresh(text: str, *args: str, cwd: Path | None = None) -> str:
    """The same, in a process that imports Paddle itself."""
    done = forks.run_afresh("-c", text, *args, cwd=cwd, timeout=10 * DEADLINE_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def peak(run: Any) -> int:
    """Return the peak of a run in bytes."""
    live = most = 0
    for event in run["events"]:
        live += run["sizes"][event] if event >= 0 else -run["sizes"][~event]
        most = max(most, live)
    return most
