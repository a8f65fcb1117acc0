"""Processes that run the script: one start, with the answers of all runs that follow from it.

A process that has divided (see `forking`) waits for further requests, and does each in a copy of
itself: Paddle and the script's libraries are imported once for an answer, not once for a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, cast

from .forking import CHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import IO

    from ..documents import Answer, Request

    Forward = Callable[[float, str], None]
    """Hears how far a run is, from 0 to 1, and its stage."""

TAIL = 8000
"""Characters kept of what the script prints."""
LONGEST_ANSWER_S = 60.0
"""Longest time in which the last message of a process that has ended is read."""
PRINTED_S = 5.0
"""The same for what it printed: what it leaves behind may hold that stream open."""


class Start:
    """A process that runs the script."""

    def __init__(self, request: Request, command: list[str], environment: Mapping[str, str]):
        self.request: Request = {**request}
        self.printed: list[str] = []
        self.is_waiting = False
        """Whether it waits for a further request."""
        self._said: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        there, self._asks = os.pipe()
        sent = request if request["mode"] != "meta" else {**request, "further": there}
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            universal_newlines=True,
            errors="replace",
            start_new_session=True,
            pass_fds=(there,),
        )
        os.close(there)
        self._printing = threading.Thread(target=self._keep_tail, daemon=True)
        self._printing.start()
        for target in (self._listen, self._wait):
            threading.Thread(target=target, daemon=True).start()
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.write(json.dumps(sent))
            self._child.stdin.close()

    @property
    def code(self) -> int:
        """How it ended."""
        return self._child.wait()

    @property
    def tail(self) -> str:
        """The last of what was printed; of a process that has ended, all of that has come."""
        if not self.is_waiting:
            self._printing.join(PRINTED_S)
        return "".join(self.printed)[-TAIL:]

    def follows(self, request: Request) -> bool:
        """Tell whether a request can be done from here: it differs in no more than runs of one
        start may, and says all that this start was asked."""
        if not self.is_waiting:
            return False
        return _lasting(request) == _lasting(self.request)

    def ask(self, request: Request) -> None:
        """Ask for a further run."""
        self.is_waiting = False
        whole = cast("dict[str, object]", request)
        change = {name: whole.get(name) for name in CHANGED if name in {**whole, **self.request}}
        with contextlib.suppress(OSError):
            os.write(self._asks, (json.dumps(change) + "\n").encode())

    def answers(self, forward: Forward, most_s: float | None) -> tuple[list[Answer], bool]:
        """Return the last messages of its runs until it waits or has ended, and whether it was
        ended because it took longer than `most_s` seconds."""
        heard: dict[int, Answer] = {}
        ends = None if most_s is None else time.monotonic() + most_s
        late = False
        while True:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            try:
                message = self._said.get(timeout=left)
            except queue.Empty:
                if late:
                    break
                late, ends = True, time.monotonic() + LONGEST_ANSWER_S
                self._kill()
                continue
            if message is None:
                break
            if message.get("waits"):
                self.is_waiting = True
                break
            place = message.pop("place", 0)
            if "progress" in message:
                forward(place + message["progress"], message["stage"])
            else:
                heard[place] = message
        return [heard[place] for place in sorted(heard)], late

    def end(self) -> None:
        """End it, with all that it started."""
        self.is_waiting = False
        self._kill()
        with contextlib.suppress(OSError):
            os.close(self._asks)

    def _kill(self) -> None:
        with contextlib.suppress(OSError):
            # Processes that the script started hold its pipes open, and would run on.
            os.killpg(self._child.pid, signal.SIGKILL)

    def _wait(self) -> None:
        self._child.wait()
        self._kill()

    def _listen(self) -> None:
        """Follow what runs say to the end of the stream."""
        assert self._child.stdout is not None
        last = 0
        for line in self._child.stdout:
            try:
                message: Answer = json.loads(line)
            except ValueError as error:
                words = f"The measured process broke off: {error}"
                fault = {"kind": "script", "message": words, "file": "", "line": 0}
                message = cast("Answer", {"error": fault, "place": last})
            last = message.get("place", last)
            self._said.put(message)
        self._said.put(None)

    def _keep_tail(self) -> None:
        assert self._child.stderr is not None
        keep_tail(self._child.stderr, self.printed)


def command(folder: str) -> list[str]:
    """Return the command that starts a run; `folder` has the probe."""
    return [sys.executable, os.path.join(folder, "probe.py"), "--run"]


def _lasting(request: Request) -> dict[str, object]:
    """Return what of a request is the same for all runs of a start. The script's own batch size is
    not: the first run tells it."""
    lasting = {name: value for name, value in request.items() if name not in CHANGED}
    lasting.pop("ahead", None)
    batch = cast("dict[str, object]", request["batch"])
    lasting["batch"] = {name: value for name, value in batch.items() if name != "value"}
    return lasting


def keep_tail(stream: IO[str], tail: list[str]) -> None:
    """Read a stream to its end, keeping the last of it."""
    length = 0
    while True:
        text = stream.read(1024)
        if not text:
            return
        tail.append(text)
        length += len(text)
        while length - len(tail[0]) > TAIL:
            length -= len(tail.pop(0))
