"""The command that a container runs, as an argument list."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Container
from pathlib import PurePosixPath

from gpuconsole.core.engines.terminals import JUPYTER, JUPYTER_PORT, PROGRAM, SESSION, SOCKET
from gpuconsole.core.jobs import Task
from gpuconsole.core.util.lazy_dataclass import dataclass

TERMINAL = (
    "/bin/sh",
    "-c",
    'if [ -t 0 ]; then for shell in "$SHELL" /bin/bash /bin/sh; do [ -x "$shell" ] && break; done;'
    ' "$shell" -i; exit 0; fi;'
    " for python in python3 python; do"
    ' "$python" -IS -c "import sys; sys.exit(sys.version_info < (3, 6))" 2>/dev/null &&'
    ' exec "$python" -IS "$@"; done; echo "The image has no Python 3.6 or later."; exit 127',
    "sh",
    PROGRAM,
    SOCKET,
)
"""What keeps the terminal of a session, whatever the image calls its Python. Where the engine keeps
it, as for an image without Python, the shell itself."""
NOTEBOOK = (
    "/bin/sh",
    "-c",
    'for python in python3 python; do "$python" -c "import jupyterlab" >/dev/null 2>&1 &&'
    ' exec "$python" -m jupyterlab "$@"; done; echo "The image has no JupyterLab."; exit 127',
    "sh",
    "--ServerApp.open_browser=False",
    "--ServerApp.ip=127.0.0.1",
    f"--ServerApp.port={JUPYTER_PORT}",
    "--ServerApp.port_retries=0",
    "--ServerApp.root_dir=/workspace",
)
"""JupyterLab, on the container's own loopback."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """The rendezvous of a gang, as seen by one of its hosts."""

    master: str
    """`address:port` of rank 0."""
    key: str
    """What tells this run from all others; alike on all its hosts."""
    hosts: int
    rank: int | str
    """A number, or the word for which another engine puts it."""
    address: str
    """The host's own, as the others reach it."""
    interface: str
    """The network interface that has this address."""


def launch_command(
    task: Task, devices: int, meeting: Meeting | None = None, *, python: str = "python"
) -> tuple[str, ...]:
    """Return the command for a task on a number of devices, of one host or of each.

    The script is named relative to the folder in which it starts, of the project's folders.
    Several devices go through Paddle's launcher, one process each; inside the container they
    count from 0, whatever their numbers on the host. The launcher receives its host's address: by
    default it resolves the host's name, which is 127.0.1.1 on many systems.
    """
    if task.kind == SESSION:
        return TERMINAL
    if task.kind == JUPYTER:
        return NOTEBOOK
    script = _inside(task)
    if devices <= 1 and meeting is None:
        return (python, script, *task.args)
    launcher: tuple[str, ...] = ("-m", "paddle.distributed.launch")
    if meeting is not None:
        launcher += ("--master", meeting.master, "--nnodes", str(meeting.hosts))
        launcher += ("--rank", str(meeting.rank), "--host", meeting.address)
        launcher += ("--job_id", meeting.key)
    numbers = ",".join(str(number) for number in range(max(1, devices)))
    return (python, *launcher, "--devices", numbers, script, *task.args)


FIRST_PORT, PORTS = 20000, 10000
"""Below the ports that Linux uses for outgoing connections (32768) and those in which Paddle's
launcher looks for its own (35100)."""


def meeting_port(key: str, busy: Container[int]) -> int:
    """Return the port for a gang: the same for the same key, but for ports that are taken."""
    start = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
    ports = (FIRST_PORT + (start + step) % PORTS for step in range(PORTS))
    return next((port for port in ports if port not in busy), FIRST_PORT + start % PORTS)


def _inside(task: Task) -> str:
    script = PurePosixPath(task.script)
    if task.project and script.is_relative_to(task.project):
        return posixpath.relpath(script.relative_to(task.project), task.folder or ".")
    return script.name if script.is_absolute() else str(script)
