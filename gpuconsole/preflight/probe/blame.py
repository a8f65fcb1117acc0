"""Who is to blame for an error that ended the script: the script, the measurement, or unknown.

The script is blamed only for what it would do with data, too. An error that arises in code of the
measuring, or that was met on the way from one, is none of the script's, unless that code says that
Paddle raises the same (`meta.state.rightly`). After anything was made up or taken for granted, an
error may come of that.
"""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

from . import notes
from .standins import devices_and_downloads, missing_files, missing_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of the code that measures."""
RUNNER = ("run.py", "batch_size.py")
"""Modules that run the script: below their frames are its own."""
PASSING = ("hooks.py", "watched_loops.py")
"""Modules that watch a call on its way to what the script called."""
MOST_SAID = 2
"""Sentences that are said of what was taken for granted."""
LIMIT = "a limit of the measurement, not a fault of the script"


def failure(error: BaseException, meta: ModuleType | None, root: str) -> tuple[str, str]:
    """Return kind and words for an error that ended the script; the kind "script" is its fault."""
    words = f"{type(error).__name__}: {str(error).strip()[-600:]}"
    words = words.replace("NeededError: ", "The script ")
    if missing_modules.reached_an_operator(words):
        kind = "library"
    elif meta is not None and isinstance(error, meta.state.Unsupported):
        kind = "unsupported"
    elif isinstance(error, (ImportError, missing_modules.NeededError)):
        kind = "library"
    elif devices_and_downloads.wants_network(error):
        kind = "download"
    elif isinstance(error, FileNotFoundError):
        kind = "data"
    else:
        origins = {origin(met_error, meta, root) for met_error in met(error)}
        if "measuring" in origins:
            return "unsupported", f"Unsupported: {words} ({LIMIT})"
        kind, words = doubted(words + missing_modules.blamed(words), meta)
        return "unclear" if "library" in origins else kind, words
    return kind, words + missing_modules.blamed(words) + because(_made_up())


def doubted(words: str, meta: ModuleType | None) -> tuple[str, str]:
    """Return kind and words for an end of the script: not its fault where something was taken for
    granted before."""
    doubts = [*notes.notes(), *(meta.script.answers.doubts() if meta is not None else ())]
    return ("unclear", words + because(doubts)) if doubts else ("script", words)


def because(doubts: Sequence[str]) -> str:
    """Return what to add to words about an error that may come of something made up."""
    said = " ".join(doubts[:MOST_SAID])
    return f" (it may come of this: {said})" if said else ""


def _made_up() -> list[str]:
    return [sentence for sentence in notes.notes() if sentence.startswith(missing_files.MADE_UP)]


def met(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that were being handled, or are named as causes, when it was
    raised."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        cause = pending.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            pending += [cause.__cause__, cause.__context__]


def origin(error: BaseException, meta: ModuleType | None, root: str) -> str:
    """Return where an error arose: "measuring" in the measuring's own code, where that does not say
    that Paddle raises it too, "library" in what that code called, else "script"."""
    tensor = meta.state.STATE.tensor if meta is not None else ()
    if isinstance(error, AttributeError) and isinstance(getattr(error, "obj", None), tensor):
        # What a tensor without data lacks.
        return "measuring"
    if isinstance(error, SyntaxError) or getattr(error, "rightly", False):
        return "script"
    folders = (OWN, *(folder + os.sep for folder in (meta.__path__ if meta is not None else ())))
    below = os.path.join(os.path.abspath(root), "")
    frames = traceback.extract_tb(error.__traceback__)
    for depth, frame in enumerate(reversed(frames)):
        if frame.filename.startswith(folders):
            module = os.path.basename(frame.filename)
            if module in RUNNER:
                return "script"
            if depth == 0:
                return "measuring"
            if module not in PASSING:
                return "library"
        elif frame.filename.startswith(below) and "site-packages" not in frame.filename:
            return "script"
    return "script"


def place(error: BaseException, root: str) -> tuple[str, int]:
    """Return file and line of the innermost frame that is the project's own."""
    root = os.path.abspath(root)
    innermost = ("", 0)
    for frame in traceback.extract_tb(error.__traceback__):
        # Names like `<frozen posixpath>` are of no file.
        if os.path.isabs(frame.filename) and frame.filename.startswith(root + os.sep):
            innermost = (frame.filename, frame.lineno or 0)
    return innermost
