"""One run of another vendor's tool: a program with a deadline and a bounded output.

Imported only on a host that has such a tool: what it imports takes a tenth of the agent's start.
"""

import base64
import json
import os
import select
import signal
import subprocess
import time
import zlib
from typing import Dict, List, Tuple

from gpuconsole.remote.agent.programs import FailureError, program_path

DEADLINE_S = 10.0
"""A sound tool takes a second or two, the slowest five."""
LIMIT = 1 << 20
"""Bytes of output that are kept."""


def run(argv: List[str], path: str) -> Tuple[int, str, str]:
    """Return exit status, output, and the last words of a program; FailureError if it hangs."""
    # `timeout` ends a hanging tool also when this agent is gone by then.
    limiter = program_path("timeout", os.environ.get("PATH", os.defpath))
    guarded = [limiter, "-s", "KILL", "%d" % DEADLINE_S] if limiter else []
    name = os.path.basename(argv[0])
    # Before `timeout` begins to count: a tool that hangs is never ended by it first.
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            guarded + argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=dict(os.environ, LC_ALL="C", PATH=path),
            start_new_session=True,
        )
    except OSError as error:
        raise FailureError("%s cannot be started: %s" % (name, error)) from error
    out, err = _output(child, began + DEADLINE_S)
    if time.monotonic() - began >= DEADLINE_S:
        _kill(child)
        text = "%s did not answer within %d s and was ended" % (name, DEADLINE_S)
        raise FailureError(text, child.pid)
    # One that closed its output and lives on, or prints without end, is of no use either.
    try:
        status = child.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        status = _kill(child)
    words = (err.strip() or out.strip())[-300:].decode("utf-8", "replace")
    return status, out.decode("utf-8", "replace"), words


def _output(child: "subprocess.Popen[bytes]", deadline: float) -> Tuple[bytes, bytes]:
    """Read both outputs until they close, `deadline` passes or there is too much."""
    assert child.stdout is not None
    assert child.stderr is not None
    outputs = {child.stdout.fileno(): b"", child.stderr.fileno(): b""}
    reading = list(outputs)
    while reading:
        left = deadline - time.monotonic()
        ready, _, _ = select.select(reading, [], [], max(0.0, min(0.2, left)))
        # What a tool leaves running behind it may hold its output open for ever.
        if not ready and (left <= 0 or child.poll() is not None):
            break
        for stream in ready:
            data = os.read(stream, 65536)
            if not data:
                reading.remove(stream)
            outputs[stream] = (outputs[stream] + data)[:LIMIT]
        if len(outputs[child.stdout.fileno()]) >= LIMIT:
            break
    out, err = outputs[child.stdout.fileno()], outputs[child.stderr.fileno()]
    child.stdout.close()
    child.stderr.close()
    return out, err


def _kill(child: "subprocess.Popen[bytes]") -> int:
    """Kill a program and all that it started; return how it ended."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
        return child.wait(timeout=1.0)
    except (OSError, subprocess.TimeoutExpired):
        return -signal.SIGKILL


def alive(group: int) -> bool:
    """Tell whether a process of a group is still there."""
    try:
        # One that has ended is there until somebody asks how.
        os.waitpid(-group, os.WNOHANG)
    except OSError:
        pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def packed(texts: Dict[str, str]) -> str:
    """Return the texts as a line may carry them."""
    return base64.b64encode(zlib.compress(json.dumps(texts).encode("utf-8"), 6)).decode("ascii")
