"""One run of the script, in its own process: `probe.py --run`."""

from __future__ import annotations

import fractions
import json
import multiprocessing
import os
import sys
import traceback
from typing import Any

import probe_ahead

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
            told = json.dumps(probe_ahead.told_of(message["run"])) + "\n"
            os.write(self.told, told.encode())
        self.out.write(json.dumps(message, separators=(",", ":")) + "\n")
        self.out.flush()

    def end(self, message: Any) -> None:
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

    def progress(self, share: Any, stage: Any) -> None:
        """Tell how far the run is."""
        self.say({"progress": share, "stage": stage})

    def fail(
        self, kind: Any, message: Any, file: Any = "", line: Any = 0, wordless: Any = False
    ) -> None:
        """End with an error; a wordless one has its reason in what the script printed last."""
        error = {"kind": kind, "message": message, "file": file, "line": line}
        self.end({"error": dict(error, wordless=True) if wordless else error})


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
    import probe_alone
    import probe_batch
    import probe_blame
    import probe_device
    import probe_files
    import probe_hooks
    import probe_imports
    import probe_lines
    import probe_loops
    import probe_network
    import probe_older
    import probe_reads
    import probe_saving
    import probe_standins
    import probe_texts
    import probe_tree

    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
    script = os.path.join(request["root"], request["script"])
    os.chdir(os.path.join(request["root"], request.get("cwd") or "."))
    if request.get("source"):
        probe_tree.guard_links(request["source"])
    if meta is not None:
        # First, so that edited text is asked for first.
        probe_loops.install(request["root"])
    probe_batch.install(request, paddle)
    probe_standins.install(paddle, on_device=request["mode"] == "device")
    probe_imports.install(paddle, request["root"])
    probe_network.install()
    probe_saving.install(paddle)
    probe_texts.install()
    probe_alone.install(paddle, request["mode"])
    if request.get("source"):
        # Never in a project itself.
        probe_files.install(request["root"], request.get("outside", ()))
    if not request.get("image"):
        probe_older.install(request["root"])
        probe_imports.prefer_own(request["root"])
    if meta is not None:
        meta.hook.ready(paddle, request.get("operators", {}), request.get("backend", "gpu"))
        meta.script.answers.install(request["root"])
        numbered(meta, request)
        probe_lines.NUMBER["of"] = lambda number: from_lines(meta, number, request["root"])
        session: Any = meta.script.session.Session(paddle, request, channel)
    else:
        watch = probe_device if request["mode"] == "device" else probe_hooks
        session = watch.Session(paddle, request, channel)
    session.install()
    channel.reads = probe_reads.Reads(request)
    sys.addaudithook(channel.reads.heard)
    probe_ahead.install(request, channel, lambda asked: numbered(meta, asked))
    try:
        start(script, request)
    except SystemExit as left:
        if left.code not in (None, 0):
            session.broke("it ended itself")
            kind, words = probe_blame.doubted(f"The script ended itself: {left.code}", meta)
            file, line = probe_blame.place(left, request["root"])
            channel.fail(kind, words, file, line, wordless=isinstance(left.code, int))
    except MemoryError:
        session.broke("its memory was not enough")
        traceback.print_exc()
        channel.fail("memory", "The sandbox's memory was not enough for this batch size.")
    except BaseException as error:
        session.broke(f"{type(error).__name__}: {str(error)[:LONGEST_WHY]}")
        traceback.print_exc()
        first = retried(error)
        found = probe_blame.failure(first, meta, request["root"])
        channel.fail(*found, *probe_blame.place(first, request["root"]))
    session.ended()


def numbered(meta: Any, request: Any) -> None:
    """Set what numbers of unknown data are in this run."""
    meta.state.STATE.number = request.get("number", 1)
    meta.state.STATE.counts = request.get("counts", "")
    part = request.get("part")
    meta.state.STATE.part = fractions.Fraction(1, part) if part else None


def from_lines(meta: Any, number: Any, root: Any) -> Any:
    """Return a number of a made-up line; a run that is given others divides from this here."""
    probe_ahead.reached()
    return meta.script.answers.made(number, root)


def retried(error: Any) -> Any:
    """Return the error that a script met each time it tried again, until Python ended that; a data
    set may take another sample in place of one that cannot be read."""
    while isinstance(error, RecursionError) and error.__context__ is not None:
        error = error.__context__
    return error


def tensors_without_data() -> Any:
    """Load the folder `meta`, under a name that no script's module has, and install it."""
    import importlib.util

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "meta")
    if not os.path.isdir(folder):
        folder = os.path.join(os.path.dirname(os.path.dirname(folder)), "meta")
    spec: Any = importlib.util.spec_from_file_location(
        "gpuconsole_meta",
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["gpuconsole_meta"] = package
    spec.loader.exec_module(package)
    for name in ("hook", "script.session", "state"):
        importlib.import_module(f"gpuconsole_meta.{name}")
    package.hook.install()
    return package


def start(script: Any, request: Any) -> None:
    """Run the script as `python script args` would, typed in the working folder."""
    import types

    import probe_batch

    root = request["root"]
    sys.argv = probe_batch.Words(os.path.relpath(script), request)
    sys.path.insert(0, os.path.dirname(script))
    # Last, as the folder of a package in development is.
    sys.path += [one for one in (root, os.path.join(root, "src")) if os.path.isdir(one)]
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    # Not `runpy`, which shows the script another name of itself than its user typed.
    exec(probe_batch.code_of(script), module.__dict__)
