"""The probe, whose runs begin in copies of a process that has Paddle imported.

`python forked_probe.py SOCKET` answers as `probe.py` does; the process to copy is asked at the
socket.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

PROBE = Path(__file__).parents[3] / "gpuconsole/preflight/probe/probe.py"


class Run:
    """A run of the probe in a copy: what of a child process the probe asks for."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        pass_fds: tuple[int, ...],
        **options: Any,
    ) -> None:
        sys.path.insert(0, str(Path(__file__).parents[3]))
        from tests.real.rig.forks import Copy, order_of_run

        del sys.path[0]
        assert list(command) == [sys.executable, str(PROBE), "--run"]
        assert options.pop("start_new_session")
        there, given = os.pipe()
        said, out = os.pipe()
        printed, err = os.pipe()
        order = {**order_of_run(env), "at": pass_fds}
        copy = Copy(PLACE, [there, out, err, *pass_fds], order)
        for file in (there, out, err):
            os.close(file)
        self.pid, self.wait = copy.pid, copy.wait
        self.stdin = os.fdopen(given, "w", encoding="utf-8")
        self.stdout, self.stderr = (
            os.fdopen(file, encoding="utf-8", errors=options["errors"]) for file in (said, printed)
        )


PLACE = sys.argv.pop()

if __name__ == "__main__":
    sys.path[0], sys.argv[0] = str(PROBE.parent), str(PROBE)
    spec = importlib.util.spec_from_file_location("probe", PROBE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    measure = module.load("measure")
    measure.starts.subprocess = SimpleNamespace(Popen=Run, PIPE=PIPE)
    measure.main()
