"""What all dialogs are: over the screen below, which stays in sight, dimmed."""

from __future__ import annotations

from typing import TypeVar

from rich.segment import Segment
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.strip import Strip

from gpuconsole.tui.style.styles import ink_of

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """A screen over another one.

    What lies below is drawn once, in the colour of rules: to blend two screens at every key costs
    ten times as much. Where colours are few, only ASCII is drawn or the size has changed since, the
    border has to be enough.
    """

    def __init__(self) -> None:
        super().__init__()
        self._behind: tuple[str, ...] = ()
        self._behind_size = Size(0, 0)

    def on_mount(self) -> None:
        """Keep what is in sight below."""
        stack = self.app.screen_stack
        if len(stack) > 1:
            strips = stack[-2]._compositor.render_strips()
            self._behind = tuple(strip.text for strip in strips)
            self._behind_size = self.app.size

    def render_line(self, y: int) -> Strip:
        """Draw a line of what lies below."""
        ink = ink_of(self)
        plain = ink.ascii or ink.few_colors or self.size != self._behind_size
        if plain or y >= len(self._behind):
            return Strip.blank(self.size.width, ink.text)
        return Strip([Segment(self._behind[y], ink.below)])
