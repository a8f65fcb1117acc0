"""Curves of training, read from the copied logs of jobs while they grow.

Of each log only what is new is read. The curves of an attempt that has ended lie beside its log as
a small file, made when they are asked for first.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconsole.core.file_trust import private
from gpuconsole.core.text import clean
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.log import LONGEST_LINE, Template, TrainingReader
from gpuconsole.core.training.stop_rules import Broken, Rule, Watch

CHUNK = 1 << 20
"""Bytes read at once: a second of work at most."""
MOST_LOGS = 64
"""Most logs with curves in memory."""
_LINE_BYTES = 4 * LONGEST_LINE
_BREAK = re.compile(rb"[\r\n]")
"""A bar is written over itself after a carriage return: each state of it is a line."""
_VERSION = 1


class TrainingLog:
    """The curves of one log file, which may grow. Reads only what is new."""

    def __init__(
        self, path: Path, templates: Sequence[Template] = (), rules: Sequence[Rule] = ()
    ) -> None:
        self.path = path
        self._templates = templates
        self.rules = rules
        self.broken: Broken | None = None
        """The first of the rules that the log breaks."""
        self._begin()

    def _begin(self) -> None:
        self.curves = Curves()
        self.size = 0
        """Bytes that were read."""
        self._reader = TrainingReader(self._templates)
        self._watches = [Watch(rule) for rule in self.rules]
        self._pending = b""

    def read_on(self, most: int = CHUNK) -> bool:
        """Read on by `most` bytes; True while there is more at once. A log that is not there is
        empty; OSError when it cannot be read."""
        try:
            with self.path.open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size < self.size:
                    self._begin()
                chunk = os.pread(file.fileno(), most, self.size)
        except FileNotFoundError:
            return False
        self.size += len(chunk)
        *lines, last = _BREAK.split(chunk)
        for line in lines:
            self._take(self._pending + line[:_LINE_BYTES])
            self._pending = b""
        self._pending = (self._pending + last[:_LINE_BYTES])[:_LINE_BYTES]
        return len(chunk) == most

    def close(self) -> None:
        """Read the last line, which has no end."""
        pending, self._pending = self._pending, b""
        self._take(pending)

    def _take(self, raw: bytes) -> None:
        if not raw:
            return
        reading = self._reader.read(clean(raw.decode("utf-8", "replace"), LONGEST_LINE))
        if reading is None:
            return
        self.curves.take(reading)
        step = self.curves.at if self.curves.axis == "step" else None
        for watch in self._watches:
            broken = watch.take(reading.values, step, self.curves.epoch)
            self.broken = self.broken or broken


class _Key(NamedTuple):
    """An attempt of a job."""

    job: str
    attempt: int
    rank: int


class TrainingLogs:
    """The curves of jobs' attempts, as screens and commands ask for them."""

    def __init__(self, patterns: Callable[[], Sequence[str]], *, writable: bool) -> None:
        """`patterns` are the own forms of lines in the settings; where not `writable` nothing is
        written beside logs."""
        self._patterns = patterns
        self._writable = writable
        self._logs: OrderedDict[_Key, TrainingLog] = OrderedDict()
        self._turn = asyncio.Lock()
        """Only one log is read at a time: it is work for the processor."""

    async def curves(
        self, job_id: str, attempt: int, path: Path, *, whole: bool, rank: int = 0
    ) -> Curves:
        """Return the curves of an attempt, read from its log as far as it is copied; `whole` says
        that nothing is added to it any more. OSError when it cannot be read."""
        async with self._turn:
            if whole:
                stored = await asyncio.to_thread(self._kept, path)
                if stored is not None:
                    return stored
            log = self._log(_Key(job_id, attempt, rank), path)
            while await asyncio.to_thread(log.read_on):
                pass
            if whole:
                log.close()
                if self._writable and log.size:
                    await asyncio.to_thread(self._keep, log)
            return log.curves

    def _log(self, key: _Key, path: Path) -> TrainingLog:
        log = self._logs.get(key)
        if log is None or log.path != path:
            log = TrainingLog(path, [Template(text) for text in self._patterns()])
        self._logs[key] = log
        self._logs.move_to_end(key)
        while len(self._logs) > MOST_LOGS:
            self._logs.popitem(last=False)
        return log

    def _kept(self, path: Path) -> Curves | None:
        """Return the curves of a log as they lie beside it; None where they are not those of the
        log as it is, and of these patterns."""
        try:
            size = path.stat().st_size
            document = json.loads(_beside(path).read_text("utf-8"))
            same = (document["version"], document["log_bytes"], document["patterns"])
            if same != (_VERSION, size, list(self._patterns())):
                return None
            return Curves.from_json(document["curves"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _keep(self, log: TrainingLog) -> None:
        document = {
            "version": _VERSION,
            "log_bytes": log.size,
            "patterns": list(self._patterns()),
            "curves": log.curves.as_json(),
        }
        path = _beside(log.path)
        fresh = path.with_suffix(f".{os.getpid()}.new")
        try:
            with open(fresh, "w", encoding="utf-8", opener=private) as file:
                json.dump(document, file, separators=(",", ":"), allow_nan=False)
            os.replace(fresh, path)
        except OSError:
            # A full disk: the log is read again the next time.
            fresh.unlink(missing_ok=True)


def _beside(log: Path) -> Path:
    return log.with_suffix(".curves.json")
