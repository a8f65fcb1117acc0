"""Other vendors' tools: run the commands that the console names, keep what they printed last.

Nothing is understood here; the console reads the text. A tool is a program, so it runs in a
thread of its own and seldom: the pause grows with what a round costs. One that does not answer in
time is killed; one that cannot be killed is waited for, never started twice.
"""

import os
import re
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from gpuconsole.remote.agent.programs import FailureError, program_path
from gpuconsole.remote.agent.watchdog import Values

SHARE = 0.1
"""Of the time that a tool may run."""
LONGEST_PAUSE_S = 60.0
LOOK_AGAIN_S = 60.0
"""Pause before a tool that is not there is looked for again."""
FOLDERS = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/hyhal/bin:/opt/rocm/bin"
    ":/opt/dtk/bin:/opt/maca/bin:/opt/mxdriver/bin:/usr/local/corex/bin:/usr/local/neuware/bin"
)
"""Where vendors put their tools; a program started over SSH does not see all of them."""
RETRY_ROUNDS = 3
"""Failures in a row after which another way to ask is looked for."""


class Tools(object):
    """Tools for the same cards, one family; `record` is replaced whole by each round."""

    def __init__(self, spec: Values, interval: float) -> None:
        self.name: str = spec["name"]
        self.record: Values = {}
        self._ways: List[Values] = spec["ways"]
        self._interval = interval
        self._path = "%s:%s" % (os.environ.get("PATH", ""), FOLDERS)
        self._settled: Optional[int] = None
        self._failures = 0
        self._hung = 0
        """The processes of a tool that was killed; the kernel may keep one that hangs in it."""
        self._printed: Dict[str, str] = {}
        """What each command of the way printed last, by its key."""
        self._head = ""
        """How the output of the way's first command begins."""
        self._rounds = 0
        thread = threading.Thread(target=self._run, name=self.name)
        thread.daemon = True
        thread.start()

    def _run(self) -> None:
        while True:
            taken, began = time.time(), time.monotonic()
            try:
                record = self._ask()
            except Exception as error:
                # Any failure costs only this round and is reported; the thread must continue.
                if not self.record:
                    self.record = {"w": 0, "t": taken, "m": machine()}
                record = self._record(x="%s: %s" % (self._tool(), error or type(error).__name__))
            pause = LOOK_AGAIN_S
            if record is not None:
                pause = pause_after(time.monotonic() - began, self._interval)
            elif self._settled is not None:
                record = self._record(x="%s is no longer there" % self._tool())
            elif self.record:
                # It was another vendor's tool of the same name.
                record = self._record()
            if record is not None:
                self.record = dict(record, t=round(taken, 3), m=machine())
            time.sleep(pause)

    def _record(self, **values: Any) -> Values:
        return dict(values, w=self.record["w"])

    def _tool(self) -> str:
        return str(self._ways[self.record["w"]]["tool"])

    def _ask(self) -> Optional[Values]:
        """Return what a round of the first way that works brought, else of the first that failed;
        None when no tool is here. A way that has worked is kept to while it does."""
        failed: Optional[Values] = None
        if self._hung and self._lives():
            return self._record(x="%s hangs and cannot be ended" % self._tool())
        for number, way in enumerate(self._ways):
            path = program_path(way["tool"], self._path)
            if path is None or self._settled not in (None, number):
                continue
            if not self.record:
                waiting = "%s has not answered yet" % way["tool"]
                self.record = {"w": number, "t": time.time(), "m": machine(), "x": waiting}
            try:
                status, words = self._commands(way, path)
            except FailureError as failure:
                record: Values = {"w": number, "x": str(failure)}
                self._hung = failure.group
                self._failures += 1
            else:
                if way["foreign"] and re.search(way["foreign"], self._head):
                    continue
                record = {"w": number, "s": status, "e": words, "o": self._packed()}
                self._failures = 0 if status == 0 else self._failures + 1
                if status == 0:
                    self._settled = number
            if self._settled == number and self._failures < RETRY_ROUNDS:
                return record
            self._settled = None
            failed = failed or record
            if self._hung:
                break
        return failed

    def _lives(self) -> bool:
        from gpuconsole.remote.agent.tool_runs import alive

        return alive(self._hung)

    def _packed(self) -> str:
        from gpuconsole.remote.agent.tool_runs import packed

        return packed(self._printed)

    def _commands(self, way: Values, path: str) -> Tuple[int, str]:
        """Run the commands that are due; return how the first ended, and its last words."""
        from gpuconsole.remote.agent.tool_runs import run

        if self._settled is None:
            self._rounds, self._printed = 0, {}
        ended, words = 0, ""
        for place, (key, every, argv) in enumerate(way["commands"]):
            if self._rounds % every:
                continue
            status, text, said = run([path] + argv[1:], self._path)
            if place == 0:
                ended, words = status, said
                self._head = text[:4096]
            self._printed.pop(key, None)
            if place == 0 or status == 0:
                self._printed[key] = text
        self._rounds += 1
        return ended, words


def pause_after(cost: float, interval: float) -> float:
    """Return how long a tool rests after a round of `cost` seconds."""
    return max(interval, min(LONGEST_PAUSE_S, cost / SHARE))


def machine() -> str:
    """Return a short word for this machine: cards of two hosts must not have one name."""
    try:
        with open("/etc/machine-id") as file:
            machine_id = file.read().strip()
    except OSError:
        machine_id = ""
    # Only where there is a tool: to import it takes as long as the rest of this module.
    import hashlib

    name = "%s %s" % (machine_id, os.uname()[1])
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
