"""A log with a line of the console's own among those of its job: the warning of a time limit.

The line exists only where a log is shown: neither in the container, where the files are the job's,
nor in the copy of its log, which is the container's output byte for byte.
"""

from __future__ import annotations

import time

from gpuconsole.core.jobs import Job
from gpuconsole.core.submission.time_limits import time_limit
from gpuconsole.core.units import format_duration
from gpuconsole.session.logs.line_index import Lines, Reader


def warning_line(job: Job, attempt_number: int, lab_s: float | None) -> str:
    """Return the line that warns of an attempt's time limit, where the lab's is `lab_s` (s); ""
    where its user was not warned."""
    attempt = next((attempt for attempt in job.attempts if attempt.number == attempt_number), None)
    limit = time_limit(job.task, lab_s)
    if attempt is None or attempt.warned_at is None or attempt.started_at is None or limit is None:
        return ""
    left = max(0.0, limit.seconds - (attempt.warned_at - attempt.started_at))
    at = time.strftime("%H:%M", time.gmtime(attempt.warned_at))
    return f"--- gpuconsole, {at} UTC: {limit.words} ends it in {format_duration(left)} ---"


class NotedLog:
    """A log and at most one line of the console's own. Implements `Lines`.

    Nothing in a file says when a line was written, so the line is shown after those that were
    complete when it came.
    """

    def __init__(self, log: Lines) -> None:
        self.log = log
        self.epoch, self.version = log.epoch, log.version
        self._note = ""
        self._place = 0
        """How many lines stand before it."""
        self._since = log.epoch

    def note(self, words: str) -> None:
        """Show these words as a line from now on; once shown, it stays where it is."""
        if not words or self._note:
            return
        self._note, self._place, self._since = words, self.log.whole, self.log.epoch
        self._follow()

    def _follow(self) -> None:
        # The lines after it move down when it comes.
        shift = bool(self._note)
        self.epoch, self.version = self.log.epoch + shift, self.log.version + shift

    def __len__(self) -> int:
        return len(self.log) + bool(self._note)

    @property
    def whole(self) -> int:
        """How many lines will not change any more."""
        return self.log.whole + bool(self._note)

    @property
    def trouble(self) -> str:
        """Why the log cannot be read, as a sentence."""
        return self.log.trouble

    async def grow(self) -> bool:
        """Read on; True while there is more to be read at once."""
        more = await self.log.grow()
        if self._note and self.log.epoch != self._since:
            # The log has begun again, and may be shorter.
            self._place, self._since = min(self._place, self.log.whole), self.log.epoch
        self._follow()
        return more

    def reader(self, first: int, last: int) -> Reader:
        """Return what reads the lines from `first` up to, not including, `last`."""
        if not self._note:
            return self.log.reader(first, last)
        place, words = self._place, self._note.encode()
        read = self.log.reader(self._inner(first), self._inner(last))
        if not first <= place < last:
            return read

        def with_note() -> list[bytes]:
            lines = read()
            return [*lines[: place - first], words, *lines[place - first :]]

        return with_note

    def text(self, line: int) -> str:
        """Return a line as it is shown."""
        if self._note and line == self._place:
            return self._note
        return self.log.text(self._inner(line))

    def prefix(self, line: int) -> str:
        """Return the prefix of a line; "" for the console's own."""
        if self._note and line == self._place:
            return ""
        return self.log.prefix(self._inner(line))

    def _inner(self, line: int) -> int:
        """Return the number in the log of the line, or of the first one after it."""
        return line - 1 if self._note and line > self._place else line
