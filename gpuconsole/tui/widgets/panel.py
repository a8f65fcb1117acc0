"""A titled, scrollable box of styled lines."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from gpuconsole.core.text import clean
from gpuconsole.tui.presentation.cells import Piece, text


def name_box(box: Widget, title: str, subtitle: str = "") -> None:
    """Set a border's titles; they may hold foreign names and are never markup."""
    upper = Content(clean(title)) if title else None
    lower = Content(clean(subtitle)) if subtitle else None
    box.border_title = upper
    box.border_subtitle = lower


class Panel(VerticalScroll, can_focus=False):
    """A box with a title; its lines are made for its inner width."""

    def __init__(self, title: str = "", *, id: str | None = None, classes: str = "") -> None:
        super().__init__(id=id, classes=f"panel {classes}".strip())
        self._lines: tuple[tuple[Piece, ...], ...] | None = None
        self._titles = ("", "")
        self.entitle(title)

    def compose(self) -> ComposeResult:
        """One text that grows as it needs."""
        yield Static("", markup=False)

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Name the box; titles hold foreign names and are no markup."""
        if (title, subtitle) != self._titles:
            self._titles = (title, subtitle)
            name_box(self, title, subtitle)

    @property
    def inner_width(self) -> int:
        """Cells in a line, with the scroll bar's taken off."""
        return max(10, self.size.width - 2)

    def put(self, lines: list[list[Piece]]) -> None:
        """Show these lines; the layout is redone only when their number changes."""
        frozen = tuple(tuple(line) for line in lines)
        if frozen == self._lines or not self.is_mounted:
            return
        taller = self._lines is None or len(frozen) != len(self._lines)
        self._lines = frozen
        self.query_one(Static).update(text(lines), layout=taller)
