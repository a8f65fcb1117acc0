"""Several runs from one start: where the script first asks for the batch size, its process divides.

A copy goes on with the first size and ends, then another with the next, and so on; the process
itself goes on with the last. What the script does before, which is mostly importing its libraries,
is done once for all.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from typing import Any

import probe_tree

DOUBLE = "double"
"""The next size is twice the script's own, which the first run tells."""

_WAITING: list[Any] = []


def install(request: Any, channel: Any, numbered: Any) -> None:
    """Divide where the batch size is asked for, if the request has further runs. `numbered` sets
    what numbers of unknown data are."""
    if request.get("ahead"):
        _WAITING.append((request, channel, numbered))


def reached() -> None:
    """The batch size is asked for."""
    if not _WAITING:
        return
    request, channel, numbered = _WAITING.pop()
    ahead = request.pop("ahead")
    if threading.active_count() > 1:
        # A copy would have but this one; what is ahead is left to runs of their own.
        return
    # Never in a project itself, nor in a user's home.
    folders = [request["root"], *probe_tree.home_of(os.environ)] if request.get("source") else []
    before = [probe_tree.below(folder) for folder in folders]
    told = _copied(channel)
    runs = changes(request, ahead, *told) if told else []
    if told and not runs:
        os._exit(0)
    for change in runs:
        for folder, found in zip(folders, before):  # noqa: B905 - as old as Python 3.9
            probe_tree.without_new(folder, found)
        request.update(change)
        numbered(request)
        channel.place += 1
        if channel.place < len(runs) and not _copied(channel):
            return


def told_of(run: Any) -> Any:
    """Return what further runs have to know of the first: the script's own batch size, whether it
    asked for numbers of unknown data, and what makes them alike."""
    return run["own_batch"], bool(run.get("numbers_at")), alike(run)


def alike(run: Any) -> Any:
    """Return what makes a run like another: that it goes as far, where that told of more than its
    first steps (`until`, 0 for these alone), and how that made its batches (`whole`, `drawn`)."""
    made = {"whole": run.get("whole"), "drawn": run.get("drawn")}
    return {"until": run.get("until") or 0, **made}


def changes(request: Any, ahead: Any, own: Any, numbers: Any, like: Any) -> Any:
    """Return how the requests of further runs differ from that of the first, by what that told."""
    first = {"size": request["size"], "batch": request["batch"], **like}
    second = dict(first, size=ahead["size"])
    if ahead["size"] == DOUBLE:
        if not own:
            return []
        second = dict(first, size=2 * own, batch=dict(request["batch"], value=own))
    return [second, *([dict(first, number=ahead["number"])] if numbers else [])]


def _copied(channel: Any) -> Any:
    """Let a copy of this process run; return what it told once it has ended, None in the copy."""
    there, here = os.pipe()
    copy = os.fork()
    if copy == 0:
        os.close(there)
        channel.told = here
        return None
    os.close(here)
    return _ended(copy, there)


def _ended(copy: Any, there: Any) -> Any:
    """Wait for a copy and return what it told. Where it came to no answer neither will this
    process: it ends as the copy did."""
    _, status = os.waitpid(copy, 0)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    if status:
        os._exit(os.WEXITSTATUS(status))
    told = b""
    # What the copy started may hold the other end open.
    os.set_blocking(there, False)
    with contextlib.suppress(BlockingIOError):
        told = os.read(there, 4096)
    os.close(there)
    if not told:
        os._exit(0)
    return json.loads(told.splitlines()[-1])
