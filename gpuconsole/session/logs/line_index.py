"""A log file by its lines, of any length: what is kept is where each line starts.

The file may grow, be cut short or be replaced while it is read. It is read in chunks beside the
event loop; what a chunk brought is taken over on the loop, so a line can be asked for at any time.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.session.logs.tail import LINE_LIMIT

CHUNK = 4 << 20
"""Bytes read at once: some hundredths of a second of work."""
LINE_BYTES = 4 * LINE_LIMIT + 64
"""Bytes of a line that are looked at; more than `LINE_LIMIT` characters have at most."""
_ANCHOR = 64
"""Bytes by which a file is known again: at its beginning, and where reading came to."""
_BREAK = re.compile(b"\n")

Reader = Callable[[], list[bytes]]
"""Reads lines; may be called in a thread, for it holds all that it needs."""


class Lines(Protocol):
    """A log as numbered lines, from 0."""

    epoch: int
    """Grows when the log begins again: no line is what it was."""
    version: int
    """Grows with every change."""

    def __len__(self) -> int:
        """Return how many lines there are, with one that has no end yet."""
        ...

    @property
    def whole(self) -> int:
        """How many lines will not change any more."""
        ...

    @property
    def trouble(self) -> str:
        """Why the log cannot be read, as a sentence; "" when it can."""
        ...

    async def grow(self) -> bool:
        """Read on; True while there is more to be read at once."""
        ...

    def reader(self, first: int, last: int) -> Reader:
        """Return what reads the lines from `first` up to, not including, `last`."""
        ...

    def text(self, line: int) -> str:
        """Return a line as it is shown; "" when it cannot be read now."""
        ...

    def prefix(self, line: int) -> str:
        """Return the prefix of a line, such as the rank that wrote it."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """How far a file was read, and by what it is known again."""

    size: int = 0
    head: bytes = b""
    anchor: bytes = b""
    mark: tuple[int, ...] = ()
    """Device, inode, size and time of change when it was looked at last."""


@dataclass(frozen=True, slots=True)
class _News:
    state: _Known
    starts: array[int]
    """Where lines begin that were not known."""
    again: bool
    """Whether nothing that was known holds any more."""
    more: bool = False
    """Whether the file goes on."""


class LogIndex:
    """The lines of one file. Implements `Lines`."""

    def __init__(self, path: Path, chunk: int = CHUNK) -> None:
        self.path = path
        self.epoch = self.version = 0
        self.trouble = ""
        self._chunk = chunk
        self._known = _Known()
        self._starts = array("Q", [0])
        """Where each line begins; the last begins where the last break was."""

    def __len__(self) -> int:
        return self.whole + self.open

    @property
    def whole(self) -> int:
        """How many lines have an end."""
        return len(self._starts) - 1

    @property
    def open(self) -> bool:
        """Whether the last line has no end yet."""
        return self._known.size > self._starts[-1]

    async def grow(self) -> bool:
        """Read on by a chunk at most; True while there is more to be read at once."""
        try:
            news = await asyncio.to_thread(_read_on, self.path, self._known, self._chunk)
        except OSError as error:
            self.trouble = msg(
                "{folder} cannot be read: {why}.", folder=self.path, why=error.strerror
            )
            return False
        self.trouble = ""
        if news is None:
            return False
        if news.again:
            self.epoch += 1
            self._starts = array("Q", [0])
        self.version += 1
        self._known = news.state
        self._starts.extend(news.starts)
        return news.more

    def reader(self, first: int, last: int) -> Reader:
        """Return what reads the lines from `first` up to, not including, `last`."""
        bounds = self._starts[first : last + 1]
        if last > self.whole:
            bounds.append(self._known.size)
        return partial(read_lines, self.path, bounds)

    def text(self, line: int) -> str:
        """Return a line as it is shown."""
        (raw,) = self.reader(line, line + 1)() or (b"",)
        return shown(raw, whole=line < self.whole)

    def prefix(self, line: int) -> str:
        """Nothing: all lines are of one rank."""
        return ""


def shown(raw: bytes, *, whole: bool = True) -> str:
    """Return a line as it is shown: its last state where it was written over, clean, and cut.

    Of a line that is not whole, an incomplete character at its end is left out.
    """
    last = raw.rstrip(b"\r\n").rsplit(b"\r", 1)[-1]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return clean(decoder.decode(last, whole), LINE_LIMIT)


def read_lines(path: Path, bounds: array[int]) -> list[bytes]:
    """Return the lines between these places of a file; of a long one what is shown of it.

    Empty when the file cannot be read; lines that it no longer has are b"".
    """
    if len(bounds) < 2:
        return []
    start, end = bounds[0], bounds[-1]
    try:
        with path.open("rb", buffering=0) as file:
            if end - start <= CHUNK:
                block = os.pread(file.fileno(), end - start, start)
                return [block[here - start : there - start] for here, there in pairwise(bounds)]
            return [_line(file.fileno(), here, there) for here, there in pairwise(bounds)]
    except OSError:
        # It was taken away this moment; the next look tells.
        return []


def _line(file: int, start: int, end: int) -> bytes:
    if end - start <= LINE_BYTES:
        return os.pread(file, end - start, start)
    # A line that is written over again and again shows its end, any other its beginning.
    tail = os.pread(file, LINE_BYTES, end - LINE_BYTES)
    return tail if b"\r" in tail.rstrip(b"\r\n") else os.pread(file, LINE_BYTES, start)


def _read_on(path: Path, before: _Known, chunk: int) -> _News | None:
    """Read what follows what is known; None when nothing does. A file that is not there is empty.

    OSError when it cannot be read.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return _News(_Known(), array("Q"), again=True) if before.size else None
    mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if mark == before.mark and before.size == status.st_size:
        return None
    with path.open("rb", buffering=0) as file:
        again = not _is_known(file.fileno(), before)
        if again:
            before = _Known()
        block = os.pread(file.fileno(), chunk, before.size)
    if not (again or block):
        return None
    starts = array("Q", (before.size + match.end() for match in _BREAK.finditer(block)))
    head = (before.head + block[:_ANCHOR])[:_ANCHOR]
    anchor = (before.anchor + block[-_ANCHOR:])[-_ANCHOR:]
    size = before.size + len(block)
    return _News(_Known(size, head, anchor, mark), starts, again, size < status.st_size)


def _is_known(file: int, before: _Known) -> bool:
    """Tell whether a file still begins with what was read of it."""
    with suppress(OSError):
        head = os.pread(file, len(before.head), 0)
        anchor = os.pread(file, len(before.anchor), before.size - len(before.anchor))
        return head == before.head and anchor == before.anchor
    return False
