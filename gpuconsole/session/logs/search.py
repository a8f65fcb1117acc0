"""Searching a log of any length: in blocks beside the event loop, given up at any moment."""

from __future__ import annotations

import asyncio
import re
from array import array
from bisect import bisect_left

from gpuconsole.session.logs.line_index import Lines, Reader, shown

BLOCK = 4096
"""Lines searched at once: some thousandths of a second of work."""


class Search:
    """The lines that contain the words. `|` separates alternatives; case is ignored."""

    def __init__(self, words: str) -> None:
        """`words` as typed; nothing in them but `|` means more than itself."""
        self.words = words
        parts = [part for part in words.split("|") if part] or [words]
        self.pattern = re.compile("|".join(map(re.escape, parts)), re.IGNORECASE | re.ASCII)
        self._parts = tuple(part.encode("utf-8", "replace").lower() for part in parts)
        self.matches = array("Q")
        """Numbers of the lines that match, in order."""
        self.done = 0
        """Lines looked through so far."""
        self._sure = 0
        """Lines of these that will not change any more."""
        self._seen = (-1, -1)
        """Epoch and version of the log that was looked through."""

    async def go_on(self, log: Lines) -> bool:
        """Look through one more block; False when all there is has been looked through."""
        self._go_back(log)
        first, last, whole = self.done, min(len(log), self.done + BLOCK), log.whole
        if first >= last:
            return False
        numbers = await asyncio.to_thread(self._find, log.reader(first, last), first)
        if log.epoch == self._seen[0]:
            self.matches.extend(numbers)
            self.done, self._sure = last, min(last, whole)
        return True

    def after(self, line: int) -> int | None:
        """Return the first match at or after a line, or else the very first."""
        if not self.matches:
            return None
        return self.matches[bisect_left(self.matches, line) % len(self.matches)]

    def before(self, line: int) -> int | None:
        """Return the last match before a line, or else the very last."""
        return self.matches[bisect_left(self.matches, line) - 1] if self.matches else None

    def place(self, line: int) -> int:
        """Return which match a line is, from 1; 0 when it is none."""
        at = bisect_left(self.matches, line)
        return at + 1 if at < len(self.matches) and self.matches[at] == line else 0

    def _go_back(self, log: Lines) -> None:
        """Forget what does not hold any more: all of a log that began again, and a last line that
        had no end."""
        if self._seen == (log.epoch, log.version):
            return
        self.done = self._sure if log.epoch == self._seen[0] else 0
        self._seen, self._sure = (log.epoch, log.version), self.done
        while self.matches and self.matches[-1] >= self.done:
            self.matches.pop()

    def _find(self, read: Reader, first: int) -> array[int]:
        numbers = array("Q")
        for number, raw in enumerate(read(), first):
            if b"\x1b" in raw or b"\r" in raw:
                # What a terminal would not show is not found either.
                line = shown(raw).encode("utf-8", "replace").lower()
            else:
                line = raw.lower()
            for part in self._parts:
                if part in line:
                    numbers.append(number)
                    break
        return numbers
