"""The logs of a gang's ranks as one, in the order in which their lines came."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from pathlib import Path

from gpuconsole.session.logs.line_index import LogIndex, Reader, shown

CHUNK = 256 << 10
"""Bytes read of each rank at once: what lies there already is taken in such turns."""


class MergedLog:
    """Several files as one list of lines. Implements `Lines`.

    Nothing in a file says when a line was written; what comes in one look of several ranks is
    taken in turns, by their shares.
    """

    def __init__(self, paths: Sequence[Path], chunk: int = CHUNK) -> None:
        self.epoch = self.version = 0
        self._parts = [LogIndex(path, chunk) for path in paths]
        self._begin()

    def _begin(self) -> None:
        self._ranks = array("H")
        self._numbers = array("I")
        """Of each line: who wrote it, and which one it is there."""
        self._taken = [0] * len(self._parts)
        self._epochs = [part.epoch for part in self._parts]

    def __len__(self) -> int:
        return len(self._ranks)

    @property
    def whole(self) -> int:
        """All: a line without an end is taken only when its rank has fallen silent."""
        return len(self._ranks)

    @property
    def trouble(self) -> str:
        """Why a rank's log cannot be read, as a sentence."""
        return next((part.trouble for part in self._parts if part.trouble), "")

    async def grow(self) -> bool:
        """Read on in each file; True while there is more to be read at once."""
        before = [part.version for part in self._parts]
        more = await asyncio.gather(*(part.grow() for part in self._parts))
        if self._epochs != [part.epoch for part in self._parts]:
            self.epoch += 1
            self._begin()
        fresh = [
            (len(part) if part.version == version else part.whole) - taken
            for part, version, taken in zip(self._parts, before, self._taken, strict=True)
        ]
        turns = sorted(
            ((at + 0.5) / count, rank) for rank, count in enumerate(fresh) for at in range(count)
        )
        for _, rank in turns:
            self._ranks.append(rank)
            self._numbers.append(self._taken[rank])
            self._taken[rank] += 1
        self.version += bool(turns) or before != [part.version for part in self._parts]
        return any(more)

    def reader(self, first: int, last: int) -> Reader:
        """Return what reads the lines from `first` up to, not including, `last`."""
        order = self._ranks[first:last]
        spans: dict[int, tuple[int, int]] = {}
        for rank, number in zip(order, self._numbers[first:last], strict=True):
            begin, _ = spans.get(rank, (number, 0))
            spans[rank] = (begin, number + 1)
        readers = {rank: self._parts[rank].reader(*span) for rank, span in spans.items()}

        def read() -> list[bytes]:
            lines = {rank: iter(each()) for rank, each in readers.items()}
            return [next(lines[rank], b"") for rank in order]

        return read

    def text(self, line: int) -> str:
        """Return a line as it is shown."""
        (raw,) = self.reader(line, line + 1)()
        return shown(raw)

    def prefix(self, line: int) -> str:
        """Return the rank that wrote a line, all equally wide."""
        digits = len(str(len(self._parts) - 1))
        return f"r{self._ranks[line]:0{digits}}"
