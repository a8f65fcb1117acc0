"""What installed packages offer in the palette (`gpuconsole.extensions`), and what they answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.extensions import MAX_TITLE, Action, Extension, Selected, actions, output_of
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.palette.entries import Entry, Item
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp
    from gpuconsole.tui.screens.base import ConsoleScreen


@dataclass(frozen=True, slots=True)
class ExtensionActions:
    """Actions of installed packages, for what is under the cursor."""

    console: ConsoleApp
    screen: ConsoleScreen
    group: str = "action"
    shown_at_once: bool = True

    def items(self) -> Iterator[Item]:
        """Give an item an action that has what it needs."""
        selected = selection(self.screen)
        for extension in actions().loaded:
            action = extension.value
            if action.changes and self.console.read_only:
                continue
            if action.on and getattr(selected, action.on) is None:
                continue
            title = clean(action.title, MAX_TITLE)
            key = f"extension {extension.name}"
            run = partial(self._run, extension, selected)
            make = partial(Entry, key, title, extension.package, run)
            yield Item(key, f"{title} {extension.name} {extension.package}".lower(), make)

    def _run(self, extension: Extension[Action], selected: Selected) -> None:
        """Run it aside, and show what it says."""
        title = clean(extension.value.title, MAX_TITLE)
        self.console.notify(msg("{title} is running.", title=title), markup=False)
        work = partial(self._shown, title, extension.value, selected)
        aside(self.console, work, group="extension")

    async def _shown(self, title: str, action: Action, selected: Selected) -> None:
        said = await _on_a_thread(action, selected)
        self.console.push_screen(OutputScreen(title, said))


def selection(screen: ConsoleScreen) -> Selected:
    """Return the documents of what is under the cursor of a screen."""
    from gpuconsole.session.export.status import device_document, host_document

    host, device, job = screen.under_cursor()
    now = screen.picture.now
    return Selected(
        None if host is None else host_document(host, now),
        None if device is None else device_document(device, now),
        None if job is None else job.as_json(),
    )


async def _on_a_thread(action: Action, selected: Selected) -> str:
    """Run an action on a thread that does not keep the console from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def run() -> None:
        said = output_of(action, selected)
        try:
            loop.call_soon_threadsafe(_settle, answer, said)
        except RuntimeError:
            return  # The console has ended meanwhile.

    threading.Thread(target=run, name="extension", daemon=True).start()
    return await answer


def _settle(answer: asyncio.Future[str], said: str) -> None:
    if not answer.done():
        answer.set_result(said)


class OutputScreen(Dialog[None]):
    """What an action said."""

    BINDINGS = bindings("help")

    def __init__(self, title: str, said: str) -> None:
        super().__init__()
        self._title, self._said = title, said

    def compose(self) -> ComposeResult:
        """One scrolling box."""
        with VerticalScroll(id="help", classes="panel"):
            yield Static(
                self._said or ink_of(self).say("It said nothing."), markup=False, id="output-text"
            )

    def on_mount(self) -> None:
        """Name the box, and let the arrows scroll it."""
        super().on_mount()
        box = self.query_one("#help")
        name_box(box, self._title, "esc closes")
        box.focus()

    def action_close(self) -> None:
        """Close it."""
        self.dismiss()
