"""What a suggestion changes in the shipped copy, shown before it is applied."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from gpuconsole.core.estimate import Suggestion
from gpuconsole.core.text import clean
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.preflight_report import diff_lines
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import Panel, name_box

_FRAME = 9
"""Lines of the dialog around its diff."""


class ChangeScreen(Dialog[bool]):
    """Show a diff; it is applied only when that is said."""

    BINDINGS = bindings("change")

    def __init__(self, suggestion: Suggestion, script: str) -> None:
        super().__init__()
        self._suggestion, self._script = suggestion, script

    def compose(self) -> ComposeResult:
        """What it is for, and the diff."""
        say = ink_of(self).say
        words = f"{say(self._suggestion.text)} {say('Your file stays as it is.')}"
        with Vertical(id="dialog", classes="panel diff"):
            yield Static(clean(words), markup=False, id="dialog-text")
            yield Panel(id="diff")

    def on_mount(self) -> None:
        """Name the box."""
        super().on_mount()
        name_box(
            self.query_one("#dialog"),
            "Change the shipped copy so?",
            "enter applies  esc leaves  up down scroll",
        )
        self.call_after_refresh(self._draw)

    def on_resize(self, event: events.Resize) -> None:
        """The diff is made for a width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        panel = self.query_one("#diff", Panel)
        lines = diff_lines(ink_of(self), self._suggestion.edits, self._script, panel.inner_width)
        panel.put(lines)
        panel.styles.height = max(1, min(panel.virtual_size.height, self.app.size.height - _FRAME))

    def action_answer(self, answer: bool) -> None:
        """Take an answer."""
        self.dismiss(answer)

    def action_scroll(self, pages: int) -> None:
        """Scroll the diff."""
        panel = self.query_one("#diff", Panel)
        panel.scroll_relative(y=pages * max(1, panel.size.height - 1), animate=False)
