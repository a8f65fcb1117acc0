"""The line of time at the bottom of a screen, while one looks at the past; a click goes there."""

from __future__ import annotations

from textual import events
from textual.message import Message

from gpuconsole.tui.render.plots.time_slider import TimeView, Track, slider_line
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import Line


class Slider(Line):
    """Shown with a view of time, hidden without."""

    class Chosen(Message):
        """A person clicked at a time."""

        def __init__(self, at: float) -> None:
            super().__init__()
            self.at = at

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self._track: Track | None = None

    def show(self, view: TimeView | None, width: int) -> None:
        """Show this view from now on, on a screen so wide."""
        self.display = view is not None
        if view is not None:
            pieces, self._track = slider_line(ink_of(self), view, width)
            self.put(pieces)

    def on_click(self, event: events.Click) -> None:
        """Go to the time under the pointer."""
        at = self._track.time_at(event.x) if self._track is not None else None
        if at is not None:
            self.post_message(self.Chosen(at))
