"""Keys typed faster than the focus moves, or than a terminal tells them apart."""

from __future__ import annotations

import time
from collections import deque

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.keys import _character_to_key
from textual.screen import ModalScreen
from textual.widgets import Input

from gpuconsole.tui.widgets.field import Field

_TYPED = (
    events.Key, events.Paste, events.MouseDown, events.MouseScrollDown, events.MouseScrollUp
)  # fmt: skip

SIGNS = dict(zip("¡™£¢∞§¶•ªº–≠", "1234567890-=", strict=True))
"""What Textual takes Escape and a key for that come at once: what a Mac's keyboard types for that
key with Option. Other letters it takes for the letter with Alt."""
WRITTEN = frozenset("£¢§º–¡ª")
"""Those of them that somebody may write in a field."""


def _after_escape(letter: str) -> list[events.Key]:
    name = letter if letter.isalnum() else _character_to_key(letter)
    return [events.Key("escape", "\x1b"), events.Key(name, letter)]


class TypeAhead(App[None]):
    """Brings letters that come after a key that opens a field, such as `/`, to that field.

    A key goes to what has the focus as it is typed, and is acted on only once it has climbed from
    there to the app. On a slow line, or pasted, `/resnet` has its `r` on the way before `/` is
    acted on; without this the `r` would be taken for a verb of the screen.
    """

    _later: deque[events.Key] | None = None
    """Keys that wait for the one before them to be acted on; None where none does."""
    typed_at = 0.0
    """When somebody last typed, clicked, scrolled or pasted, by `time.monotonic`."""

    async def on_event(self, event: events.Event) -> None:
        """Note when somebody types; tell Escape and a letter apart that came as one key."""
        if isinstance(event, _TYPED):
            self.typed_at = time.monotonic()
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
        elif self._later is not None:
            self._later.append(event)
        else:
            first, *later = self._apart(event)
            await super().on_event(first)
            if later:
                self._later = deque(later)
                self._climb(deque((self.focused or self.screen).ancestors_with_self))

    def _climb(self, nodes: deque[DOMNode]) -> None:
        """Press the keys that wait once what was pressed before has climbed from the focus, by its
        ancestors, to the app."""
        if nodes:
            nodes.popleft().call_later(self._climb, nodes)
        else:
            self.screen.call_after_refresh(self._press_later)

    def _press_later(self) -> None:
        keys, self._later = self._later or (), None
        for key in keys:
            self.post_message(key)

    def _apart(self, event: events.Key) -> list[events.Key]:
        """Return the keys that were pressed: Escape and a letter where they came as one."""
        letter = event.character or ""
        if letter in SIGNS:
            typed = letter in WRITTEN and isinstance(self.focused, Input)
            return [event] if typed else _after_escape(SIGNS[letter])
        with_alt = event.key.startswith("alt+") and len(letter) == 1 and letter.isprintable()
        # Alt and a letter move within a text in other programs, and a question is not to be
        # answered by what may have been meant.
        asks = isinstance(self.focused, Input) or isinstance(self.screen, ModalScreen)
        if not with_alt or asks or event.key in self.screen.active_bindings:
            return [event]
        return _after_escape(letter)

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
