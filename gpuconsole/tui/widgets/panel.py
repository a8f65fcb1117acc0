"""Styled lines, drawn again only where they change: one line, and a titled, scrollable box."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from gpuconsole.core.text import clean
from gpuconsole.tui.render.text_cells import Piece, strip, text
from gpuconsole.tui.style.styles import ink_of

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


class Panel(ScrollView, can_focus=False):
    """A box with a title; its lines are made for its inner width, longer ones are broken."""

    def __init__(self, title: str = "", *, id: str | None = None, classes: str = "") -> None:
        super().__init__(id=id, classes=f"panel {classes}".strip())
        self._lines: tuple[Pieces, ...] | None = None
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
        width = max(2, self.size.width)
        new = tuple(part for line in lines for part in _broken(line, width))
        old = self._lines
        if new == old:
            return
        self._lines = new
        if old is None or len(new) != len(old):
            self.virtual_size = Size(0, len(new))
            self.refresh()
            return
        for row, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                self.refresh_line(row if row >= pinned else row + self.scroll_offset.y)

    def _on_resize(self) -> None:
        if self._early is not None and self.size.width:
            self.put(self._early, self._pinned)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the widget."""
        ink = ink_of(self)
        row = y + self.scroll_offset.y if y >= self._pinned else y
        lines = self._lines or ()
        return strip(lines[row] if row < len(lines) else (), self.size.width, ink.text)


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
    if sum(cell_len(words) for words, _ in line) <= width:
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


class Line(Widget):
    """A widget one line high."""

    DEFAULT_CSS = "Line { height: 1; width: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces: tuple[Piece, ...] = ()

    def put(self, pieces: list[Piece]) -> None:
        """Draw these pieces from now on."""
        if tuple(pieces) != self._pieces:
            self._pieces = tuple(pieces)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        ink = ink_of(self)
        if y:
            return Strip.blank(self.size.width, ink.text)
        return strip(self._pieces, self.size.width, ink.text)
