"""A line to type into that acts on keys in the order in which they were typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input

_EDITING: Mapping[str, str] = {
    key: binding.action
    for binding in Input.BINDINGS
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
}
"""What Input itself does at a key. What it inherits, such as scrolling at `down`, it leaves to the
form around it."""


class Field(Input):
    """An `Input` with editing keys that act at once.

    Textual acts on a bound key, such as backspace, only once it has bubbled up to the app, while
    letters go into the field directly: of a burst of keys, the letters after a backspace would be
    inserted before it acts. Tab moves the focus at once for the same reason: what is typed after it
    is for the next field.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
    ]

    def edits(self, key: str) -> bool:
        """Tell whether the field itself does something at a key that is no letter."""
        return key in _EDITING

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable or not self.edits(event.key):
            # Textual calls the handler of Input after this one.
            return
        event.stop()
        event.prevent_default()
        await self.run_action(_EDITING[event.key])
