"""Lines at the bottom into which a filter, a search or a short question is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.highlighter import Highlighter
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from gpuconsole.core.filters import Filter, FilterError, parse
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.text_cells import text
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.field import Field

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp


GRAMMAR_HINT = "rack:r1 gpu:a100|h100 util<20 freemem>=24 free>=4 user:me state:down !word"
MOST_BEFORE = 8
"""Characters that are shown before what is wrong."""


class _Underline(Highlighter):
    """Underlines the part of what is typed that is wrong."""

    def __init__(self) -> None:
        self.wrong: tuple[int, int] | None = None

    def highlight(self, text: Text) -> None:
        """Mark the mistake."""
        if self.wrong is not None:
            text.stylize("underline bold", *self.wrong)


class FilterBar(Horizontal):
    """Hidden until opened; posts what is typed as it is typed."""

    BINDINGS = bindings("filter")

    @dataclass
    class Changed(Message):
        """A filter that can be read was typed."""

        text: str
        filter: Filter

    @dataclass
    class Searched(Message):
        """Plain text was typed, where the bar is for searching. `done` on enter."""

        text: str
        done: bool

    class Left(Message):
        """The bar was left."""

    def __init__(self, *, search: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._search = search
        self._underline = _Underline()

    def compose(self) -> ComposeResult:
        """A slash, the input, and a note at the right."""
        yield Static("/", id="filter-slash", markup=False)
        yield Field(
            compact=True,
            id="filter-input",
            placeholder="" if self._search else GRAMMAR_HINT,
            highlighter=self._underline,
        )
        yield Static("", id="filter-note", markup=False)

    def open(self) -> None:
        """Show the bar and type into it."""
        self.add_class("-open")
        # At once: what is typed next is meant for it already.
        self.screen.set_focus(self.query_one(Input))

    @property
    def is_open(self) -> bool:
        """Whether the bar is shown."""
        return self.has_class("-open")

    def note(self, words: str) -> None:
        """Say something at the right, such as the number of matches."""
        if not self.query_one(Input).has_class("-wrong"):
            self.query_one("#filter-note", Static).update(words, layout=True)

    def clear(self) -> None:
        """Clear what is typed, and hide the bar."""
        self.query_one(Input).value = ""
        self._leave()

    def action_leave(self) -> None:
        """Clear what is typed; leave when nothing is."""
        field = self.query_one(Input)
        if field.value:
            field.value = ""
            return
        self._leave()

    def _leave(self) -> None:
        if not self.query_one(Input).value:
            self.remove_class("-open")
        self.post_message(self.Left())

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        if self._search:
            self.post_message(self.Searched(event.value, True))
        self._leave()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._search:
            self.post_message(self.Searched(event.value, False))
            return
        field = self.query_one(Input)
        try:
            parsed = parse(event.value, self._me)
        except FilterError as error:
            field.add_class("-wrong")
            self._underline.wrong = (error.column, error.column + error.length)
            self._show_error(error, event.value)
            good = event.value[: error.column].rpartition(" ")[0]
            self.post_message(self.Changed(good, _parsed(good, self._me)))
            return
        field.remove_class("-wrong")
        self._underline.wrong = None
        self.query_one("#filter-note", Static).update("", layout=True)
        self.post_message(self.Changed(event.value, parsed))

    @property
    def _me(self) -> str:
        """Whom `user:me` means."""
        return cast("ConsoleApp", self.app).session.user

    def _show_error(self, error: FilterError, typed: str) -> None:
        ink = ink_of(self)
        wrong = typed[error.column : error.column + error.length] or "…"
        before = typed[: error.column]
        if len(before) > MOST_BEFORE:
            before = f"…{before[-MOST_BEFORE:]}"
        why = msg("col {n}: {message_text}", n=error.column + 1, message_text=error.message)
        pieces = [
            (before, ink.muted),
            (wrong, ink.bad + Style(underline=True, bold=True)),
            (f"  {ink.say(why)}", ink.bad),
        ]
        self.query_one("#filter-note", Static).update(text([pieces]), layout=True)


def _parsed(text: str, me: str) -> Filter:
    """Parse the part before a mistake: the valid part stays active while the user types."""
    try:
        return parse(text, me)
    except FilterError:
        return Filter()


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
