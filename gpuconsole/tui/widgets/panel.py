"""Styled lines, drawn again only where they change: one line, and a titled, scrollable box."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rich.cells import cell_len, chop_cells
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from gpuconsole.core.text import clean
from gpuconsole.tui.render.text_cells import Piece, cells, strip, text
from gpuconsole.tui.style.styles import Ink, ink_of
from gpuconsole.tui.widgets.framed_lines import FramedLines

Pieces = tuple[Piece, ...]


class Name(str):
    """A title that is somebody's name alone, which is in no language."""

    __slots__ = ()


def name_box(box: Widget, title: str, subtitle: str | list[Piece] = "") -> None:
    """Set a border's titles; they may hold foreign names and are never markup."""
    say = ink_of(box).say
    said = title if isinstance(title, Name) else say(title)
    upper = Content(clean(said)) if title else None
    lower = _content(say(subtitle) if isinstance(subtitle, str) else subtitle) if subtitle else None
    box.border_title = upper
    box.border_subtitle = lower


def _content(words: str | list[Piece]) -> Content:
    if isinstance(words, str):
        return Content(clean(words))
    return Content.from_rich_text(text([words]))


class Panel(ScrollView, FramedLines, can_focus=False):
    """A box with a title; its lines are made for its inner width, longer ones are broken."""

    def __init__(self, title: str = "", *, id: str | None = None, classes: str = "") -> None:
        super().__init__(id=id, classes=f"panel {classes}".strip())
        self._given: list[list[Piece]] = []
        self._parts: list[tuple[Pieces, ...]] = []
        """What each of them was broken into at the width of now."""
        self._width = 0
        self._lines: tuple[Pieces, ...] | None = None
        self._drawn: dict[int, Strip] = {}
        """Lines by their rows, in one ink and at one width."""
        self._drawn_for: tuple[Ink, int] | None = None
        self._early: list[list[Piece]] | None = None
        """Lines that were given before there was a width to break them at."""
        self._titles = (title, "")
        self._pinned = 0

    def on_mount(self) -> None:
        """Show the title that the box was made with."""
        self.retitle()

    def retitle(self) -> None:
        """Write the titles again, where the language has changed."""
        name_box(self, *self._titles)

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Name the box; titles hold foreign names and are no markup."""
        if (title, subtitle) != self._titles:
            self._titles = (title, subtitle)
            name_box(self, title, subtitle)

    @property
    def inner_width(self) -> int:
        """Cells in a line, with the scroll bar's taken off."""
        return max(10, self.size.width - 2)

    def put(self, lines: list[list[Piece]], pinned: int = 0) -> None:
        """Show these lines; the layout is redone only when their number changes. The first `pinned`
        stay at the top when the others are scrolled."""
        self._pinned = pinned
        if not self.is_mounted:
            return
        if not self.size.width:
            self._early = lines
            return
        self._early = None
        new = self._break(lines, max(2, self.size.width))
        old = self._lines
        if new == old:
            return
        self._lines = new
        if old is None or len(new) != len(old):
            self._drawn.clear()
            self.virtual_size = Size(0, len(new))
            self.refresh()
            return
        top, places = self.scroll_offset.y, []
        for row, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                self._drawn.pop(row, None)
                places.append(row if row < pinned else row - top)
        height = self.size.height
        self.refresh_rows(place for place in places if 0 <= place < height)

    def _break(self, lines: list[list[Piece]], width: int) -> tuple[Pieces, ...]:
        """Break lines at a width; those that are the same as before were broken then."""
        if width != self._width or len(lines) != len(self._given):
            self._width, self._given = width, [[]] * len(lines)
            self._parts = [((),)] * len(lines)
        parts = self._parts = [
            before if line == given else tuple(_broken(line, width))
            for line, given, before in zip(lines, self._given, self._parts, strict=True)
        ]
        self._given = [list(line) for line in lines]
        return tuple(chain.from_iterable(parts))

    def _on_resize(self) -> None:
        if self._early is not None and self.size.width:
            self.put(self._early, self._pinned)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the widget."""
        (line,) = self.lines_at(range(y, y + 1))
        return line

    def lines_at(self, places: range) -> list[Strip]:
        """Draw lines of the widget; what did not change is the line of before."""
        ink, width, top = ink_of(self), self.size.width, self.scroll_offset.y
        if self._drawn_for != (ink, width):
            self._drawn_for = ink, width
            self._drawn.clear()
        given, drawn, lines = self._lines or (), self._drawn, []
        for place in places:
            row = place + top if place >= self._pinned else place
            line = drawn.get(row)
            if line is None:
                pieces = given[row] if row < len(given) else ()
                line = drawn[row] = strip(pieces, width, ink.text)
            lines.append(line)
        return lines


class SizedPanel(Panel):
    """A box with lines that depend on its height too: the screen is notified when its size
    changes."""

    class Sized(Message):
        """Its room has changed: what it shows is to be drawn again."""

    def on_resize(self) -> None:
        """Ask for new lines."""
        self.post_message(self.Sized())


def _broken(line: list[Piece], width: int) -> Iterator[Pieces]:
    """Break a line that is wider than the box, at the cell where it ends."""
    if sum([cells(words) for words, _ in line]) <= width:
        yield tuple(line)
        return
    part: list[Piece] = []
    room = width
    for words, style in line:
        rest = words
        while cell_len(rest) > room:
            head = chop_cells(rest, room)[0] if room else ""
            yield (*part, (head, style))
            part, room, rest = [], width, rest[len(head) :]
        part.append((rest, style))
        room -= cell_len(rest)
    yield tuple(part)


class Line(FramedLines):
    """A widget one line high."""

    DEFAULT_CSS = "Line { height: 1; width: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces: tuple[Piece, ...] = ()
        self._drawn: Strip | None = None
        self._drawn_for: tuple[Ink, int, Pieces] | None = None

    def put(self, pieces: list[Piece]) -> None:
        """Draw these pieces from now on."""
        if tuple(pieces) != self._pieces:
            self._pieces = tuple(pieces)
            self.refresh_rows((0,))

    def render_line(self, y: int) -> Strip:
        """Draw the line; while it looks the same, it is the one of before."""
        ink, width = ink_of(self), self.size.width
        look = ink, width, self._pieces
        if self._drawn is None or self._drawn_for != look or y:
            self._drawn_for = look
            self._drawn = strip(() if y else self._pieces, width, ink.text)
        return self._drawn
