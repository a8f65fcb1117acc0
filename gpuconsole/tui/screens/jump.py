"""Jump mode: a letter at every place in sight; pressing it goes there."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static

from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.jumpable import Place, labels


class JumpLabel(Static):
    """The letters of one place."""

    def __init__(self, letters: str, place: Place) -> None:
        super().__init__(markup=False)
        self.letters = letters
        self.place = place

    def on_mount(self) -> None:
        """Stand over the place."""
        self.styles.offset = (self.place.at.x, self.place.at.y)
        self.styles.width = len(self.letters)
        self.spell("")

    def spell(self, typed: str) -> None:
        """Show what is still to be typed; go out when it is another's."""
        self.display = self.letters.startswith(typed)
        ink = ink_of(self)
        text = Text(typed, ink.muted)
        text.append(self.letters[len(typed) :], ink.mark)
        self.update(text, layout=False)


class JumpScreen(ModalScreen[None]):
    """Letters over the screen below."""

    BINDINGS = bindings("jump")

    def __init__(self, places: list[Place]) -> None:
        super().__init__()
        self._places = places
        self._typed = ""

    def compose(self) -> ComposeResult:
        """One label a place."""
        for letters, place in zip(labels(len(self._places)), self._places, strict=True):
            yield JumpLabel(letters, place)
        hint = ink_of(self).say(" a letter goes there   esc stays ")
        yield Static(hint, id="jump-hint", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Narrow the labels by the letter; the last one left is gone to."""
        letter = event.character or ""
        if len(letter) != 1 or not letter.isalpha():
            return
        event.stop()
        typed = self._typed + letter
        left = [label for label in self.query(JumpLabel) if label.letters.startswith(typed)]
        if not left:
            self._leave()
        elif left[0].letters == typed:
            self._leave()
            self.app.call_later(left[0].place.go)
        else:
            self._typed = typed
            for label in self.query(JumpLabel):
                label.spell(typed)

    def on_click(self) -> None:
        """A click leaves, as it would leave a menu."""
        self._leave()

    def action_leave(self) -> None:
        """Cancel."""
        self._leave()

    def _leave(self) -> None:
        if self.is_current:
            self.dismiss()
