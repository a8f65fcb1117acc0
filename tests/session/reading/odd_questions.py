"""Questions that try the process that reads scripts: what no script should be able to do."""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import dataclass
from typing import Any, ClassVar

from gpuconsole.core.estimate import Unknown
from gpuconsole.errors import UsageError
from gpuconsole.session.reading.analyses import Analyses


@dataclass(frozen=True, slots=True)
class Odd:
    """A question that is answered by what its name says."""

    answers: ClassVar[Any] = dict[str, int]
    what: str

    def answer(self, analyses: Analyses) -> Any:
        """Do it."""
        return globals()[self.what](analyses)

    def unread(self, why: Unknown) -> Any:
        """Return why there is no answer."""
        return why


def number(analyses: Analyses) -> Any:
    return {"process": os.getpid()}


def frozen(analyses: Analyses) -> Any:
    """Hold the interpreter inside of one operation of C, after a statement of a script."""
    assert analyses._trail is not None
    analyses._trail("/project/train.py", 12)
    lists: list[Any] = [1]
    others: list[Any] = [1]
    for _ in range(60):
        lists, others = [lists, lists], [others, others]
    return {"equal": lists == others}


def asleep(analyses: Analyses) -> Any:
    signal.pause()


def hungry(analyses: Analyses) -> Any:
    return {"size": len(bytearray(2**40))}


def growing(analyses: Analyses) -> Any:
    kept = []
    while True:
        kept.append([0] * 2**20)


def crashing(analyses: Analyses) -> Any:
    ctypes.string_at(0)


def deep(analyses: Analyses) -> Any:
    return {"depth": 1 + deep(analyses)["depth"]}


def wrong(analyses: Analyses) -> Any:
    return {"text": "no number"}


def long(analyses: Analyses) -> Any:
    return {"0" * 2**20: 1}


def refused(analyses: Analyses) -> Any:
    raise UsageError("A title", "A message.", "A hint.")


def writing(analyses: Analyses) -> Any:
    print("nothing that is printed is an answer", flush=True)
    try:
        with open("/tmp/gpuconsole-odd", "w") as file:
            file.write("x" * 2**16)
    except OSError:
        return {"refused": 1}
    return {"refused": 0}


def descriptors(analyses: Analyses) -> Any:
    return dict.fromkeys(os.listdir("/proc/self/fd"), 0)


def folder(analyses: Analyses) -> Any:
    return {os.getcwd(): int(os.getsid(0) == os.getpid())}
