"""Lines in a frame, of which one that looks the same is not put together again.

Textual sets border, padding and effects beside each line whenever it draws it, and cuts a line in
two where only what is inside of the frame is to be drawn again. Here both sides of the frame are
taken from a line that Textual has drawn, and lines are drawn again from edge to edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size, Spacing
from textual.messages import Update
from textual.strip import Strip
from textual.widget import Widget

from gpuconsole.tui.render.text_cells import WholeStrip


class Frame(NamedTuple):
    """What surrounds the lines of a widget while neither its size nor its style changes."""

    size: Size
    gutter: Spacing
    plain: bool
    """Whether nothing is laid over the lines: Textual draws those itself."""
    left: Sequence[Segment] = ()
    right: Sequence[Segment] = ()
    filters: Sequence[LineFilter] = ()
    background: Color = Color(0, 0, 0)
    blank: Style = Style.null()

    @property
    def room(self) -> int:
        """Cells of a line inside."""
        return self.size.width - self.gutter.width

    def around(self, line: Strip) -> Strip:
        """Return a line with both sides of the frame."""
        if line.cell_length != self.room:
            line = line.adjust_cell_length(self.room, self.blank)
        for each in self.filters:
            line = line.apply_filter(each, self.background)
        if not self.left and not self.right:
            return line
        return WholeStrip([*self.left, *line, *self.right], self.size.width)


class FramedLines(Widget):
    """Its lines come from `lines_at`, each the same object for as long as it looks the same.

    With `ScrollView` it is the second base: Textual reads styles of the first alone.
    """

    _frame: Frame | None = None
    """What was drawn last; None once it may look different."""
    _edges: dict[int, Strip]
    """Lines of the frame itself, by their places."""
    _framed: dict[int, tuple[Strip, Strip]]
    """By its place inside: a line as it was given, and as it was drawn."""

    def lines_at(self, places: range) -> Iterable[Strip]:
        """Return the lines at these places inside of the frame."""
        return map(self.render_line, places)

    def refresh_rows(self, places: Iterable[int]) -> None:
        """Draw the lines at these places inside of the frame again."""
        left, width, rows = self.styles.gutter.left, self.outer_size.width, set(places)
        regions = []
        for first in rows:
            if first - 1 not in rows:
                # What lies together is one region: Textual works on each by itself.
                end = next(row for row in count(first) if row not in rows)
                regions.append(Region(-left, first, width, end - first))
        if not regions:
            return
        if not self.is_mounted or not self.display:
            self.refresh(*regions)
        else:
            # As `refresh`, which wakes the widget up to say the same to the screen.
            self._set_dirty(*regions)
            self._tell_screen()

    # -- drawing ----------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines of the widget, from the left edge of the frame to the right."""
        frame = self._frame
        if frame is None or frame.size != self.outer_size:
            frame = self._frame = self._surroundings()
        (width, height), gutter = frame.size, frame.gutter
        first, last = max(crop.y, gutter.top), min(crop.bottom, height - gutter.bottom)
        if not frame.plain or first >= last or (crop.x, crop.width) != (0, width):
            return super().render_lines(crop)
        lines = [self._edge(place, width) for place in range(crop.y, first)]
        places, framed = range(first - gutter.top, last - gutter.top), self._framed
        for place, line in zip(places, self.lines_at(places), strict=True):
            pair = framed.get(place)
            if pair is None or pair[0] is not line:
                pair = framed[place] = line, frame.around(line)
            lines.append(pair[1])
        lines += [self._edge(place, width) for place in range(last, crop.bottom)]
        return lines

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> FramedLines:
        """Draw all again, with the frame and its titles, or these regions of what is inside."""
        if repaint and not regions:
            self._frame = None
        super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if repaint and self.is_mounted and self.display:
            # With the rows: else a new title would be painted after them.
            self._tell_screen()
        return self

    def _tell_screen(self) -> None:
        """Have the screen draw what is to be drawn again."""
        self.screen.post_message(Update(self))

    def notify_style_update(self) -> None:
        """The frame looks different."""
        super().notify_style_update()
        self._frame = None

    def _surroundings(self) -> Frame:
        """Return the frame of now, and forget what was drawn in the one before."""
        self._edges, self._framed = {}, {}
        size, styles = self.outer_size, self.styles
        gutter = styles.gutter
        outlined = any(kind for kind, _ in styles.outline)
        covered = styles.tint.a or styles.has_rule("hatch") or styles.text_opacity != 1.0
        if outlined or covered or self.opacity != 1.0 or self.hover_style.link_id:
            return Frame(size, gutter, plain=False)
        if size.height <= gutter.height or size.width <= gutter.width:
            return Frame(size, gutter, plain=False)
        left: Sequence[Segment] = ()
        right: Sequence[Segment] = ()
        if gutter.width:
            (line,) = super().render_lines(Region(0, gutter.top, size.width, 1))
            left = tuple(line.crop(0, gutter.left))
            right = tuple(line.crop(size.width - gutter.right, size.width))
        _, background = self.background_colors
        blank = self.visual_style.rich_style
        filters = tuple(self.get_line_filters())
        return Frame(size, gutter, True, left, right, filters, background, blank)

    def _edge(self, place: int, width: int) -> Strip:
        if place not in self._edges:
            (self._edges[place],) = super().render_lines(Region(0, place, width, 1))
        return self._edges[place]
