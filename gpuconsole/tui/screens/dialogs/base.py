"""Dialogs: opaque, brief, safe by default."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Static

from gpuconsole.core.text import clean
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.field import Field
from gpuconsole.tui.widgets.panel import name_box


class ConfirmScreen(Dialog[bool]):
    """Ask before harm: names the thing and the consequence; the focus is on keeping it."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = "#no"

    def __init__(self, question: str, consequence: str, yes: str, no: str = "Cancel") -> None:
        super().__init__()
        self._question, self._consequence, self._yes, self._no = question, consequence, yes, no

    def compose(self) -> ComposeResult:
        """Question, consequence, two buttons."""
        say = ink_of(self).say
        with Vertical(id="dialog", classes="panel"):
            yield Static(clean(say(self._consequence)), markup=False, id="dialog-text")
            with Horizontal(id="dialog-buttons"):
                yield Button(say(self._no), id="no", compact=True)
                yield Button(say(self._yes), id="yes", variant="error", compact=True)

    def on_mount(self) -> None:
        """Name the box."""
        name_box(self.query_one("#dialog"), self._question, "y yes  n no")

    def action_yes(self) -> None:
        """Do it."""
        self.dismiss(True)

    def action_no(self) -> None:
        """Cancel."""
        self.dismiss(False)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class AskScreen(Dialog[str | None]):
    """Ask for a line of text. With `must_be`, only exactly that is accepted; `refuse` says what is
    wrong with an answer, "" for one that will do."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = "#answer"
    TYPED_INTO = True

    def __init__(
        self, question: str, explanation: str, *, value: str = "", must_be: str = "",
        number: bool = False, refuse: Callable[[str], str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._refuse = refuse or (lambda _: "")
        self._question, self._explanation = question, explanation
        self._value, self._must_be, self._number = value, must_be, number

    def compose(self) -> ComposeResult:
        """Explanation, input, a line for what is wrong."""
        say = ink_of(self).say
        with Vertical(id="dialog", classes="panel"):
            yield Static(clean(say(self._explanation)), markup=False, id="dialog-text")
            yield Field(
                self._value, id="answer", compact=True, type="integer" if self._number else "text"
            )
            yield Static("", markup=False, id="dialog-wrong")

    def on_mount(self) -> None:
        """Name the box."""
        name_box(self.query_one("#dialog"), self._question, "enter OK  esc cancel")

    def action_yes(self) -> None:
        """Letters are typed here; enter accepts."""

    def action_no(self) -> None:
        """Cancel."""
        self.dismiss(None)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        answer = event.value.strip()
        if self._must_be and answer != self._must_be:
            self.query_one("#dialog-wrong", Static).update(
                ink_of(self).say("That is not what is asked for.")
            )
        elif self._number and not _is_number(answer):
            self.query_one("#dialog-wrong", Static).update(
                ink_of(self).say("A whole number is needed.")
            )
        elif wrong := self._refuse(answer):
            self.query_one("#dialog-wrong", Static).update(clean(ink_of(self).say(wrong)))
        else:
            self.dismiss(answer)


def _is_number(text: str) -> bool:
    """Whether a text is a whole number of a length that a person would type."""
    return len(text) <= 12 and text.removeprefix("-").isdecimal()
