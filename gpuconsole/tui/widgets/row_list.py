"""A list of any length: a heading, a cursor and marks; only the rows in sight are ever made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from rich.style import Style
from textual import events
from textual.geometry import Offset, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.text_cells import Piece, strip
from gpuconsole.tui.style.styles import Ink, ink_of
from gpuconsole.tui.widgets.framed_lines import FramedLines
from gpuconsole.tui.widgets.jumpable import Place

Draw = Callable[[str, int], list[Piece]]
"""Makes the pieces of a row from its key and its number, from 0."""
GUTTER = 2
"""Cells before a row: the cursor, and the mark."""
_HEADING = -1
"""Where the heading is remembered, beside the rows by their numbers."""
BOX = 3
"""Lines of a table around its rows: two of the border, one of the heading."""


class Rows(ScrollView, FramedLines, can_focus=True):
    """Rows known by their keys. The cursor and the marks stay with a key when the order changes."""

    BINDINGS = bindings("table")

    @dataclass
    class Reached(Message):
        """The cursor moved to another row."""

        key: str

    @dataclass
    class Opened(Message):
        """A row was clicked twice."""

        key: str

    @dataclass
    class Marked(Message):
        """Other rows are marked."""

        keys: frozenset[str]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.keys: Sequence[str] = ()
        self.marked: frozenset[str] = frozenset()
        self._places: dict[str, int] = {}
        self._at = 0
        self._height = 0  # cells, at the last resize
        self._draw: Draw = lambda key, number: []
        self._heading: list[Piece] = []
        self._known: dict[int, list[Piece]] = {}
        self._strips: dict[int, Strip] = {}

    # -- what it is given -------------------------------------------------------------------

    def put(self, keys: Sequence[str], draw: Draw, heading: list[Piece]) -> None:
        """Show these rows; of the same sequence again only what has changed is drawn."""
        self._draw = draw
        if heading != self._heading or keys is not self.keys:
            self._heading = heading
            self._renew(keys)
            return
        self._repaint(
            [row for row in self._in_sight() if self._known.get(row) != draw(keys[row], row)]
        )

    def restyle(self) -> None:
        """Forget what was drawn: the theme or the symbols changed."""
        self._forget()
        self.refresh()

    @property
    def current(self) -> str:
        """The key under the cursor, or ""."""
        return self.keys[self._at] if self._at < len(self.keys) else ""

    @property
    def at(self) -> int:
        """The row under the cursor."""
        return self._at

    @property
    def inner_width(self) -> int:
        """Cells that a row has; a blank stays before the border."""
        return max(1, self.size.width - GUTTER - 1)

    def move_to(self, key: str) -> None:
        """Put the cursor on a row by its key, if it is there."""
        if key in self._places:
            self._stand(self._places[key])

    @property
    def in_sight(self) -> Sequence[str]:
        """The keys of the rows that are seen, from the top."""
        seen = self._in_sight()
        return self.keys[seen.start : seen.stop]

    def jump_places(self) -> list[Place]:
        """Return the rows in sight."""
        top = self.scroll_offset.y
        return [
            Place(Offset(0, row + 1 - top), partial(self._stand, row)) for row in self._in_sight()
        ]

    def unmark(self) -> None:
        """Take all marks away."""
        self._mark(frozenset())

    # -- actions ----------------------------------------------------------------------------

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self._stand(self._at + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self._stand(self._at + pages * max(1, self.size.height - 2))

    def action_edge(self, way: int) -> None:
        """Move the cursor to the first or the last row."""
        self._stand(0 if way < 0 else len(self.keys) - 1)

    def action_mark(self) -> None:
        """Mark the row under the cursor or unmark it, and go on to the next."""
        if self.current:
            self._mark(self.marked ^ {self.current})
            self._stand(self._at + 1)

    def action_mark_all(self) -> None:
        """Mark every row that is shown, or none when all are."""
        everything = frozenset(self.keys)
        self._mark(frozenset() if self.marked == everything else everything)

    def on_click(self, event: events.Click) -> None:
        """Stand on the row that was clicked; a second click opens it."""
        spot = event.get_content_offset(self)
        if spot is None or spot.y < 1:
            return
        row = spot.y - 1 + self.scroll_offset.y
        if row < len(self.keys):
            self._stand(row)
            if event.chain == 2:
                self.post_message(self.Opened(self.keys[row]))

    # -- drawing ----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the widget."""
        width = self.size.width
        row = y - 1 + self.scroll_offset.y if y else _HEADING
        cached = self._strips.get(row)
        if cached is None or cached.cell_length != width:
            cached = self._strips[row] = self._drawn(ink_of(self), row, width)
        return cached

    def _drawn(self, ink: Ink, row: int, width: int) -> Strip:
        """Draw a row, the heading above the rows, or the room below them."""
        if row == _HEADING:
            return strip([(" " * GUTTER, ink.text), *self._heading], width, ink.text)
        if row >= len(self.keys):
            return Strip.blank(width, ink.text)
        pieces = self._known[row] = self._draw(self.keys[row], row)
        return self._line(ink, row, pieces, width)

    def _line(self, ink: Ink, row: int, pieces: list[Piece], width: int) -> Strip:
        here, marked = row == self._at, self.keys[row] in self.marked
        glyphs = ink.glyphs
        gutter = [
            (glyphs.cursor if here else " ", ink.key),
            (glyphs.dot if marked else " ", ink.mark if marked else ink.text),
        ]
        if not here:
            return strip([*gutter, *pieces], width, ink.text)
        ground = Style(bgcolor=ink.chosen.bgcolor, bold=True)
        chosen = [(words, style + ground) for words, style in (*gutter, *pieces)]
        return strip(chosen, width, ink.chosen)

    # -- watching ---------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Other rows are in sight."""
        self._forget()
        if self._seen(self._height):
            self._follow_cursor()
        self._height = self.size.height
        self.refresh()

    def notify_style_update(self) -> None:
        """A theme changed below: what was drawn has the old colours."""
        super().notify_style_update()
        self._forget()

    # -- within -----------------------------------------------------------------------------

    def _forget(self) -> None:
        self._known.clear()
        self._strips.clear()

    def _renew(self, keys: Sequence[str]) -> None:
        if keys is not self.keys:
            before, followed = self.current, self._seen(self.size.height)
            self.keys = keys
            self._places = {key: row for row, key in enumerate(keys)}
            self._at = self._places.get(before, max(0, min(self._at, len(keys) - 1)))
            self.virtual_size = Size(0, len(keys) + 1)
            if gone := [key for key in self.marked if key not in self._places]:
                self._mark(self.marked.difference(gone))
            if self.current != before:
                self.post_message(self.Reached(self.current))
            if followed:  # who scrolled away from the cursor stays there
                self._follow_cursor()
        self._forget()
        self.refresh()

    def _in_sight(self) -> range:
        top = self.scroll_offset.y
        return range(top, min(len(self.keys), top + max(0, self.size.height - 1)))

    def _repaint(self, rows: Iterable[int]) -> None:
        """Forget these rows, and draw those of them that are in sight."""
        seen, top = self._in_sight(), self.scroll_offset.y
        places = []
        for row in rows:
            self._strips.pop(row, None)
            self._known.pop(row, None)
            if row in seen:
                places.append(row + 1 - top)
        self.refresh_rows(places)

    def _stand(self, row: int) -> None:
        row = max(0, min(len(self.keys) - 1, row))
        if row == self._at or not self.keys:
            return
        before, self._at = self._at, row
        self._repaint((before, row))
        self._follow_cursor()
        self.post_message(self.Reached(self.current))

    def _seen(self, height: int) -> bool:
        """Say whether the cursor's row is in sight when the widget has this height."""
        top = self.scroll_offset.y
        return height == 0 or top <= self._at < top + max(1, height - 1)

    def _follow_cursor(self) -> None:
        top, height = self.scroll_offset.y, max(1, self.size.height - 1)
        if self._at < top:
            self.scroll_to(y=self._at, animate=False, force=True)
        elif self._at >= top + height:
            self.scroll_to(y=self._at - height + 1, animate=False, force=True)

    def _mark(self, keys: frozenset[str]) -> None:
        changed = self.marked ^ keys
        self.marked = keys
        self._repaint([self._places[key] for key in changed if key in self._places])
        self.post_message(self.Marked(keys))
