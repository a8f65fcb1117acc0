"""Programs that begin with Paddle imported, or with what commands import: copies of one process for
each.

A process of its own takes more than a second to import Paddle, and half of one for a command, which
is most of what it does. No test of how a process starts runs in these. When Python looks for
garbage is not the same in a copy, nor which of several threads is first: a truth that hangs on
these is that of a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
SERVER = Path(__file__).with_name("copied.py")
MEASURED = Path(__file__).with_name("forked_probe.py")
PROBE = ROOT / "gpuconsole/preflight/probe/probe.py"
LENGTH = 8
ALONE: Mapping[str, str] = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
MOST = 3
"""Processes to copy that a worker keeps: each holds a third of a GB."""


class LostError(Exception):
    """The process to copy is gone."""


class Copy:
    """A program in a copy, which has a process id and ends as a child process does."""

    def __init__(
        self,
        place: str,
        files: Sequence[int],
        order: Mapping[str, Any],
    ) -> None:
        self._asked = socket.socket(socket.AF_UNIX)
        self._asked.connect(place)
        data = json.dumps(order).encode()
        # The network of the lab that a test is in: of this thread, not of its process.
        with open("/proc/thread-self/ns/net") as network:
            length = len(data).to_bytes(LENGTH, "little")
            socket.send_fds(self._asked, [length], [*files, network.fileno()])
        self._asked.sendall(data)
        self.pid = self._number()
        self._code: int | None = None
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended: the code, or the signal as a negative number."""
        with self._lock:
            if self._code is None:
                self._asked.settimeout(timeout)
                self._code = self._number()
                self._asked.close()
        return self._code

    def kill(self) -> None:
        """End it, with all that it started."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)

    def _number(self) -> int:
        data = self._asked.recv(LENGTH, socket.MSG_WAITALL)
        if len(data) < LENGTH:
            raise LostError
        return int.from_bytes(data, "little", signed=True)


class Server(NamedTuple):
    """A process to copy."""

    process: subprocess.Popen[bytes]
    folder: str

    @property
    def place(self) -> str:
        """Where it is asked."""
        return f"{self.folder}/s"

    @property
    def log(self) -> str:
        """What it printed."""
        return Path(self.folder, "log").read_text("utf-8", "replace")

    def end(self) -> None:
        """End it and its copies."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_LOCK = threading.Lock()
_SERVERS: dict[tuple[str, frozenset[tuple[str, str]]], Server] = {}


def server(way: str, env: Mapping[str, str]) -> Server:
    """Return the process to copy that imported Paddle in one way with an environment."""
    settled = {name: value for name, value in env.items() if matters(name)}
    with _LOCK:
        return _started((way, frozenset(settled.items())), env)


def _started(key: tuple[str, frozenset[tuple[str, str]]], env: Mapping[str, str]) -> Server:
    if key in _SERVERS:
        _SERVERS[key] = _SERVERS.pop(key)
        return _SERVERS[key]
    while len(_SERVERS) >= MOST:
        _SERVERS.pop(next(iter(_SERVERS))).end()
    folder = tempfile.mkdtemp(prefix="copies-")
    with socket.socket(socket.AF_UNIX) as listener, open(f"{folder}/log", "wb") as log:
        listener.bind(f"{folder}/s")
        listener.listen(8)
        process = subprocess.Popen(
            [sys.executable, str(SERVER), key[0], str(listener.fileno())], stdin=subprocess.PIPE,
            stdout=log, stderr=log, pass_fds=(listener.fileno(),), env={**env}, cwd="/",
            start_new_session=True,
        )  # fmt: skip
    _SERVERS[key] = Server(process, folder)
    return _SERVERS[key]


@atexit.register
def end() -> None:
    """End all of them."""
    while _SERVERS:
        _SERVERS.popitem()[1].end()


def matters(name: str) -> bool:
    """Tell whether a variable is one that a process is started for of its own: those that tests
    change between two starts do nothing to an import."""
    mine = ("XDG_", "PYTEST_", "GPUCONSOLE_", "TEXTUAL_")
    return name not in ("HOME", "LOGNAME", "USER", "LNAME") and not name.startswith(mine)


def run(
    *words: str,
    timeout: float,
    input: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    way: str = "paddle",
) -> subprocess.CompletedProcess[str]:
    """Run what `python` does with these words: `-c`, a text and its arguments, or a file and its
    arguments. It has no accelerator and one thread."""
    whole = {**os.environ, **ALONE, **(env or {})}
    if words[0] == "-c":
        argv, first, text, names = ["-c", *words[2:]], "", words[1], {"__name__": "__main__"}
    else:
        argv, first, text = [*words], str(Path(words[0]).parent), Path(words[0]).read_text()
        names = {"__name__": "__main__", "__file__": words[0]}
    names["__text__"] = text
    order = {
        "words": words, "argv": argv, "first": first, "names": names, "env": whole,
        "cwd": str(cwd or Path.cwd()), "at": [],
    }  # fmt: skip
    return finished(order, way, input, timeout)


def run_afresh(
    *words: str,
    timeout: float,
    input: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Do the same in a process of its own."""
    return subprocess.run(
        [sys.executable, *words], input=input, cwd=cwd, capture_output=True, text=True,
        timeout=timeout, check=False, env={**os.environ, **ALONE, **(env or {})},
    )  # fmt: skip


def typed(
    command: Sequence[str],
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command of the console, `python -m gpuconsole` and its words, with all that commands
    import imported already."""
    python, *words = command
    assert (python, *words[:2]) == (sys.executable, "-m", "gpuconsole")
    main, here = str(ROOT / "gpuconsole/__main__.py"), str(cwd or Path.cwd())
    order = {
        "words": words, "argv": [main, *words[2:]], "first": here, "cwd": here,
        "names": {"__name__": "__main__", "__file__": main}, "env": {**(env or os.environ)},
        "at": [],
    }  # fmt: skip
    return finished(order, "console", "", timeout)


def finished(
    order: Mapping[str, Any], way: str, input: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run an order to its end, as `subprocess.run` does."""
    chosen = server(way, {**order["env"], "PYTHONPATH": ""})
    ends = time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        given = stack.enter_context(tempfile.TemporaryFile("w+"))
        given.write(input)
        given.seek(0)
        streams = [Stream(), Stream()]
        files = [given.fileno(), *(stream.there for stream in streams)]
        try:
            copy = Copy(chosen.place, files, order)
        except LostError:
            raise AssertionError(chosen.log[-2000:]) from None
        finally:
            for stream in streams:
                stream.begin()
        try:
            code = copy.wait(timeout)
            out, err = (stream.whole(ends - time.monotonic()) for stream in streams)
        except TimeoutError:
            copy.kill()
            raise subprocess.TimeoutExpired(order["words"], timeout) from None
        return subprocess.CompletedProcess(order["words"], code, out, err)


class Stream:
    """What a program writes, read while it runs."""

    def __init__(self) -> None:
        here, self.there = os.pipe()
        self._file = os.fdopen(here)
        self._text: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)

    def begin(self) -> None:
        """Read: whoever writes has its own end."""
        os.close(self.there)
        self._reader.start()

    def whole(self, most_s: float) -> str:
        """Return all of it, once nobody can write more."""
        self._reader.join(max(0.0, most_s))
        if self._reader.is_alive():
            raise TimeoutError
        return self._text[0]

    def _read(self) -> None:
        with self._file:
            self._text.append(self._file.read())


def order_of_run(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the order for a run of the probe with an environment."""
    words = [str(PROBE), "--run"]
    names = {"__name__": "__main__", "__file__": words[0]}
    first, here = str(PROBE.parent), str(Path.cwd())
    return {
        "words": words, "argv": words, "first": first, "names": names, "env": {**env}, "cwd": here,
        "at": [],
    }  # fmt: skip


def asked(
    question: Any, env: Mapping[str, str], *words: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Answer a question as the probe does, but for how its runs begin: with an environment that is
    the one that it starts them in. `--run` asks for one run."""
    way = "probe" if question["mode"] == "meta" else "traced"
    if words:
        return finished(order_of_run(env), way, json.dumps(question), timeout)
    place = server(way, env).place
    return subprocess.run(
        [sys.executable, str(MEASURED), place], input=json.dumps(question), capture_output=True,
        text=True, timeout=timeout, check=False,
    )  # fmt: skip
