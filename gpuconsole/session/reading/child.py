"""The process that reads scripts: it takes questions from a pipe and answers them, one at a time.

It never runs what it reads. Its limits are for scripts that make the reading itself endless: it
is ended by them, or by the process that asks, and another one takes its place.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import resource
import traceback
from pathlib import Path
from typing import Any

from gpuconsole.errors import ConsoleError
from gpuconsole.session.reading import frames, records
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.questions import Question
from gpuconsole.session.reading.shared_position import Trail

READY = b"ready"
_FILES = 128
"""Files that may be open at once."""
_MOST_ASKED = 2**30
"""Bytes of a question: recordings are the largest part of one."""
_MOST_NEW = 1_000_000
"""Objects that are made before garbage is looked for. The syntax trees of a project are half a
million, and stay; what following a script once leaves behind is a few ten thousand, about 5 MB."""


def main(trail: int, memory_mib: int, cpu_s: int) -> None:
    """Answer questions until there are no more.

    `trail` is a descriptor of shared memory that says where reading is. `memory_mib` bounds this
    process, `cpu_s` the processor time of each answer. Garbage is not looked for before that.
    """
    asked, answers = _pipes()
    # What the first question needs is imported before it comes, and before no files may be
    # written: else what Python compiles is lost, and compiled again by every process.
    from gpuconsole.preflight import report_builder  # noqa: F401

    # What is imported stays, and need not be walked over again and again.
    gc.freeze()
    gc.set_threshold(_MOST_NEW)
    gc.enable()
    _limit(memory_mib)
    place = Trail(trail)
    analyses = Analyses(place)
    frames.send(answers, READY)
    while (message := frames.receive(asked, _MOST_ASKED)) is not None:
        _allow(cpu_s)
        place.clear()
        folder, question = pickle.loads(message)
        with contextlib.suppress(OSError):
            # Scripts may be named relative to where the user is.
            os.chdir(folder)
        frames.send(answers, _answered(question, analyses))


def _answered(question: Question[object], analyses: Analyses) -> bytes:
    """Return an answer, an error for the user, or why reading ended, as JSON."""
    try:
        said: dict[str, Any] = {"answer": records.plain(question.answer(analyses))}
    except ConsoleError as error:
        texts = (error.title, error.message, error.hint)
        said = {"error": [type(error).__name__, *map(records.plain, texts)]}
    except MemoryError:
        analyses.clear()
        said = {"ended": "memory"}
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        said = {"ended": f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}"}
    said["used_mib"] = _peak_mib()
    return json.dumps(said, separators=(",", ":")).encode()


def _peak_mib() -> int:
    """Return the most memory (MiB) that this process has held; 0 where the system does not say.

    `getrusage` would count what its parent held when it started this process.
    """
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    return 0


def _pipes() -> tuple[int, int]:
    """Return descriptors of their own for questions and answers: nothing else writes to them."""
    pipes = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return pipes


def _limit(memory_mib: int) -> None:
    """Bound what this process may use; it writes no files and starts no processes."""
    for what, most in (
        (resource.RLIMIT_AS, memory_mib * 2**20),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # Some systems know a limit and do not let it be set.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (least, least))


def _allow(cpu_s: int) -> None:
    """Give the next answer its processor time; the system ends the process after that."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = int(used.ru_utime + used.ru_stime) + cpu_s
    if hard == resource.RLIM_INFINITY or most <= hard:
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))
