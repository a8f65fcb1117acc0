"""The log of a job: a bounded ring of cleaned lines, drawn only where it is looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from rich.cells import cell_len, chop_cells
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuconsole.tui.ink import ink_of
from gpuconsole.tui.presentation.cells import Piece, strip
from gpuconsole.tui.widgets.bindings import bindings

MOST_LINES = 200_000
"""Kept in memory; the whole log is in its file."""

DROP = 20_000
"""Dropped at once when full, so that dropping costs little a line."""


class LogLines(ScrollView, can_focus=True):
    """Lines with follow, search and wrap."""

    BINDINGS = bindings("log")

    follow: reactive[bool] = reactive(True)
    wrap: reactive[bool] = reactive(False)

    @dataclass
    class Moved(Message):
        """Place, follow, wrap or matches changed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[str] = []
        self._dropped = 0
        self._tops: list[int] = []
        """With wrap: the first row of each line, and one past the end."""
        self._wrapped_for = 0
        self._widest = 0
        self._needle = ""
        self._matches: list[int] = []
        self._match = -1

    # -- what it is given -------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """The lines kept, oldest first."""
        return self._lines

    @property
    def dropped(self) -> int:
        """How many older lines are no longer kept."""
        return self._dropped

    def clear_lines(self) -> None:
        """Begin another log."""
        self._lines, self._tops, self._matches = [], [], []
        self._dropped = self._widest = 0
        self._match = -1
        self.follow = True
        self._measure()

    def extend(self, lines: Iterable[str]) -> None:
        """Add cleaned lines at the end."""
        fresh = list(lines)
        if not fresh:
            return
        start = len(self._lines)
        self._lines += fresh
        self._widest = max(self._widest, max(map(cell_len, fresh)))
        if self._needle:
            needle = self._needle
            self._matches += [start + at for at, line in enumerate(fresh) if needle in line.lower()]
        if len(self._lines) > MOST_LINES:
            self._drop(len(self._lines) - MOST_LINES + DROP)
        self._measure()

    # -- search -----------------------------------------------------------------------------

    def search(self, needle: str) -> int:
        """Mark what contains the words; returns how many lines do."""
        self._needle = needle.lower()
        self._matches = (
            [at for at, line in enumerate(self._lines) if self._needle in line.lower()]
            if needle
            else []
        )
        self._match = -1
        self.refresh()
        self.post_message(self.Moved())
        return len(self._matches)

    def step(self, way: int) -> bool:
        """Go to the next or previous match, around; False when there is none."""
        if not self._matches:
            return False
        if self._match < 0:
            top = self._line_at(self.scroll_offset.y)[0]
            after = bisect_right(self._matches, top - 1)
            self._match = (after if way > 0 else after - 1) % len(self._matches)
        else:
            self._match = (self._match + way) % len(self._matches)
        self.follow = False
        row = self._top_of(self._matches[self._match])
        self._go(row - self.size.height // 2)
        self.refresh()
        return True

    @property
    def matching(self) -> tuple[int, int]:
        """The match one stands on (from 1, 0 for none) and how many there are."""
        return self._match + 1, len(self._matches)

    # -- actions ----------------------------------------------------------------------------

    def action_scroll_by(self, lines: int) -> None:
        """Scroll by lines; away from the end following stops."""
        self._go(self.scroll_offset.y + lines)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self._go(self.scroll_offset.y + pages * max(1, self.size.height - 1))

    def action_edge(self, way: int) -> None:
        """Go to the first line, or to the last and follow."""
        self._go(0 if way < 0 else self.virtual_size.height)
        self.follow = way > 0

    def _go(self, row: int) -> None:
        last = max(0, self.virtual_size.height - self.size.height)
        self.scroll_to(y=max(0, min(last, row)), animate=False, immediate=True, force=True)
        if row < last:
            self.follow = False
        self.post_message(self.Moved())

    def on_mouse_scroll_up(self) -> None:
        """Scrolling up by the wheel stops following as the keys do."""
        self.follow = False

    # -- watching ---------------------------------------------------------------------------

    def watch_follow(self) -> None:
        """Jump to the end when following begins."""
        if self.follow and self.is_mounted:
            self.scroll_end(animate=False, immediate=True, force=True)
        self.post_message(self.Moved())

    def watch_wrap(self) -> None:
        """Every row stands elsewhere; keep the line at the top."""
        if not self.is_mounted:
            return
        top = self._line_at(self.scroll_offset.y, wrapped=not self.wrap)[0]
        self._wrapped_for = 0
        self._measure()
        if not self.follow:
            self.scroll_to(y=self._top_of(top), animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        """Wrapping depends on the width."""
        self._wrapped_for = 0
        self._measure()

    # -- drawing ----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        ink, width = ink_of(self), self.size.width
        at, part = self._line_at(y + self.scroll_offset.y)
        if at >= len(self._lines):
            return Strip.blank(width, ink.text)
        line = self._lines[at]
        if self.wrap:
            parts = chop_cells(line, max(1, width)) if line else [""]
            shown = parts[part] if part < len(parts) else ""
            return strip(self._marked(shown), width, ink.text)
        left = self.scroll_offset.x
        whole = strip(self._marked(line), max(width + left, cell_len(line)), ink.text)
        return whole.crop(left, left + width)

    def _marked(self, line: str) -> list[Piece]:
        ink = ink_of(self)
        upper = line[:400].upper()
        base = ink.text
        if "ERROR" in upper or "TRACEBACK" in upper:
            base = ink.bad
        elif "WARN" in upper:
            base = ink.warn
        folded = line.lower()
        if not self._needle or self._needle not in folded or len(folded) != len(line):
            return [(line, base)]
        pieces: list[Piece] = []
        position = 0
        while (found := folded.find(self._needle, position)) >= 0:
            end = found + len(self._needle)
            pieces += [(line[position:found], base), (line[found:end], ink.match)]
            position = end
        return [*pieces, (line[position:], base)]

    # -- rows and lines ---------------------------------------------------------------------

    def _measure(self) -> None:
        if not self.is_mounted:
            return
        width = max(1, self.size.width)
        if self.wrap:
            self._wrap_rows(width)
            self.virtual_size = Size(width, self._tops[-1])
        else:
            self.virtual_size = Size(self._widest, len(self._lines))
        if self.follow:
            self.scroll_end(animate=False, immediate=True, force=True)
        self.refresh()

    def _wrap_rows(self, width: int) -> None:
        known = len(self._tops) - 1
        if self._wrapped_for != width or known < 0 or known > len(self._lines):
            self._tops, known = [0], 0
            self._wrapped_for = width
        heights = (_height(line, width) for line in self._lines[known:])
        tops = accumulate(heights, initial=self._tops[-1])
        next(tops)
        self._tops.extend(tops)

    def _line_at(self, row: int, *, wrapped: bool | None = None) -> tuple[int, int]:
        if not (self.wrap if wrapped is None else wrapped) or len(self._tops) < 2:
            return row, 0
        at = bisect_right(self._tops, row) - 1
        return at, row - self._tops[at]

    def _top_of(self, line: int) -> int:
        if self.wrap and line < len(self._tops):
            return self._tops[line]
        return line

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self._dropped += count
        self._tops = []
        self._matches = [at - count for at in self._matches if at >= count]
        self._match = -1
        if not self.follow:
            self.scroll_to(y=max(0, self.scroll_offset.y - count), animate=False, force=True)


def _height(line: str, width: int) -> int:
    length = cell_len(line)
    if length <= width:
        return 1
    return len(chop_cells(line, width))
