"""Readers with a fault each, by which the run that looks for faults is held."""

from __future__ import annotations

import random
from pathlib import Path


class Reader:
    """Reads numbers; the fourth input is the one with which something is wrong."""

    def __init__(self, folder: Path) -> None:
        self._count = 0

    def make(self, rng: random.Random) -> int:
        return rng.randrange(100)

    def read(self, data: int) -> bool:
        self._count += 1
        if self._count == 5:  # the first is read to warm up
            self.fail()
        return data % 2 == 0

    def fail(self) -> None:
        """Do what must be noticed."""


class Raises(Reader):
    def fail(self) -> None:
        raise KeyError("not a refusal")


class Freezes(Reader):
    def fail(self) -> None:
        while True:
            pass


class Grows(Reader):
    def fail(self) -> None:
        # Written to: memory that is only promised does not count.
        _ = bytearray(b"x") * (400 << 20)


class Dies(Reader):
    def fail(self) -> None:
        raise SystemExit("gone")
