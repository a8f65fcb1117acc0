"""Which kind of session is to be opened."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from gpuconsole.core.engines.terminals import JUPYTER, SESSION
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box


class NewSessionScreen(Dialog[str | None]):
    """Ask for a kind of session; returns `SESSION`, `JUPYTER` or None."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = f"#{SESSION}"

    def compose(self) -> ComposeResult:
        """What it takes, and a button for each kind."""
        say = ink_of(self).say
        words = (
            "It waits for one free device and holds it until it is ended.",
            "For more devices, an image or a project: gpuconsole shell --help",
        )
        with Vertical(id="dialog", classes="panel wide"):
            yield Static("\n".join(map(say, words)), markup=False, id="dialog-text")
            with Horizontal(id="dialog-buttons"):
                yield Button(say("Shell"), id=SESSION, compact=True)
                yield Button("JupyterLab", id=JUPYTER, compact=True)
                yield Button(say("Cancel"), id="no", compact=True)

    def on_mount(self) -> None:
        """Name the box."""
        super().on_mount()
        name_box(self.query_one("#dialog"), "Open a session?", "tab chooses  enter OK  esc cancel")

    def action_yes(self) -> None:
        """A kind is chosen by its button."""

    def action_no(self) -> None:
        """Cancel."""
        self.dismiss(None)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        kind = event.button.id
        self.dismiss(kind if kind in (SESSION, JUPYTER) else None)
