"""What a measured program tells its measurer while it runs: a few numbers in a shared file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NUMBER = struct.Struct("<d")
_PAINTS, _MAKING, _UP = (place * _NUMBER.size for place in range(3))
_SIZE = 3 * _NUMBER.size


class Tally:
    """How often a console has painted, how many hosts it saw up, and the processor time that its
    figures took to make."""

    def __init__(self, file: mmap.mmap) -> None:
        self._file = file

    @property
    def paints(self) -> int:
        """How often the screen was handed a new picture."""
        return int(self._get(_PAINTS))

    @property
    def making_s(self) -> float:
        """Processor time that is the benchmark's own."""
        return self._get(_MAKING)

    @property
    def up(self) -> int:
        """How many hosts were up in the latest picture."""
        return int(self._get(_UP))

    def painted(self, up: int) -> None:
        """Count a paint."""
        self._put(_PAINTS, self.paints + 1)
        self._put(_UP, up)

    def made(self, seconds: float) -> None:
        """Count time in which figures were made."""
        self._put(_MAKING, self.making_s + seconds)

    def _get(self, place: int) -> float:
        return float(_NUMBER.unpack_from(self._file, place)[0])

    def _put(self, place: int, number: float) -> None:
        _NUMBER.pack_into(self._file, place, number)


@contextmanager
def tally(path: Path) -> Iterator[Tally]:
    """Open the tally of a file, making it where there is none."""
    if not path.exists():
        path.write_bytes(bytes(_SIZE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), _SIZE) as shared:
        yield Tally(shared)


def count_paints(counted: Tally) -> None:
    """Let every console of this process count its paints; it draws as it always does."""
    from gpuconsole.tui.app import ConsoleApp

    paint = ConsoleApp.paint

    def counting(app: ConsoleApp, *, force: bool = False) -> None:
        before = app.picture
        paint(app, force=force)
        if app.picture is not before:
            counted.painted(app.picture.totals.up)

    ConsoleApp.paint = counting  # type: ignore[method-assign]
