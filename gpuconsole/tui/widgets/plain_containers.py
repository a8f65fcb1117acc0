"""Containers that show nothing but their background, which is most of what lies on a screen.

Textual draws each widget under a changed cell, so all containers around one: each of their lines
with its borders, of which these have none.
"""

from __future__ import annotations

from textual.containers import Container, Horizontal, Vertical
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


def ground(widget: Widget, crop: Region) -> list[Strip]:
    """Return the lines of a widget without border or content."""
    line = Strip.blank(crop.width, widget.visual_style.rich_style)
    if filters := widget.get_line_filters():
        _, background = widget.background_colors
        for each in filters:
            line = line.apply_filter(each, background)
    return [line] * crop.height


class Box(Container):
    """A container with a layout that the stylesheet names."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the background."""
        return ground(self, crop)


class Column(Vertical):
    """A container of widgets one below the other."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the background."""
        return ground(self, crop)


class Row(Horizontal):
    """A container of widgets side by side."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the background."""
        return ground(self, crop)
