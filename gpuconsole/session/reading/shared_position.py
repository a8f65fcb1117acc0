"""Where a run is in a script, in memory that another process sees: it says so even when frozen."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile

_SIZE = 4096
_FILE_AT = 8
"""Bytes before the file's name: the line, and the length of the name."""


def shared_memory() -> int:
    """Return a descriptor of memory for one trail; any holder of it may map it."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("gpuconsole-trail")
    else:
        with tempfile.TemporaryFile(prefix="gpuconsole-") as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, _SIZE)
    return descriptor


class Trail:
    """Notes each statement's place; `place` reads it from the other process."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._numbers = memoryview(self._memory)[:_FILE_AT].cast("I")
        self._file = ""

    def __call__(self, file: str, line: int) -> None:
        """Note the statement that is followed now."""
        if file is not self._file:
            name = os.fsencode(file)[: _SIZE - _FILE_AT]
            self._memory[_FILE_AT : _FILE_AT + len(name)] = name
            self._numbers[1] = len(name)
            self._file = file
        self._numbers[0] = line

    def clear(self) -> None:
        """Note that no statement is followed."""
        self._numbers[0] = self._numbers[1] = 0
        self._file = ""

    def place(self) -> tuple[str, int]:
        """Return file and line of the statement followed last; "" and 0 where there is none."""
        line, size = self._numbers
        name = self._memory[_FILE_AT : _FILE_AT + min(size, _SIZE - _FILE_AT)]
        return os.fsdecode(name), line

    def close(self) -> None:
        """Give the memory back."""
        self._numbers.release()
        self._memory.close()
