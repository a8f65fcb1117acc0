"""Help: the keys of the screen below, the legend and the thresholds."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from gpuconsole.tui.keymap.registry import AREAS
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.legend import legend_lines, threshold_lines
from gpuconsole.tui.render.text_cells import Piece, fit, text, wrapped
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box

KEYS = 16
"""Cells for the keys, before what they do."""
WIDTH = 74
"""Cells of a line until the box has been laid out."""


def areas_of(widget: Widget | None) -> tuple[str, ...]:
    """Return the areas of the keys that a focused widget listens to, the nearest first."""
    nodes = widget.ancestors_with_self if widget is not None else []
    ids = (
        binding.id or ""
        for node in nodes
        if isinstance(node, Widget) and not isinstance(node, Screen)
        for binding in node.BINDINGS
        if isinstance(binding, Binding)
    )
    return tuple(dict.fromkeys(id_.partition(".")[0] for id_ in ids if "." in id_))


class HelpScreen(Dialog[None]):
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
        say = ink_of(self).say
        box = self.query_one("#help")
        name_box(box, f"{say('Help')}: {say(AREAS[about.AREA])}", "esc closes")
        box.focus()
        self._write()

    def on_resize(self) -> None:
        """Break the lines again, once the box has its width."""
        self.call_after_refresh(self._write)

    def _write(self) -> None:
        words = self.query_one("#help-text", Static)
        words.update(text(self._lines(words.content_size.width or WIDTH)))

    def action_close(self) -> None:
        """Close the help."""
        self.dismiss()

    def _lines(self, width: int) -> list[list[Piece]]:
        ink = ink_of(self)
        about = self._about
        shared = ("app",) if about.FORM else ("go", "time", "app")
        focused = areas_of(about.focused)
        say = ink.say
        title = {area: f"{say(AREAS[area])} {say('(focused)')}" for area in focused}
        lines: list[list[Piece]] = []
        for area in dict.fromkeys((about.AREA, *focused, *about.WIDGET_AREAS, *shared)):
            lines += [[(title.get(area, say(AREAS[area])), ink.title)]]
            for key in about.console.keys_of(area):
                off = key.writes and about.console.read_only
                style = ink.rule if off else ink.text
                note = "   " + say("(read-only)") if off else ""
                shown = fit(key.shown, KEYS)
                for part in wrapped(say(key.help) + note, width - KEYS - 2):
                    lines.append(
                        [("  ", ink.text), (shown, ink.rule if off else ink.key), (part, style)]
                    )
                    shown = " " * KEYS
            lines.append([])
        lines += [[(say("Legend"), ink.title)], *legend_lines(ink), []]
        return [
            *lines,
            [(say("Thresholds and filter"), ink.title)],
            *threshold_lines(ink, about.session.settings),
        ]
