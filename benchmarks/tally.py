"""What a measured program tells its measurer while it runs: a few numbers in a shared file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NUMBERS = struct.Struct("<dd")


class Tally:
    """How often a console has painted, and the processor time that its figures took to make."""

    def __init__(self, file: mmap.mmap) -> None:
        self._file = file

    @property
    def paints(self) -> int:
        """How often the screen was handed a new picture."""
        return int(_NUMBERS.unpack_from(self._file)[0])

    @property
    def making_s(self) -> float:
        """Processor time that is the benchmark's own."""
        return float(_NUMBERS.unpack_from(self._file)[1])

    def painted(self) -> None:
        """Count a paint."""
        _NUMBERS.pack_into(self._file, 0, self.paints + 1, self.making_s)

    def made(self, seconds: float) -> None:
        """Count time in which figures were made."""
        _NUMBERS.pack_into(self._file, 0, self.paints, self.making_s + seconds)


@contextmanager
def tally(path: Path) -> Iterator[Tally]:
    """Open the tally of a file, making it where there is none."""
    if not path.exists():
        path.write_bytes(bytes(_NUMBERS.size))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), _NUMBERS.size) as shared:
        yield Tally(shared)


def count_paints(counted: Tally) -> None:
    """Let every console of this process count its paints; it draws as it always does."""
    from gpuconsole.tui.app import ConsoleApp

    paint = ConsoleApp.paint

    def counting(app: ConsoleApp, *, force: bool = False) -> None:
        before = app.picture
        paint(app, force=force)
        if app.picture is not before:
            counted.painted()

    ConsoleApp.paint = counting  # type: ignore[method-assign]
