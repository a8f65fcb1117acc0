"""One run of the script, in its own process: `probe.py --run`."""

from __future__ import annotations

import fractions
import json
import multiprocessing
import os
import sys
import traceback
from typing import TYPE_CHECKING

from .runs import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from .documents import Answer, Fault, Request
    from .runs.read_files import Reads
    from .training import device_peaks, hooks

MOST_TESTS = 20
"""Places of tests that are reported with an error."""
LONGEST_WHY = 200
"""Characters of an error that are reported where the script broke off after its first steps."""


class Channel:
    """Where answers go. The script's own standard output and error are one other stream."""

    def __init__(self) -> None:
        self.reads: Reads | None = None
        """What the script reads, once it runs."""
        self.out = os.fdopen(os.dup(1), "w")
        os.set_inheritable(self.out.fileno(), False)
        os.dup2(2, 1)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        self.tests: Callable[[], Iterable[str]] | None = None
        """Returns where unknown data was tested, if tensors have none."""
        self.place = 0
        """Which of the runs of one start this is."""
        self.told: int | None = None
        """Where to tell the process that this one was copied from what it has to know."""
        self.seen: forking.Seen | None = None
        """Where the first of the runs leaves its blocks."""
        self.grows: float | None = None
        """How much larger than in the first run blocks may be, where that is all that may differ
        for this run to be reported."""

    def say(self, message: Answer) -> None:
        """Write one line."""
        if self.grows is not None and "run" in message:
            # Its end is held against the first; what began otherwise ends otherwise.
            if self.seen is None or not self.seen.begins(message["run"], self.grows):
                self.end({})
            return
        message["place"] = self.place
        if self.told is not None and "run" in message:
            if self.place == 0 and self.seen is not None:
                self.seen.put(message["run"])
            summary = json.dumps(forking.summary_of(message["run"])) + "\n"
            os.write(self.told, summary.encode())
        self.out.write(json.dumps(message, separators=(",", ":")) + "\n")
        self.out.flush()

    def end(self, message: Answer) -> None:
        """Write the last line and leave at once, running nothing more of the script."""
        alike = self._alike(message)
        if "run" in message and self.reads is not None:
            message["run"]["read"] = self.reads.told()
        if alike:
            self.say(message)
        # What the script forked would hold the stream open.
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(0 if "run" in message and alike else 1)

    def _alike(self, message: Answer) -> bool:
        """Tell whether this run is reported; one that did as the first settles its numbers."""
        if self.grows is None:
            return True
        run, grows, self.grows = message.get("run"), self.grows, None
        if run is None or self.seen is None or not self.seen.grown(run, grows):
            return False
        run["settled"] = True
        return True

    def progress(self, share: float, stage: str) -> None:
        """Tell how far the run is."""
        self.say({"progress": share, "stage": stage})

    def fail(
        self,
        kind: str,
        message: str,
        file: str = "",
        line: int = 0,
        wordless: bool = False,
    ) -> None:
        """End with an error; a wordless one has its reason in what the script printed last."""
        error: Fault = {"kind": kind, "message": message, "file": file, "line": line}
        if self.tests is not None:
            error["tests"] = list(self.tests())[-MOST_TESTS:]
        if wordless:
            error["wordless"] = True
        self.end({"error": error})


def main() -> None:
    """Run the script of the request on standard input."""
    request: Request = json.load(sys.stdin)
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
    from .training import hooks

    stand_in = replacements(paddle, request, meta)
    session_of = watching(meta, request)
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    script = os.path.join(request["root"], request["script"])
    os.chdir(os.path.join(request["root"], request.get("cwd") or "."))
    if request.get("source"):
        project_copy.guard_links(request["source"])
    stand_in()
    (session := session_of(paddle, request, channel)).install()
    channel.reads = read_files.Reads(request)
    sys.addaudithook(channel.reads.heard)
    forking.install(request, channel, lambda asked: numbered(meta, asked))
    if meta is not None:
        watch_state(meta, channel)
    try:
        start(script, request)
    except SystemExit as left:
        if left.code not in (None, 0):
            session.broke("it ended itself")
            kind, words = blame.doubted(f"The script ended itself: {left.code}", meta)
            file, line = blame.place(left, request["root"])
            channel.fail(kind, words, file, line, wordless=isinstance(left.code, int))
    except MemoryError:
        session.broke(hooks.NO_MEMORY)
        traceback.print_exc()
        channel.fail("memory", "The sandbox's memory was not enough for this batch size.")
    except BaseException as error:
        session.broke(f"{type(error).__name__}: {str(error)[:LONGEST_WHY]}")
        traceback.print_exc()
        first = retried(error)
        failure = blame.failure(first, meta, request["root"])
        channel.fail(*failure, *blame.place(first, request["root"]))
    session.ended()


def watch_state(meta: ModuleType, channel: Channel) -> None:
    """Let a run without data divide at its first operator, and tell of its tests where it fails."""
    meta.state.STATE.at_first_operator(forking.begun)
    channel.tests = lambda: meta.state.STATE.tests


def replacements(
    paddle: ModuleType, request: Request, meta: ModuleType | None
) -> Callable[[], None]:
    """Return a function that replaces what the script would not find here: batch sizes, devices,
    modules, files, older versions. What it needs is imported already."""
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
    from .training import batch_size, watched_loops

    def install() -> None:
        root = request["root"]
        if request["mode"] != "device":
            # First, so that edited text is asked for first.
            watched_loops.install(root)
        batch_size.install(request, paddle)
        devices_and_downloads.install(paddle, on_device=request["mode"] == "device")
        missing_modules.install(paddle, root)
        hub_files.install()
        saving.install(paddle)
        paddlenlp_datasets.install()
        single_process.install(paddle, request["mode"])
        if request.get("source"):
            # Never in a project itself.
            missing_files.install(root, request.get("outside", ()))
        if not request.get("image"):
            older_versions.install(root)
            missing_modules.prefer_own(root)
        if meta is not None:
            meta.hook.ready(paddle, request.get("operators", {}), request.get("backend", "gpu"))
            meta.script.answers.install(root)
            numbered(meta, request)
            made_up_lines.NUMBER["of"] = lambda number: from_lines(meta, number, root)

    return install


def watching(
    meta: ModuleType | None, request: Request
) -> Callable[[ModuleType, Request, Channel], hooks.Session | device_peaks.Session]:
    """Return the class of the session that watches the script's steps."""
    from .training import device_peaks, traced

    if meta is not None:
        session: type[hooks.Session] = meta.script.session.Session
        return session
    return device_peaks.Session if request["mode"] == "device" else traced.Session


def numbered(meta: ModuleType | None, request: Request) -> None:
    """Set what numbers of unknown data are in this run, if tensors have no data."""
    if meta is None:
        return
    meta.state.STATE.number = request.get("number", 1)
    meta.state.STATE.counts = request.get("counts", "")
    meta.state.STATE.turned = frozenset(request.get("turned") or ())
    part = request.get("part")
    meta.state.STATE.part = fractions.Fraction(1, part) if part else None


def from_lines(meta: ModuleType, number: int, root: str) -> int:
    """Return a number of a made-up line; a run that is given others divides from this here."""
    forking.reached()
    length: int = meta.script.answers.made(number, root)
    return length


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

    from .runs import shared_imports
    from .training import batch_size

    root = request["root"]
    sys.argv = batch_size.Words(os.path.relpath(script), request)
    sys.path.insert(0, os.path.dirname(script))
    # Last, as the folder of a package in development is.
    sys.path += [folder for folder in (root, os.path.join(root, "src")) if os.path.isdir(folder)]
    if request.get("ahead"):
        shared_imports.import_first(batch_size.edited(script))
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    # Not `runpy`, which shows the script another name of itself than its user typed.
    exec(batch_size.code_of(script), module.__dict__)
