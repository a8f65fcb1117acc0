"""Log files as clean lines, while they grow and are replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from gpuconsole.core.text import clean

LINE_LIMIT = 4096
"""Characters of a line that are shown; a script may print 10 MB without a line break."""
_CHUNK = 64 * 1024
_PENDING_LIMIT = 4 * LINE_LIMIT
"""Bytes kept of an incomplete line; what goes beyond is dropped until its end."""


class LineReader:
    """Turns bytes into clean lines with bounded memory."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that end in this chunk."""
        *lines, last = chunk.split(b"\n")
        done = []
        for line in lines:
            done.append(_shown(self._pending + line[:_PENDING_LIMIT]))
            self._pending = b""
        self._pending = (self._pending + last[:_PENDING_LIMIT])[:_PENDING_LIMIT]
        return done

    def rest(self) -> list[str]:
        """Return the last line when it has no end."""
        pending, self._pending = self._pending, b""
        return [_shown(pending)] if pending else []


async def tail(
    path: Callable[[], Path],
    ended: Callable[[], bool],
    pause: Callable[[], Awaitable[None]],
    note: Callable[[], str] = str,
) -> AsyncIterator[str]:
    """Give the lines of a growing file until `ended` says so and all is read.

    A new attempt has another path: reading begins there again. A file that is replaced by one with
    the same beginning is read on from where the reader was. Once `note` says something, it is
    given as a line after those that are there by then.
    """
    reader, offset, current = LineReader(), 0, path()
    noted = ""
    while True:
        over = ended()
        if path() != current:
            for line in reader.rest():
                yield line
            reader, offset, current = LineReader(), 0, path()
        chunk = _read(current, offset)
        offset += len(chunk)
        for line in reader.feed(chunk):
            yield line
        if chunk:
            continue
        if over:
            break
        if (words := note()) and words != noted:
            noted = words
            yield words
        await pause()
    for line in reader.rest():
        yield line
    if (words := note()) and words != noted:
        yield words


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last clean lines of a file, at most `count`, from its last 64 KiB; none where it
    cannot be read."""
    reader = LineReader()
    try:
        first = max(0, path.stat().st_size - _CHUNK)
        lines = [*reader.feed(_read(path, first)), *reader.rest()]
    except OSError:
        return []
    # The first of them began before what was read.
    return lines[1 if first else 0 :][-count:]


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_CHUNK)
    except FileNotFoundError:
        return b""


def _shown(line: bytes) -> str:
    return clean(line.decode("utf-8", errors="replace"), LINE_LIMIT)
