"""Several runs from one start: where the script first asks for the batch size, its process divides.

A copy goes on with the first size and ends, then another with the next, and so on; the process
itself goes on with the last. What the script does before, which is mostly importing its libraries,
is done once for all.

What follows from all of these is asked for later: the process waits, and does it in a copy too. A
script that never asks for its batch size divides at its first operator, for such requests alone.

Where the script asks for numbers of unknown data, another size and other numbers are tried in one
run: a block that is as large as in the first run, or larger as the batch is, hangs on no number.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import mmap
import os
import signal
import threading
from typing import TYPE_CHECKING, cast

from . import linearity, project_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..documents import Ahead, Batch, Change, Request, Run, Summary
    from ..run import Channel

DOUBLE = "double"
"""The next size is twice the script's own, which the first run tells."""
CHANGED = ("size", "until", "whole", "drawn", "way", "trains", "batch", "number", "part", "counts",
           "turned")  # fmt: skip
"""What requests of one start may differ in; of `batch` only the value."""
OPEN = "as long as it can be"
"""How choices of the meta tier end where only data tells a length."""
TO_THE_END = 2**31 - 1
"""A number of steps that no run makes: it goes on until the script ends."""
MOST_SEEN = 2**20
"""Blocks of a run that another is held against."""
WORD, HEAD = 8, 48
"""Bytes of a number, and of what is left before the sizes of blocks."""
LATER = (4, 5)
"""Kinds of blocks, by the ledger's numbers, with sizes that may not be settled before a run ends:
batches that are used, and that wait."""

_WAITING: list[tuple[Request, Channel, Callable[[Request], object]]] = []


def is_open(run: Run) -> bool:
    """Tell whether a run took lengths that depend on data at their largest."""
    return any(choice.endswith(OPEN) for choice in run.get("choices", ()))


class Seen:
    """Blocks of a run, left by a copy of this process for the copies after it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, HEAD + 3 * WORD * MOST_SEEN)

    def put(self, run: Run) -> None:
        """Leave a run's events and the sizes of its blocks; of one that is too long nothing."""
        long = len(run["sizes"]) > MOST_SEEN
        events = in_order(run["events"], () if long else run["cycles"])
        held = array.array("q", [] if long else [*run["sizes"], *events])
        counts = (len(run["sizes"]), len(events)) if held else (0, 0)
        self._memory[:HEAD] = _digest(run) + b"".join(n.to_bytes(WORD, "little") for n in counts)
        self._memory[HEAD : HEAD + WORD * len(held)] = held.tobytes()

    def _held(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the sizes of the blocks that were left, and the events."""
        blocks, events = array.array("q", self._memory[HEAD - 2 * WORD : HEAD])
        middle, end = HEAD + WORD * blocks, HEAD + WORD * (blocks + events)
        return (array.array("q", self._memory[HEAD:middle]),
                array.array("q", self._memory[middle:end]))  # fmt: skip

    def grown(self, run: Run, grows: float) -> bool:
        """Tell whether a run did the same as that one, each block being as large or `grows` times
        as large."""
        sizes, _ = self._held()
        if not sizes or len(sizes) != len(run["sizes"]):
            return False
        if self._memory[: HEAD - 2 * WORD] != _digest(run):
            return False
        return all(after in (before, before * grows) for before, after in zip(sizes, run["sizes"]))

    def begins(self, run: Run, grows: float) -> bool:
        """Tell whether a run that goes on may come to do the same as that one."""
        sizes, events = self._held()
        done = in_order(run["events"], run["cycles"])
        # What is released last may be followed by more.
        while done and done[-1] < 0:
            done.pop()
        if len(sizes) < len(run["sizes"]) or list(events[: len(done)]) != done:
            return False
        return all(after in (before, before * grows) or kind in LATER
                   for before, after, kind in zip(sizes, run["sizes"], run["kind"]))  # fmt: skip


def in_order(events: Sequence[int], cycles: Iterable[int]) -> list[int]:
    """Return events with blocks that are released one after another, within a cycle, in the order
    of their numbers: which of them goes first changes nothing, and hangs on where Python has put
    objects."""
    ordered: list[int] = []
    released: list[int] = []
    ends = set(cycles)
    for place, event in enumerate(events):
        if released and (event >= 0 or place in ends):
            ordered += sorted(released)
            released.clear()
        (released if event < 0 else ordered).append(event)
    return ordered + sorted(released)


def _digest(run: Run) -> bytes:
    events = in_order(run["events"], run["cycles"])
    return hashlib.sha256(array.array("q", [*events, -1, *run["cycles"]]).tobytes()).digest()


def install(request: Request, channel: Channel, numbered: Callable[[Request], object]) -> None:
    """Divide where the batch size is asked for, if the request has further runs. `numbered` sets
    what numbers of unknown data are."""
    if request.get("further"):
        os.set_inheritable(request["further"], False)
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
    channel.seen = Seen()
    start = Start(request, channel, numbered)
    summary = _copied(channel)
    if summary is not None:
        _go_on(start, ahead, summary)


def begun() -> None:
    """The first operator is run: what comes until the batch size is asked for is done in a copy.
    This process does what is asked for later, where it never was."""
    if not _WAITING or threading.active_count() > 1:
        return
    request, channel, numbered = _WAITING[-1]
    if not request.get("further"):
        return
    start = Start(request, channel, numbered)
    if _copied(channel) is None:
        return
    _WAITING.clear()
    del start.first["ahead"]
    start.serve()


class Start:
    """What each run from here on begins with: the request of the first, and what was there."""

    def __init__(
        self,
        request: Request,
        channel: Channel,
        numbered: Callable[[Request], object],
    ) -> None:
        self.first: Request = {**request}
        self._request, self._numbered = request, numbered
        self._channel = channel
        # Never in a project itself, nor in a user's home.
        copied = bool(request.get("source"))
        folders = [request["root"], *project_copy.home_of(os.environ)] if copied else []
        # A list: the folders are the same for each run.
        self._before = [(folder, project_copy.below(folder)) for folder in folders]

    def begin(self, change: Change) -> None:
        """Make ready for the next run."""
        for folder, before in self._before:
            project_copy.without_new(folder, before)
        # The same object: the parts of the run that were installed before hold it.
        request: dict[str, object] = cast("dict[str, object]", self._request)
        request.clear()
        request.update(self.first, **change)
        self._numbered(self._request)
        self._channel.place += 1

    def copy(self, change: Change, grows: float | None = None) -> Summary | None:
        """Let a copy do the next run; return its summary, None in the copy. One that is to be as
        the first but for blocks that grow, and is not, has an empty summary and no place."""
        self.begin(change)
        self._channel.grows = grows
        summary = _copied(self._channel)
        if summary is not None:
            self._channel.grows = None
            self._channel.place -= not summary
        return summary

    def serve(self) -> None:
        """Do what is asked for from now on, each in a copy; return in that. Where this process is
        not to wait it ends."""
        asked = self.first.get("further")
        if asked is None:
            os._exit(0)
        with os.fdopen(asked, encoding="utf-8") as stream:
            while True:
                self._channel.say({"waits": True})
                line = stream.readline()
                if not line:
                    os._exit(0)
                change: Change = json.loads(line)
                self.begin(change)
                if _copied(self._channel, tried=True) is None:
                    return


def _go_on(start: Start, ahead: Ahead, summary: Summary) -> None:
    """Do what follows from the first run; return where one is to be done here."""
    runs = changes(start.first, ahead, summary)
    if runs and summary["numbers"] and summary["plain"]:
        second: Change = {**runs[0], "number": ahead["number"]}
        before, after = start.first["size"] or summary["own"], second["size"]
        assert before
        assert after
        together = start.copy(second, after / before)
        if together is None:
            return
        runs = without_numbers(runs[1:]) if together else runs
    waits = bool(start.first.get("further"))
    for change in runs if waits else runs[:-1]:
        if start.copy(change) is None:
            return
    if waits or not runs:
        start.serve()
    else:
        start.begin(runs[-1])


def summary_of(run: Run) -> Summary:
    """Return what further runs have to know of the first: the script's own batch size, whether it
    asked for numbers of unknown data, whether it took lengths at their largest, whether it may do
    the same with other samples in a batch, and what makes them alike."""
    return {
        "own": run["own_batch"],
        "numbers": bool(run.get("numbers_at")),
        "lengths": is_open(run),
        "plain": not (is_open(run) or linearity.by_data(run) or run.get("past_half")),
        "like": alike(run),
    }


def alike(run: Run) -> Change:
    """Return what makes a run like another: that it goes as far, where that reported more than its
    first steps (`until`, 0 for these alone) and which loops it ended (`way`), how that made its
    batches (`whole`, `drawn`), and the sizes of those that train (`trains`). A run that came to the
    script's end has others come to it too, in as many steps as they need."""
    until = run.get("until") or run.get("followed") or 0
    return {
        "until": TO_THE_END if until and run.get("reached") == "end" else until,
        "whole": run.get("whole"),
        "drawn": run.get("drawn"),
        "way": run.get("way"),
        "trains": run.get("trains"),
    }


def changes(request: Request, ahead: Ahead, summary: Summary) -> list[Change]:
    """Return how the requests of further runs differ from that of the first, by its summary."""
    batch = request["batch"]
    first: Change = {"size": request["size"], "batch": batch, **summary["like"]}
    size, own = ahead["size"], summary["own"]
    runs: list[Change] = []
    if isinstance(size, int):
        runs.append({**first, "size": size})
    elif own:
        put: Batch = {**batch, "value": own}
        runs.append({**first, "size": 2 * own, "batch": put})
    else:
        return []
    if summary["numbers"]:
        runs.append({**first, "number": ahead["number"]})
    if summary["lengths"]:
        runs.append({**first, "part": ahead["part"]})
    return runs


def without_numbers(runs: Iterable[Change]) -> list[Change]:
    """Return the changes of further runs without those to other numbers."""
    return [change for change in runs if "number" not in change]


def _copied(channel: Channel, tried: bool = False) -> Summary | None:
    """Let a copy of this process run; return its summary once it has ended, None in the copy."""
    there, here = os.pipe()
    copy = os.fork()
    if copy == 0:
        os.close(there)
        channel.told = here
        return None
    os.close(here)
    return _ended(copy, there, tried or channel.grows is not None)


def _ended(copy: int, there: int, tried: bool) -> Summary:
    """Wait for a copy and return its summary. Where it came to no answer neither will this
    process: it ends as the copy did, but for a run that was only `tried`."""
    _, status = os.waitpid(copy, 0)
    data = b""
    # What the copy started may hold the other end open.
    os.set_blocking(there, False)
    with contextlib.suppress(BlockingIOError):
        data = os.read(there, 4096)
    os.close(there)
    if tried and (status or not data):
        return {}
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    if status or not data:
        os._exit(os.WEXITSTATUS(status))
    summary: Summary = json.loads(data.splitlines()[-1])
    return summary
