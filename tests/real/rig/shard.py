"""A shard of the suite: one pytest-xdist worker in namespaces of its own.

Its network, mounts, process ids and System V objects are seen by this shard alone, so that two
shards may use the same addresses, links, ports and paths below `/run`. When its first process
ends, however it ends, the kernel ends all that the shard started and takes its mounts and links
away.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

APART = ("--net", "--mount", "--pid", "--ipc", "--mount-proc", "--fork", "--kill-child")
PREPARE = """
set -e
export GPUCONSOLE_TEMPORARY="$0" PATH="$PATH:/usr/sbin:/sbin"
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run
set +e
"$@"
exit $?
"""
"""Run by a shell that stays: as the first process it reaps what daemons leave to it."""


def why_not() -> str:
    """Return why no shard can have namespaces of its own here, or ""."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [name for name in ("setpriv", "unshare", "ip") if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)} not installed"
    probe = subprocess.run(["unshare", *APART, "true"], capture_output=True, check=False)
    return "" if probe.returncode == 0 else "namespaces cannot be made here"


def apart(temporary: str, program: Sequence[str] = (sys.executable,)) -> list[str]:
    """Return the command that runs a program in namespaces of its own.

    It is told of the folder for its temporary files, and ends with the process that started it.
    """
    # A run in the background may ignore some signals, and its programs would with it.
    alone = ["env", "--default-signal", "setpriv", "--pdeathsig", "KILL", "unshare", *APART]
    return [*alone, "sh", "-c", PREPARE, temporary, *program]


def python(temporary: str) -> str:
    """Return the same for the interpreter, as a line that execnet splits into words."""
    return shlex.join(apart(temporary))
