"""Read scripts in a process that watches itself: which files it opens, and what else it tries.

    python -m benchmarks.preflight.watched < PATHS

For each path on standard input one JSON line: `{"path", "seconds", "outcome", "broken": [...]}`.
A script that takes longer than the limit (of processor time, as others may be at work beside it)
ends the process with the stack on standard error.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import sysconfig
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuconsole import preflight
from typing import Any

LIMIT_S = 60.0
"""Processor time; a deadline that only tells a hang."""
WAITING_S = 300.0
"""Time on the clock, for a script that hangs without working."""
READ_ONLY = {"open", "os.listdir", "os.scandir", "glob.glob", "glob.glob/2", "os.walk", "os.fwalk"}
FORBIDDEN = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.system",
             "os.fork", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
             "os.truncate", "os.chmod", "os.chown", "os.utime", "os.kill", "os.putenv", "os.chdir",
             "shutil.", "tempfile.", "urllib.", "ctypes.", "pickle.", "signal.", "_thread.",
             "pty.", "http.", "ftplib.", "smtplib.", "sqlite3.")  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What the present script may read, and what was done beyond that."""

    def __init__(self) -> None:
        code = Path(__file__).resolve().parents[2] / "gpuconsole"
        homes = {sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib")}
        self.own = [os.path.realpath(one) for one in (*homes, code, *sys.path[1:]) if one]
        self.own = [one for one in self.own if one != "/"]
        self.project = ""
        self.broken: list[str] = []
        self.on = False

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what an audit event does that reading a script must not do."""
        if not self.on:
            return
        if event.startswith(FORBIDDEN):
            self.broken.append(f"{event} {str(args)[:160]}")
        elif event in READ_ONLY and args and isinstance(args[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(args[0]))
            writes = event == "open" and bool((args[2] or 0) & WRITING)
            if writes or not self.allowed(path):
                self.broken.append(f"{event}{' for writing' if writes else ''} {path}")

    def allowed(self, path: str) -> bool:
        """Whether a file belongs to the project, or to Python and the program itself."""
        roots = (self.project, *self.own)
        return any(path == one or path.startswith(one + os.sep) for one in roots)


def read(path: Path) -> str:
    """Do what `gpuconsole preflight` does with a script at most; the outcome in a word or two."""
    from gpuconsole import preflight
    from gpuconsole.core.jobs import Task
    from gpuconsole.errors import ConsoleError

    # Cards so small that most jobs fit on none: what would help is worked out too.
    cards = [preflight.Card("Card", "host", "gpu", 1000.0 + one) for one in range(4)]
    try:
        analysis = preflight.analyse(path, (), project=path.parent)
        task = Task("job", script=str(path))
        estimate = preflight.report(task, cards, analysis=analysis).estimate
        analysis.explain()
        if estimate.batch_size:
            analysis.estimate(estimate.batch_size + 1, backend="cpu")
        if found := mishaps(analysis):
            return f"CRASH {found[0][:120]}"
    except ConsoleError as error:
        if not (error.message and error.hint):
            return "CRASH an error without message or hint"
        return "refused"
    return "will-fail" if estimate.errors else estimate.tier


def mishaps(analysis: preflight.Analysis) -> tuple[str, ...]:
    """Return the errors of the analysis itself, which are reported to users as unknowns."""
    return tuple(sorted({run.mishap for run in analysis._outcomes.values() if run.mishap}))


def outcome_of(path: Path, watch: Watch) -> str:
    """Return the outcome, or CRASH and where."""
    try:
        watch.on = True
        return read(path)
    except BaseException as fault:
        watch.on = False
        ours = [f for f in traceback.extract_tb(fault.__traceback__) if "gpuconsole" in f.filename]
        at = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        return f"CRASH {type(fault).__name__} at {at}: {str(fault)[:120]}"


def main() -> None:
    """Read each path on standard input."""
    watch = Watch()
    warm = Path(__file__).resolve().parents[2] / "gpuconsole" / "data" / "examples" / "mnist_cnn.py"
    read(warm)
    sys.addaudithook(watch.hook)
    faulthandler.register(signal.SIGPROF, chain=True)
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        watch.project, watch.broken = os.path.realpath(path.parent), []
        print(json.dumps({"path": str(path)}), flush=True)
        faulthandler.dump_traceback_later(WAITING_S, exit=True)
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
        start = time.process_time()
        outcome = outcome_of(path, watch)
        watch.on = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - start
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"path": str(path), "seconds": round(seconds, 3), "outcome": outcome,
                          "broken": watch.broken[:5]}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
