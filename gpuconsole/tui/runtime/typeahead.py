"""Keys typed faster than the focus moves: they are words, not commands."""

from __future__ import annotations

import time

from textual import events
from textual.app import App
from textual.screen import ModalScreen
from textual.widgets import Input

from gpuconsole.tui.widgets.field import Field

_TYPED = (
    events.Key, events.Paste, events.MouseDown, events.MouseScrollDown, events.MouseScrollUp
)  # fmt: skip


class TypeAhead(App[None]):
    """Brings letters that come after a key that opens a field, such as `/`, to that field.

    A key goes to what has the focus as it is typed, and is acted on only once it has climbed from
    there to the app. On a slow line, or pasted, `/resnet` has its `r` on the way before `/` is
    acted on; without this the `r` would be taken for a verb of the screen.
    """

    typed_at = 0.0
    """When somebody last typed, clicked, scrolled or pasted, by `time.monotonic`."""

    async def on_event(self, event: events.Event) -> None:
        """Note when somebody types."""
        if isinstance(event, _TYPED):
            self.typed_at = time.monotonic()
        await super().on_event(event)

    async def _on_key(self, event: events.Key) -> None:
        # Textual calls the App's own handler after this one, unless the default is prevented.
        field = self.focused
        # What edits a field does not climb from it: it was typed before the field had the focus.
        edits = isinstance(field, Field) and field.edits(event.key)
        if isinstance(field, Input) and (event.is_printable or edits):
            event.prevent_default()
            field.post_message(events.Key(event.key, event.character))
        elif event.is_printable and self._field_to_come():
            event.prevent_default()
            self.screen.call_after_refresh(self._type, self.screen, event)

    def _field_to_come(self) -> bool:
        """Whether a box to type into has been opened and does not have its field yet."""
        screen = self.screen
        return isinstance(screen, ModalScreen) and screen.focused is None and (
            getattr(screen, "TYPED_INTO", False)
        )  # fmt: skip

    def _type(self, screen: ModalScreen[object], event: events.Key) -> None:
        if screen is self.screen and isinstance(self.focused, Input):
            self.focused.post_message(events.Key(event.key, event.character))
