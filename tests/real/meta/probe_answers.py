"""What the probe says of a script, asked as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from gpuconsole.preflight.tiers import probe_request
from tests.waiting import DEADLINE_S


def said(question: Any, *words: str) -> Any:
    """Return the last line that the probe answers a question with; `--run` asks for one run."""
    done = subprocess.run(
        [sys.executable, str(probe_request.PROBE / "probe.py"), *words], input=json.dumps(question),
        capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def peak(run: Any) -> int:
    """Return the peak of a run in bytes."""
    live = most = 0
    for event in run["events"]:
        live += run["sizes"][event] if event >= 0 else -run["sizes"][~event]
        most = max(most, live)
    return most
