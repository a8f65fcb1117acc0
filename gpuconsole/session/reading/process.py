"""One process that reads scripts, as the process that asks sees it."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.session.reading import forked, frames, records, shared_position
from gpuconsole.session.reading.questions import Question

_RETIRED_MIB = 1024
_RETIRED_AFTER = 500
"""A process that has grown beyond so much, or answered so often, makes room for another."""
_STARTING_S = 120.0
_ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONPATH")
_PACKAGE = Path(__file__).parents[3]
_START = """
import gc, sys
gc.disable()
sys.path[:] = {path!r}
from gpuconsole.session.reading.child import main
main({trail}, {memory_mib}, {cpu_s})
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading a script may take for one answer."""

    cpu_s: int = 60
    wall_s: float = 300.0
    memory_mib: int = 4096
    answer_mib: int = 16


class EndedError(Exception):
    """The process ended before it answered; says why, as the rest of a sentence."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Child:
    """One process that reads scripts."""

    def __init__(self, limits: Limits, *, copied: bool = False) -> None:
        """Start it; `copied` lets it be a copy of this process, where that is safe."""
        self.limits = limits
        self._ready = self._failed = False
        self._answered = 0
        self._used_mib = 0
        shared = shared_position.shared_memory()
        try:
            self._trail = shared_position.Trail(shared)
            self._process = _copy(shared, limits) if copied and forked.is_safe() else (
                _started(shared, limits))  # fmt: skip
        finally:
            os.close(shared)
        # It ends with its owner, also if that is not closed.
        weakref.finalize(self, self._process.kill)

    @property
    def is_spent(self) -> bool:
        """Whether it has ended, or another process should take its place."""
        grown = self._used_mib > _RETIRED_MIB or self._answered >= _RETIRED_AFTER
        return grown or self._failed or self._process.poll() is not None

    def ask(self, question: Question[object]) -> dict[str, object]:
        """Return what it says. EndedError when it ends, or has to be ended, before that."""
        message = pickle.dumps((_here(), question), pickle.HIGHEST_PROTOCOL)
        self._await_ready()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            frames.send(self._process.stdin.fileno(), message)
        self._failed = True
        message = self._next(self.limits.wall_s)
        try:
            said = records.read(dict[str, Any], json.loads(message))
            self._used_mib = records.read(int, said["used_mib"])
        except (ValueError, KeyError, RecursionError):
            raise EndedError("made an answer that is none") from None
        self._failed = False
        self._answered += 1
        return dict(said)

    def place(self) -> tuple[str, int]:
        """Return file and line of the statement that it followed last."""
        return self._trail.place()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()

    def close(self) -> None:
        """End it and give back what it had."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._trail.close()

    def _await_ready(self) -> None:
        if self._ready:
            return
        try:
            self._next(_STARTING_S)
        except EndedError as ended:
            raise UsageError(
                "Scripts cannot be read",
                msg("The process that reads them does not start: it {why}.", why=ended.why),
                msg(
                    "Try `{executable} -m gpuconsole preflight --help`; reinstall if that fails.",
                    executable=sys.executable,
                ),
            ) from None
        self._ready = True

    def _next(self, within_s: float) -> bytes:
        """Return the next message."""
        assert self._process.stdout is not None
        try:
            most = self.limits.answer_mib * 2**20
            message = frames.receive(self._process.stdout.fileno(), most, within_s)
        except frames.TooLateError:
            raise EndedError(msg("took more than {within_s} s", within_s=f"{within_s:g}")) from None
        except frames.TooLongError:
            raise EndedError("made an answer too long to pass on") from None
        if message is None:
            raise EndedError(self._end())
        return message

    def _end(self) -> str:
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            return f"took more than {self.limits.cpu_s} s of processor time"
        if code < 0:
            return f"ended its reader ({signal.Signals(-code).name})"
        return f"ended its reader (code {code})"


def _copy(shared: int, limits: Limits) -> forked.Forked:
    """Start it as a copy of this process, which has imported much of what it needs."""

    def work() -> None:
        from gpuconsole.session.reading import child

        gc.disable()
        child.main(shared, limits.memory_mib, limits.cpu_s)

    return forked.Forked(work, shared, _ENVIRONMENT, _path())


def _started(shared: int, limits: Limits) -> subprocess.Popen[bytes]:
    """Start it as a process of its own."""
    return subprocess.Popen(
        _command(shared, limits), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, pass_fds=(shared,), start_new_session=True, cwd="/",
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    )  # fmt: skip


def _path() -> list[str]:
    return [str(_PACKAGE), *(folder for folder in sys.path if os.path.isabs(folder))]


def _command(shared: int, limits: Limits) -> list[str]:
    """Return the command of a process that reads scripts.

    It imports from where this one does, and from nowhere that a script could lie.
    """
    start = _START.format(
        path=_path(), trail=shared, memory_mib=limits.memory_mib, cpu_s=limits.cpu_s
    )
    compiled = ["-B"] if sys.dont_write_bytecode else []
    if sys.pycache_prefix is not None:
        compiled += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    return [sys.executable, "-I", "-S", *compiled, "-c", start]


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
