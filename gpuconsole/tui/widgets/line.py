"""One line that is drawn from pieces and costs a repaint only when they change."""

from __future__ import annotations

from textual.strip import Strip
from textual.widget import Widget

from gpuconsole.tui.ink import ink_of
from gpuconsole.tui.presentation.cells import Piece, strip


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
