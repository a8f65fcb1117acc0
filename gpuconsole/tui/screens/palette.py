"""The command palette, for fingers that are faster than the screen."""

from __future__ import annotations

from textual import events
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette


class Palette(CommandPalette):
    """Textual's palette, which may be left before it stands and more than once."""

    def on_mount(self, event: events.Mount) -> None:
        """Left already: there is no screen below it to offer anything for."""
        if not self.is_current:
            event.prevent_default()

    def dismiss(self, result: object = None) -> AwaitComplete:
        """Leave, unless that has been done."""
        return super().dismiss(None) if self.is_current else AwaitComplete()
