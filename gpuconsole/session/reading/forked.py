"""A reader that is a copy of the process that asks: what both import is imported once.

Only a command of one thread may be copied so, before it has opened what a copy must not share.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO

_UNSAFE = ("asyncio", "paddle", "torch", "numpy")
"""Modules that start threads, or hold devices or much memory: beside them nothing is copied."""


def is_safe() -> bool:
    """Whether this process can be copied: one thread, and no library that a copy would break."""
    alone = threading.active_count() == 1
    return sys.platform == "linux" and alone and not any(name in sys.modules for name in _UNSAFE)


class Forked:
    """A copy of this process, with the methods of `subprocess.Popen` that its owner needs."""

    def __init__(
        self,
        work: Callable[[], None],
        shared: int,
        environment: Sequence[str],
        path: Sequence[str],
    ) -> None:
        """Start it; `work` is all that it does. It shares only the descriptor `shared`, and has
        only the variables of this process that `environment` names."""
        questions, asking = os.pipe()
        answering, answers = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()
        self.pid = os.fork()
        if not self.pid:
            _become(work, (questions, answers), shared, environment, path)
        gc.unfreeze()
        os.close(questions)
        os.close(answers)
        self.stdin: BinaryIO = os.fdopen(asking, "wb", 0)
        self.stdout: BinaryIO = os.fdopen(answering, "rb", 0)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, None where it runs."""
        return self._ended(os.WNOHANG)

    def wait(self) -> int:
        """Return how it ended, once it has."""
        code = self._ended(0)
        assert code is not None
        return code

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _ended(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def _become(
    work: Callable[[], None],
    pipes: tuple[int, int],
    shared: int,
    environment: Sequence[str],
    path: Sequence[str],
) -> None:
    """Do the work in the copy, with nothing of the process that it was, and end."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for place, descriptor in enumerate((*pipes, nothing)):
            os.dup2(descriptor, place)
        os.closerange(3, shared)
        os.closerange(shared + 1, os.sysconf("SC_OPEN_MAX"))
        os.chdir("/")
        for name in [other for other in os.environ if other not in environment]:
            del os.environ[name]
        sys.path[:] = path
        sys.argv[:] = [""]
        work()
        code = 0
    finally:
        # Nothing that the process it was left to do at its end is done twice.
        os._exit(code)
