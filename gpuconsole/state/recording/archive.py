"""Several recorded files as one: which times they cover, and the stretch that holds a moment.

Like `reader`, for use beside the event loop.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpuconsole.core.events import Event
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.state.recording.file_format import Header
from gpuconsole.state.recording.reader import Stretch, Tape
from gpuconsole.state.recording.writer import files_in

SEAM_S = 5.0
"""Blocks no further apart (s) are contiguous; more is a gap in which nothing was recorded."""
_MOST_TAPES = 4
"""Files of which more than the index is kept in memory."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time that was recorded without a gap."""

    first: float
    last: float


class Shelf:
    """Recorded files, of one folder or one alone. For one thread at a time."""

    def __init__(self, source: Path, *, hosts: Collection[str] = (), session: str = "") -> None:
        """Open a file, or all files of a folder that contain any of `hosts` (all if empty). Where
        recordings overlap, that of `session` wins, else the later one.

        Raises RecordingError or UsageError if the one file cannot be read; a file of a folder that
        cannot be is left out and reported in `trouble`.
        """
        self._source = source
        self._hosts = frozenset(hosts)
        self._session = session
        self._tapes: dict[Path, Tape] = {}
        self._passed: set[Path] = set()
        self._order: list[Tape] = []
        self._used: list[Tape] = []
        self._events: dict[Path, tuple[int, tuple[Event, ...]]] = {}
        self.trouble: tuple[str, ...] = ()
        """What could not be read, each as a sentence."""
        self.refresh()

    @property
    def header(self) -> Header:
        """What the latest file says of itself."""
        if not self._order:
            raise nothing(self._source)
        return max((tape.header for tape in self._order), key=lambda header: header.started_at)

    def refresh(self) -> None:
        """Find what was written since."""
        # A name without an ending that is not there is a folder in which nothing was written yet.
        source = self._source
        folder = source.is_dir() or not (source.exists() or source.suffix)
        paths = [path for _, path in files_in(self._source)] if folder else [self._source]
        for gone in set(self._tapes) - set(paths):
            del self._tapes[gone]
        for path in paths:
            if path in self._tapes:
                self._refresh(path)
            elif path not in self._passed:
                self._open(path, folder)
        own = [tape for tape in self._tapes.values() if tape.header.session == self._session]
        rest = [tape for tape in self._tapes.values() if tape.header.session != self._session]
        newest = sorted(rest, key=lambda tape: tape.header.started_at, reverse=True)
        self._order = [*reversed(own), *newest]

    @property
    def spans(self) -> tuple[Span, ...]:
        """What was recorded, oldest first, without overlaps."""
        blocks = sorted(
            (place.first, place.last) for tape in self._tapes.values() for place in tape.blocks
        )
        spans: list[Span] = []
        for first, last in blocks:
            if spans and first <= spans[-1].last + SEAM_S:
                spans[-1] = Span(spans[-1].first, max(last, spans[-1].last))
            else:
                spans.append(Span(first, last))
        return tuple(spans)

    def nearest(self, at: float, direction: int = 0) -> float:
        """Return the recorded time nearest to one: with direction 1 none before it, with -1 none
        after it, as far as there are any. UsageError when nothing is recorded."""
        spans = self.spans
        if not spans:
            raise nothing(self._source)
        candidates = [min(max(at, span.first), span.last) for span in spans]
        ahead = [
            candidate
            for candidate in candidates
            if direction == 0 or (candidate - at) * direction >= 0
        ]
        return min(ahead or candidates, key=lambda moment: abs(moment - at))

    def stretch(self, at: float) -> Stretch:
        """Return the block that holds a moment, or the last before it. RecordingError when it is
        damaged, UsageError when there is none."""
        newest: tuple[float, Tape, int] | None = None
        for tape in self._order:
            number = tape.number_at(at)
            if number < 0:
                continue
            last = tape.blocks[number].last
            if last + SEAM_S >= at:
                return self._loaded(tape, number)
            if newest is None or last > newest[0]:
                newest = last, tape, number
        if newest is None:
            raise nothing(self._source)
        return self._loaded(newest[1], newest[2])

    def following(self, stretch: Stretch) -> Stretch | None:
        """Return the block that comes next in time, or None at the end."""
        best: tuple[float, Tape, int] | None = None
        for tape in self._order:
            place = tape.number_at(stretch.last)
            for number in (place, place + 1):
                if not 0 <= number < len(tape.blocks):
                    continue
                block = tape.blocks[number]
                begins = max(block.first, stretch.last)
                if block.last > stretch.last and (best is None or begins < best[0]):
                    best = begins, tape, number
        return None if best is None else self._loaded(best[1], best[2])

    def events(self) -> tuple[Event, ...]:
        """Return all events that were recorded, oldest first, each once."""
        while self.read_events():
            pass
        events = dict.fromkeys(
            event for tape in self._order for event in self._events.get(tape.path, (0, ()))[1]
        )
        return tuple(sorted(events, key=lambda event: event.at))

    def read_events(self) -> bool:
        """Read the events of one more file, the latest first; tell whether one was left to read.
        Who has more to do than events calls it now and then."""
        for tape in self._order:
            cached = self._events.get(tape.path)
            if cached is None or cached[0] != len(tape.blocks):
                self._events[tape.path] = len(tape.blocks), tuple(tape.events())
                return True
        return False

    def _loaded(self, tape: Tape, number: int) -> Stretch:
        self._used = [tape, *(other for other in self._used if other is not tape)]
        for oldest in self._used[_MOST_TAPES:]:
            oldest.forget()
        del self._used[_MOST_TAPES:]
        return tape.stretch(number)

    def _open(self, path: Path, folder: bool) -> None:
        try:
            tape = Tape(path)
        except ConsoleError as error:
            if not folder:
                raise
            self._passed.add(path)
            self.trouble = (*self.trouble, error.message)
            return
        if self._hosts and tape.header.hosts and self._hosts.isdisjoint(tape.header.hosts):
            self._passed.add(path)
            return
        self._tapes[path] = tape
        if tape.torn is not None and not folder:
            words = f"{path}: what follows byte {tape.torn} is damaged and left out."
            self.trouble = (*self.trouble, words)

    def _refresh(self, path: Path) -> None:
        try:
            self._tapes[path].refresh()
        except ConsoleError:
            # Cleared away between listing and reading.
            del self._tapes[path]


def nothing(source: Path) -> UsageError:
    """Return the error that says that there is no recording."""
    return UsageError(
        "Nothing is recorded",
        msg("{value} holds no recorded moment.", value=clean(str(source), 300)),
        "A console records while it is open; `recording.enabled` in the settings switches it off.",
    )
