"""Help: the keys of the screen below, the legend and the thresholds."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from gpuconsole.tui.ink import ink_of
from gpuconsole.tui.keys import AREAS, in_area
from gpuconsole.tui.presentation.cells import Piece, fit, text
from gpuconsole.tui.presentation.legend import legend_lines, threshold_lines
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.widgets.bindings import bindings
from gpuconsole.tui.widgets.panel import name_box


class HelpScreen(ModalScreen[None]):
    """What can be pressed here."""

    BINDINGS = bindings("help")

    def __init__(self, about: ConsoleScreen) -> None:
        super().__init__()
        self._about = about

    def compose(self) -> ComposeResult:
        """One scrolling box."""
        with VerticalScroll(id="help", classes="panel"):
            yield Static(markup=False, id="help-text")

    def on_mount(self) -> None:
        """Write the help."""
        about = self._about
        box = self.query_one("#help")
        name_box(box, f"Help: {AREAS[about.AREA]}", "esc closes")
        box.focus()
        self.query_one("#help-text", Static).update(text(self._lines()))

    def action_close(self) -> None:
        """Close the help."""
        self.dismiss()

    def _lines(self) -> list[list[Piece]]:
        ink = ink_of(self)
        about = self._about
        shared = ("app",) if about.FORM else ("go", "time", "app")
        lines: list[list[Piece]] = []
        for area in (about.AREA, *about.WIDGET_AREAS, *shared):
            lines += [[(AREAS[area], ink.title)]]
            for key in in_area(area):
                off = key.writes and about.console.read_only
                style = ink.rule if off else ink.text
                note = "   (read-only)" if off else ""
                lines.append(
                    [("  ", ink.text), (fit(key.shown, 16), ink.rule if off else ink.key),
                     (key.help + note, style)]
                )  # fmt: skip
            lines.append([])
        lines += [[("Legend", ink.title)], *legend_lines(ink), []]
        return [*lines, [("Thresholds and filter", ink.title)], *threshold_lines(ink)]
