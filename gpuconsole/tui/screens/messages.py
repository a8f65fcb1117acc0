"""All toasts of this session, the newest first."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.text_cells import Piece, text, wrapped
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp

MOST = 500
_MARKS = {"error": "!", "warning": "~"}
_LEFT = 12


@dataclass(frozen=True, slots=True)
class Said:
    """A toast, and when it came (seconds since the epoch)."""

    at: float
    severity: str
    title: str
    message: str


Messages = deque[Said]


class MessagesScreen(Dialog[None]):
    """What passed too fast to be read."""

    BINDINGS = bindings("messages")
    AUTO_FOCUS = "#messages"

    def compose(self) -> ComposeResult:
        """One scrolling box."""
        with VerticalScroll(id="messages", classes="panel"):
            yield Static(markup=False, id="messages-text")

    def on_mount(self) -> None:
        """Write the messages."""
        box = self.query_one("#messages")
        said = self.console.messages
        name_box(box, f"messages of this session: {len(said)}", "y copies  esc closes")
        ink = ink_of(self)
        lines = self._lines() if said else [[(ink.say("Nothing has been said yet."), ink.muted)]]
        self.query_one("#messages-text", Static).update(text(lines))

    def action_close(self) -> None:
        """Close the list."""
        self.dismiss()

    def action_copy(self) -> None:
        """Copy all of it."""
        said = self.console.messages
        self.app.copy_to_clipboard("\n".join(_plain(each) for each in said))
        self.notify(f"Copied {len(said)} messages.", timeout=3, markup=False)

    def _lines(self) -> list[list[Piece]]:
        ink = ink_of(self)
        styles = {"error": ink.bad, "warning": ink.warn}
        room = max(20, min(96, self.app.size.width) - _LEFT - 4)
        lines: list[list[Piece]] = []
        for each in reversed(self.console.messages):
            style = styles.get(each.severity, ink.text)
            words = ". ".join(filter(None, (each.title, " ".join(each.message.split()))))
            for number, part in enumerate(wrapped(words, room)):
                when = f"{_clock(each.at)} {_MARKS.get(each.severity, ' ')} " if not number else ""
                lines.append([(f"{when:<{_LEFT}}", ink.muted), (part, style)])
        return lines

    @property
    def console(self) -> ConsoleApp:
        """The app, typed."""
        return cast("ConsoleApp", self.app)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S")


def _plain(said: Said) -> str:
    return clean(f"{_clock(said.at)}  {said.severity}  {said.title}  {said.message}")
