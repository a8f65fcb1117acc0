"""Panes of the triage screen: one that tells its width, and the numbered things to do."""

from __future__ import annotations

from textual.message import Message

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.widgets.panel import Panel


class Pane(Panel):
    """A panel that tells when it has another size: its lines are made for its width."""

    class Resized(Message):
        """Lines are to be made again."""

    def on_resize(self) -> None:
        """Tell it."""
        self.post_message(self.Resized())


class Actions(Pane, can_focus=True):
    """What can be done, by number. With the focus here digits mean actions, not screens."""

    BINDINGS = bindings("actions")

    @dataclass
    class Moved(Message):
        """Another action is looked at."""

        step: int

    @dataclass
    class Chosen(Message):
        """An action is to be done; 0 is the one that is looked at."""

        number: int

    class Left(Message):
        """The list has the keys again."""

    def action_move(self, step: int) -> None:
        """Look at another action."""
        self.post_message(self.Moved(step))

    def action_do(self, number: int) -> None:
        """Do one."""
        self.post_message(self.Chosen(number))

    def action_leave(self) -> None:
        """Go back to the list."""
        self.post_message(self.Left())
