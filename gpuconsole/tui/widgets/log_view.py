"""The log of a job, drawn only where it is looked at: a line is read when it comes into sight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.logs.line_index import Lines
from gpuconsole.session.logs.search import Search
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.log_line import marked
from gpuconsole.tui.render.text_cells import Piece, strip
from gpuconsole.tui.style.styles import Ink, ink_of

MOST_KEPT = 2000
"""Lines that are kept as they were drawn."""
SIDEWAYS = 16
"""Cells by which cut lines move at once."""


class Spot(NamedTuple):
    """The top of what is seen: a row, and with wrapping how many of its parts are above."""

    row: int
    part: int = 0


class LogLines(ScrollView, can_focus=True):
    """Lines with follow, wrap, search, and only those that match.

    A row is a line that is shown: every line, or with `only` every one that matches.
    """

    BINDINGS = bindings("log")

    follow: reactive[bool] = reactive(True)
    wrap: reactive[bool] = reactive(False)
    only: reactive[bool] = reactive(False)

    @dataclass
    class Moved(Message, bubble=True):
        """The current line changed."""

        def can_replace(self, message: Message) -> bool:
            """Only the last one counts."""
            return isinstance(message, LogLines.Moved)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.source: Lines | None = None
        self.search: Search | None = None
        self.here = -1
        """The line one went to, by its number; -1 for none."""
        self.empty = ""
        """What is said where there is nothing to show."""
        self._part = 0
        self._side = 0
        self._row_by_us = 0
        self._epoch = 0
        self._whole = 0
        """How many lines had an end when the log was looked at last."""
        self._known: dict[int, str] = {}
        self._laid: Sequence[Spot] = ()
        self._look: tuple[object, ...] = ()
        """What the rows kept as drawn depend on, apart from the lines."""
        self._drawn: dict[tuple[int, int, bool], Strip] = {}

    # -- what it is given -------------------------------------------------------------------

    def look_at(self, log: Lines | None) -> None:
        """Begin another log, at its end."""
        self.source, self.here, self._side = log, -1, 0
        self._epoch = log.epoch if log is not None else 0
        self._forget()
        self.follow = True
        self.grown()

    def grown(self) -> None:
        """Show what the log or the search has more."""
        if not self.is_mounted:
            return
        if self.source is not None and self.source.epoch != self._epoch:
            self._epoch, self.here = self.source.epoch, -1
            self._forget()
        if self.source is not None and any(line >= self._whole for line in self._known):
            # What had no end may have gone on.
            self._forget()
        self._whole = self.source.whole if self.source is not None else 0
        self._settle()
        self.refresh()
        self._tell_place()

    def look_for(self, search: Search | None) -> None:
        """Mark what a search finds; None marks nothing."""
        top = self._line(self.top.row)
        self.search = search
        if search is None and self.only:
            self.only = False
            self._show(Spot(self._row_of(top)))
        self.grown()

    # -- what is seen -----------------------------------------------------------------------

    def tail(self, count: int) -> list[str]:
        """Return the last lines."""
        total = len(self.source) if self.source is not None else 0
        return [self._text(line) for line in range(max(0, total - count), total)]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        if self.source is None:
            return 0
        if self.only and self.search is not None:
            return len(self.search.matches)
        return len(self.source)

    @property
    def top(self) -> Spot:
        """The position at the top."""
        return Spot(round(self.scroll_y), self._part)

    @property
    def last_seen(self) -> int:
        """The number of the last line in sight, from 1; 0 when there is none."""
        seen = self._seen()
        return self._line(seen[-1].row) + 1 if seen else 0

    def pointed(self) -> tuple[int, str] | None:
        """Return the line that is meant and its text: the one gone to if it is in sight, else the
        newest when following, else the one at the top."""
        seen = [self._line(spot.row) for spot in self._seen()]
        if self.source is None or not seen:
            return None
        line = self.here if self.here in seen else seen[-1 if self.follow else 0]
        return line, self._text(line)

    # -- going about ------------------------------------------------------------------------

    def step(self, way: int) -> bool:
        """Go to the next or previous match, around; False when there is none."""
        if self.search is None:
            return False
        seen = self._seen()
        start = self.here if self.here >= 0 else self._line(seen[0].row) if seen else 0
        if way > 0:
            match = self.search.after(start + (self.here >= 0))
        else:
            match = self.search.before(start)
        if match is None:
            return False
        self.go_to(match)
        return True

    def go_to(self, line: int) -> None:
        """Bring a line to the middle, and stand on it."""
        self.here = line
        self.follow = False
        self.post_message(self.Moved())
        self._show(self._up(Spot(self._row_of(line)), self.size.height // 2))
        self.refresh()

    def action_scroll_by(self, lines: int) -> None:
        """Scroll by lines; away from the end following stops."""
        self._move(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self._move(pages * max(1, self.size.height - 1))

    def action_edge(self, way: int) -> None:
        """Go to the first line, or to the last and follow."""
        if way < 0:
            self._show(Spot(0))
        self.follow = way > 0

    def action_sideways(self, way: int) -> None:
        """Move cut lines to the left or right."""
        if not self.wrap:
            self._side = max(0, self._side + way * SIDEWAYS)
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Stand on the line that was clicked."""
        spot, seen = event.get_content_offset(self), self._seen()
        if spot is not None and spot.y < len(seen):
            self.here = self._line(seen[spot.y].row)
            self.refresh()
            self.post_message(self.Moved())

    def _move(self, rows: int) -> None:
        top = self._up(self.top, -rows) if rows < 0 else self._down(self.top, rows)
        end = self._end()
        self._show(min(top, end))
        if top < end:
            self.follow = False

    def _show(self, top: Spot) -> None:
        """Bring a spot to the top."""
        self._part, self._row_by_us = top.part, top.row
        self.scroll_to(y=top.row, animate=False, immediate=True, force=True)
        self.refresh()
        self._tell_place()

    # -- watching ---------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The wheel and the scroll bar move rows, and stop following."""
        super().watch_scroll_y(old_value, new_value)
        if round(new_value) != self._row_by_us:
            self._row_by_us, self._part = round(new_value), 0
            if self.follow and round(new_value) < self._end().row:
                self.follow = False
            self._tell_place()

    def watch_follow(self) -> None:
        """Jump to the end when following begins."""
        if self.is_mounted:
            self._settle()
            self._tell_place()

    def watch_wrap(self) -> None:
        """Every line has another height; the row at the top stays."""
        self._part = self._side = 0
        self.grown()

    def watch_only(self, before: bool) -> None:
        """Other lines are rows; the one at the top stays, or the match after it."""
        if self.search is None or not self.is_mounted:
            return
        row = round(self.scroll_y)
        matches = self.search.matches
        line = (matches[row] if row < len(matches) else 0) if before else row
        self._part = 0
        self._settle()
        if not self.follow:
            line = self.here if self.here >= 0 else line
            self._show(self._up(Spot(self._row_of(line)), self.size.height // 2))
        self.refresh()

    def on_resize(self) -> None:
        """Heights depend on the width, the end on the height."""
        self._part = 0
        self._settle()

    # -- drawing ----------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw some rows of the widget; which lines they show is worked out once."""
        self._laid = self._seen()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one row of the widget."""
        ink, width = ink_of(self), self.size.width
        if not self._laid and y == 0:
            return strip([(self.empty, ink.muted)], width, ink.text)
        if self.source is None or y >= len(self._laid):
            return Strip.blank(width, ink.text)
        row, part = self._laid[y]
        line = self._line(row)
        look = (ink, width, self._side, self.wrap, self.search)
        if look != self._look:
            self._look = look
            self._drawn.clear()
        spot = (line, part, line == self.here)
        drawn = self._drawn.get(spot)
        if drawn is None:
            drawn = self._drawn[spot] = self._draw(ink, line, part, width)
        return drawn

    def _draw(self, ink: Ink, line: int, part: int, width: int) -> Strip:
        here = line == self.here
        ground = ink.chosen if here else ink.text
        before = self.source.prefix(line) if self.source is not None else ""
        lead: list[Piece] = []
        if before:
            words = f"{before} " if not part else " " * (len(before) + 1)
            lead.append((words, ink.chosen_muted if here else ink.muted))
            width -= len(words)
        text = words = self._text(line)
        if self.wrap:
            parts = _parts(text, width)
            words = parts[part] if part < len(parts) else ""
        pattern = self.search.pattern if self.search is not None else None
        pieces = marked(ink, words, text, ground, pattern)
        if self._side and not self.wrap:
            whole = strip(pieces, max(width + self._side, cell_len(words)), ground)
            body = whole.crop(self._side, self._side + width)
        else:
            body = strip(pieces, width, ground)
        if not self.wrap and width > 1 and cell_len(words) > width + self._side:
            goes_on = ink.chosen_muted if here else ink.muted
            body = Strip.join([body.crop(0, width - 1), strip([("…", goes_on)], 1, ground)])
        return Strip.join([strip(lead, len(lead[0][0]), ground), body]) if lead else body

    def _tell_place(self) -> None:
        """Say at the foot where one is, together with what is drawn there."""
        total = len(self.source) if self.source is not None else 0
        say = ink_of(self).say
        place = say(f"line {self.last_seen:,} of {total:,}")
        follow = say("  f follow ON" if self.follow else "  f follow off")
        wrap = say("  W wrap ON" if self.wrap else "  W wrap off")
        self.border_subtitle = f"{place}{follow}{wrap}"

    # -- rows, lines and heights ------------------------------------------------------------

    def _line(self, row: int) -> int:
        """Return the number of the line that a row is."""
        if self.only and self.search is not None and 0 <= row < len(self.search.matches):
            return self.search.matches[row]
        return row

    def _row_of(self, line: int) -> int:
        """Return the row of a line; with only matches that of the first match from there on."""
        if not self.only or self.search is None:
            return line
        match = self.search.after(line)
        return self.search.place(match) - 1 if match is not None else 0

    def _text(self, line: int) -> str:
        text = self._known.get(line)
        if text is None:
            if len(self._known) > MOST_KEPT:
                self._forget()
            text = self.source.text(line) if self.source is not None else ""
            self._known[line] = text
        return text

    def _forget(self) -> None:
        self._known.clear()
        self._drawn.clear()

    def _height(self, row: int) -> int:
        if not self.wrap or self.source is None:
            return 1
        line = self._line(row)
        before = self.source.prefix(line)
        room = self.size.width - (len(before) + 1 if before else 0)
        return len(_parts(self._text(line), room))

    def _seen(self) -> Sequence[Spot]:
        """Return what each row of the widget shows."""
        height, rows = self.size.height, self.rows
        row, part = self.top
        if not self.wrap:
            return [Spot(at) for at in range(row, min(rows, row + height))]
        seen: list[Spot] = []
        while row < rows and len(seen) < height:
            seen += [Spot(row, at) for at in range(part, self._height(row))]
            row, part = row + 1, 0
        return seen[:height]

    def _up(self, spot: Spot, rows: int) -> Spot:
        """Return the position so many rows of the widget above a spot; `rows` may be negative."""
        rows = abs(rows)
        row, part = spot
        if not self.wrap:
            return Spot(max(0, row - rows))
        part -= rows
        while part < 0 and row > 0:
            row -= 1
            part += self._height(row)
        return Spot(row, max(0, part))

    def _down(self, spot: Spot, rows: int) -> Spot:
        """Return the position so many rows of the widget below a spot."""
        row, part = spot
        if not self.wrap:
            return Spot(min(max(0, self.rows - 1), row + rows))
        part += rows
        while row < self.rows - 1 and part >= (height := self._height(row)):
            row, part = row + 1, part - height
        return Spot(row, part)

    def _end(self) -> Spot:
        """Return the top position at which the last row is at the bottom."""
        if not self.rows:
            return Spot(0)
        last = self.rows - 1
        return self._up(Spot(last, self._height(last) - 1), max(1, self.size.height) - 1)

    def _settle(self) -> None:
        """Bring scroll bar and top in line with how much there is."""
        if not self.is_mounted:
            return
        end = self._end()
        self.virtual_size = Size(0, end.row + self.size.height if self.rows else 0)
        if self.follow or self.top > end:
            self._show(end)


def _parts(line: str, width: int) -> list[str]:
    return chop_cells(line, max(1, width)) if line else [""]
