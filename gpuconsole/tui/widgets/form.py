"""The submit form: labelled one-line inputs; posts what is typed, knows nothing of tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Static

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.task_form import FIELDS
from gpuconsole.tui.widgets.field import Field

MOST_ENTRIES = 2000


class PathSuggester(Suggester):
    """Completes the name of a Python script or a folder."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the first name in the folder that goes on from what is typed."""
        return await asyncio.to_thread(completed, value) if value else None


def completed(typed: str) -> str | None:
    """Complete a path; None when nothing in the folder goes on from it, or it cannot be read."""
    folder, stem = os.path.split(typed)
    try:
        place = Path(folder).expanduser() if folder else Path.cwd()
        for entry in sorted(place.iterdir())[:MOST_ENTRIES]:
            if not entry.name.startswith(stem) or (entry.name.startswith(".") and not stem):
                continue
            if entry.suffix == ".py":
                return os.path.join(folder, entry.name)
            if entry.is_dir():
                return os.path.join(folder, entry.name) + "/"
    except (OSError, RuntimeError):
        # A folder that cannot be read, or a home that is not known, completes to nothing.
        return None
    return None


class Form(VerticalScroll, can_focus=False):
    """All fields, one a line."""

    BINDINGS = bindings("form")

    @dataclass
    class Changed(Message):
        """Something was typed."""

        values: Mapping[str, str]

    @dataclass
    class Recalled(Message):
        """An older submission is wanted (`way` 1), or a newer one."""

        way: int

    recalling = False
    """Whether `down` in the first field means a newer submission, not the next field."""

    def compose(self) -> ComposeResult:
        """A label and an input a line, and a line for what is wrong."""
        say = ink_of(self).say
        for field in FIELDS:
            with Horizontal(classes="field"):
                yield Static(
                    say(field.label), id=f"label-{field.name}", classes="field-label", markup=False
                )
                yield Field(
                    id=f"field-{field.name}",
                    classes="field-input",
                    placeholder=say(field.hint),
                    compact=True,
                    select_on_focus=False,
                    suggester=PathSuggester() if field.name == "script" else None,
                )
        yield Static("", id="form-note", classes="field-note", markup=False)

    def restyle(self) -> None:
        """Name the fields in the language of now."""
        say = ink_of(self).say
        for field in FIELDS:
            self.query_one(f"#label-{field.name}", Static).update(say(field.label))
            self._input(field.name).placeholder = say(field.hint)

    @property
    def values(self) -> dict[str, str]:
        """What is typed, by field."""
        return {field.name: self._input(field.name).value for field in FIELDS}

    def fill(self, values: Mapping[str, str]) -> None:
        """Put values into the fields."""
        for name, value in values.items():
            field = self._input(name)
            if field.value != value:
                field.value = value
                field.cursor_position = len(value)

    def complain(self, field: str, message: str) -> None:
        """Say what is wrong with a field; "" takes it back."""
        for each in FIELDS:
            self._input(each.name).set_class(each.name == field and bool(message), "-wrong")
        say = ink_of(self).say
        note = f"{say(field)}: {say(message)}" if message else ""
        self.query_one("#form-note", Static).update(note)

    def begin(self, name: str = "script") -> None:
        """Focus a field, by default the first."""
        self._input(name).focus()

    def action_next(self) -> None:
        """Go to the next field; from a recalled submission to a newer one."""
        if self.recalling and self._on_script:
            self.post_message(self.Recalled(-1))
        else:
            self.screen.focus_next(".field-input")

    def action_previous(self) -> None:
        """Go to the field before; before the first are the submissions of the past."""
        if self._on_script:
            self.post_message(self.Recalled(1))
        else:
            self.screen.focus_previous(".field-input")

    @property
    def _on_script(self) -> bool:
        return self._input("script").has_focus

    def _input(self, name: str) -> Input:
        return self.query_one(f"#field-{name}", Input)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(self.values))

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        # What was recalled is taken.
        self.recalling = False
        self.action_next()
