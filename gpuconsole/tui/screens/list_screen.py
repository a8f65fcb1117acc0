"""What screens that are a list with a filter share: typing it, marks, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events, on

from gpuconsole.core.filters import Filter
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.row_list import Rows


class ListScreen(ConsoleScreen):
    """A screen with `Rows` and a `FilterBar`."""

    AUTO_FOCUS = "Rows"
    THINGS: ClassVar[str] = ""
    """What the rows are, in the plural."""

    def __init__(self, draw_titles: Callable[[], None]) -> None:
        """`draw_titles` names the list: how many of how many, the filter, the marks."""
        super().__init__()
        self._name_list = draw_titles
        self._filter = Filter()
        self._filter_text = ""
        self._ids: Sequence[str] = ()
        self._noted = -1
        """How many rows match, as the filter's bar says."""

    def show(self, picture: Picture, *, frame: bool = True) -> None:
        """Draw a new picture, and say how many rows of it match."""
        super().show(picture, frame=frame)
        if self.ready and self._filter_text and len(self._ids) != self._noted:
            self._noted = len(self._ids)
            say = self.ink.say
            some = f"{self._noted} {self.THINGS} match"
            matches_text = say(f"1 {self.THINGS[:-1]} matches" if self._noted == 1 else some)
            self.query_one(FilterBar).note(matches_text + say("   esc clears"))

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open()

    def action_back(self) -> None:
        """Take marks away, clear the filter, then go back."""
        rows = self.query_one(Rows)
        if rows.marked:
            rows.unmark()
        elif self._filter_text:
            self.query_one(FilterBar).clear()
        else:
            super().action_back()

    def restyle(self) -> None:
        """Draw in another theme."""
        self.query_one(Rows).restyle()
        super().restyle()

    def on_resize(self, event: events.Resize) -> None:
        """Other columns fit."""
        super().on_resize(event)
        self.call_after_refresh(lambda: self.show(self.picture))

    @on(FilterBar.Changed)
    def _filter_typed(self, event: FilterBar.Changed) -> None:
        self._filter, self._filter_text = event.filter, event.text.strip()
        self._noted = -1
        self.show(self.picture)

    @on(FilterBar.Left)
    def _filter_left(self) -> None:
        if not self._filter_text:
            self.query_one(FilterBar).remove_class("-open")
        self.query_one(Rows).focus()

    @on(Rows.Marked)
    def _rows_marked(self) -> None:
        self._name_list()
