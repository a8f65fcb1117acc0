"""One run of the script, in its own process: `probe.py --run`."""

from __future__ import annotations

import fractions
import json
import multiprocessing
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from .runs import forking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from .documents import Request

LONGEST_WHY = 200
"""Characters of an error that are told where the script broke off after its first steps."""


class Channel:
    """Where answers go. The script's own standard output and error are one other stream."""

    def __init__(self) -> None:
        self.reads: Any = None
        """What the script reads, once it runs."""
        self.out = os.fdopen(os.dup(1), "w")
        os.set_inheritable(self.out.fileno(), False)
        os.dup2(2, 1)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        self.place = 0
        """Which of the runs of one start this is."""
        self.told: Any = None
        """Where to tell the process that this one was copied from what it has to know."""
        self.seen: Any = None
        """Where the first of the runs leaves its blocks."""
        self.grows: Any = None
        """How much larger than in the first run blocks may be, where that is all that may differ
        for this run to be told of."""

    def say(self, message: Any) -> None:
        """Write one line."""
        if self.grows is not None and "run" in message:
            # Only its end is held against the first.
            return
        message["place"] = self.place
        if self.told is not None and "run" in message:
            if self.place == 0:
                self.seen.put(message["run"])
            told = json.dumps(forking.told_of(message["run"])) + "\n"
            os.write(self.told, told.encode())
        self.out.write(json.dumps(message, separators=(",", ":")) + "\n")
        self.out.flush()

    def end(self, message: Mapping[str, dict[str, int | str]]) -> None:
        """Write the last line and leave at once, running nothing more of the script."""
        alike = self._alike(message)
        if "run" in message:
            message["run"]["read"] = self.reads.told()
        if alike:
            self.say(message)
        # What the script forked would hold the stream open.
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(0 if "run" in message and alike else 1)

    def _alike(self, message: Any) -> bool:
        """Tell whether this run is told of; one that did as the first settles its numbers."""
        if self.grows is None:
            return True
        run, grows, self.grows = message.get("run"), self.grows, None
        if run is None or not self.seen.grown(run, grows):
            return False
        run["settled"] = True
        return True

    def progress(self, share: float, stage: str) -> None:
        """Tell how far the run is."""
        self.say({"progress": share, "stage": stage})

    def fail(
        self, kind: Any, message: object, file: Any = "", line: Any = 0, wordless: Any = False
    ) -> None:
        """End with an error; a wordless one has its reason in what the script printed last."""
        error = {"kind": kind, "message": message, "file": file, "line": line}
        self.end({"error": {**error, "wordless": True} if wordless else error})


def main() -> None:
    """Run the script of the request on standard input."""
    request = json.load(sys.stdin)
    channel = Channel()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0, closefd=False)
    channel.progress(0.02, "loading Paddle")
    meta = tensors_without_data() if request["mode"] == "meta" else None
    try:
        import paddle
    except ImportError as error:
        channel.fail("paddle", f"Paddle is not installed here: {error}")
    here = os.path.dirname(os.path.abspath(__file__))
    # Imported before the script's folder takes this one's place.
    from . import blame
    from .runs import project_copy, read_files
    from .standins import (
        devices_and_downloads,
        hub_files,
        made_up_lines,
        missing_files,
        missing_modules,
        older_versions,
        paddlenlp_datasets,
        saving,
        single_process,
    )
    from .training import batch_size, device_peaks, hooks, watched_loops

    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
    script = os.path.join(request["root"], request["script"])
    os.chdir(os.path.join(request["root"], request.get("cwd") or "."))
    if request.get("source"):
        project_copy.guard_links(request["source"])
    if meta is not None:
        # First, so that edited text is asked for first.
        watched_loops.install(request["root"])
    batch_size.install(request, paddle)
    devices_and_downloads.install(paddle, on_device=request["mode"] == "device")
    missing_modules.install(paddle, request["root"])
    hub_files.install()
    saving.install(paddle)
    paddlenlp_datasets.install()
    single_process.install(paddle, request["mode"])
    if request.get("source"):
        # Never in a project itself.
        missing_files.install(request["root"], request.get("outside", ()))
    if not request.get("image"):
        older_versions.install(request["root"])
        missing_modules.prefer_own(request["root"])
    if meta is not None:
        meta.hook.ready(paddle, request.get("operators", {}), request.get("backend", "gpu"))
        meta.script.answers.install(request["root"])
        numbered(meta, request)
        made_up_lines.NUMBER["of"] = lambda number: from_lines(meta, number, request["root"])
        session: Any = meta.script.session.Session(paddle, request, channel)
    else:
        watch = device_peaks if request["mode"] == "device" else hooks
        session = watch.Session(paddle, request, channel)
    session.install()
    channel.reads = read_files.Reads(request)
    sys.addaudithook(channel.reads.heard)
    forking.install(request, channel, lambda asked: numbered(meta, asked))
    try:
        start(script, request)
    except SystemExit as left:
        if left.code not in (None, 0):
            session.broke("it ended itself")
            kind, words = blame.doubted(f"The script ended itself: {left.code}", meta)
            file, line = blame.place(left, request["root"])
            channel.fail(kind, words, file, line, wordless=isinstance(left.code, int))
    except MemoryError:
        session.broke("its memory was not enough")
        traceback.print_exc()
        channel.fail("memory", "The sandbox's memory was not enough for this batch size.")
    except BaseException as error:
        session.broke(f"{type(error).__name__}: {str(error)[:LONGEST_WHY]}")
        traceback.print_exc()
        first = retried(error)
        found = blame.failure(first, meta, request["root"])
        channel.fail(*found, *blame.place(first, request["root"]))
    session.ended()


def numbered(meta: Any, request: Request) -> None:
    """Set what numbers of unknown data are in this run."""
    meta.state.STATE.number = request.get("number", 1)
    meta.state.STATE.counts = request.get("counts", "")
    part = request.get("part")
    meta.state.STATE.part = fractions.Fraction(1, part) if part else None


def from_lines(meta: Any, number: int, root: str) -> Any:
    """Return a number of a made-up line; a run that is given others divides from this here."""
    forking.reached()
    return meta.script.answers.made(number, root)


def retried(error: BaseException) -> BaseException:
    """Return the error that a script met each time it tried again, until Python ended that; a data
    set may take another sample in place of one that cannot be read."""
    while isinstance(error, RecursionError) and error.__context__ is not None:
        error = error.__context__
    return error


def tensors_without_data() -> ModuleType:
    """Install the tier `meta`, before Paddle is imported; return its package."""
    from .. import meta
    from ..meta import hook, state  # noqa: F401 - they are asked for by the package
    from ..meta.script import session  # noqa: F401

    hook.install()
    return meta


def start(script: str, request: Request) -> None:
    """Run the script as `python script args` would, typed in the working folder."""
    import types

    from .training import batch_size

    root = request["root"]
    sys.argv = batch_size.Words(os.path.relpath(script), request)
    sys.path.insert(0, os.path.dirname(script))
    # Last, as the folder of a package in development is.
    sys.path += [one for one in (root, os.path.join(root, "src")) if os.path.isdir(one)]
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    # Not `runpy`, which shows the script another name of itself than its user typed.
    exec(batch_size.code_of(script), module.__dict__)
