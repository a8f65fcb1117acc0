"""`gpuconsole dispatch` as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.command_line import Lab
from tests.waiting import DEADLINE_S


def test_dispatch_ends_cleanly_on_sigterm(lab: Lab, tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "gpuconsole", "dispatch", *lab, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert child.stderr is not None
    assert "Dispatching" in child.stderr.readline()
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    assert json.loads(out)["stopped"] is True
    assert "Traceback" not in err
