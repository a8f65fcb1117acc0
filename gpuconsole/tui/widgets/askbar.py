"""A line at the bottom into which a short question is typed."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from gpuconsole.tui.ink import ink_of
from gpuconsole.tui.widgets.bindings import bindings
from gpuconsole.tui.widgets.field import Field


class AskBar(Horizontal):
    """Hidden until opened; posts what was entered. The screen says what is wrong with it."""

    BINDINGS = bindings("filter")

    @dataclass
    class Asked(Message):
        """Something was entered."""

        text: str

    class Left(Message):
        """The bar was left."""

    def __init__(self, label: str, hint: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label, self._hint = label, hint

    def compose(self) -> ComposeResult:
        """What is asked, the input, and a note at the right."""
        say = ink_of(self).say
        yield Static(say(self._label), classes="ask-label", markup=False)
        yield Field(compact=True, placeholder=say(self._hint), classes="ask-input")
        yield Static("", classes="ask-note", markup=False)

    def open(self) -> None:
        """Show the bar and type into it."""
        self.add_class("-open")
        # At once: what is typed next is meant for it already.
        self.screen.set_focus(self.query_one(Input))

    def restyle(self) -> None:
        """Ask in the language of now."""
        say = ink_of(self).say
        self.query_one(".ask-label", Static).update(say(self._label))
        self.query_one(Input).placeholder = say(self._hint)

    def refuse(self, words: str) -> None:
        """Say what is wrong; what was typed stays."""
        self.query_one(".ask-note", Static).update(words)

    def close(self) -> None:
        """Hide the bar."""
        self.remove_class("-open")

    def action_leave(self) -> None:
        """Leave; what was typed is there the next time."""
        self.close()
        self.post_message(self.Left())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.refuse("")

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Asked(event.value.strip()))
