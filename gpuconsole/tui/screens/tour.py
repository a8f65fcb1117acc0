"""The tour of five steps that a new user is shown once; any other key leaves it and acts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.registry import in_area
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box

if TYPE_CHECKING:
    from gpuconsole.tui.app import ConsoleApp


@dataclass(frozen=True, slots=True)
class Step:
    """A screen, and what to know of it."""

    mode: str
    title: str
    text: str


STEPS = (
    Step(
        "fleet",
        "Every GPU of the lab",
        "What is free is brightest. w asks where a request fits, such as 4x24; enter opens a host;"
        " / filters.",
    ),
    Step(
        "queue",
        "What runs and what waits",
        "The panel below says why the chosen job waits and when it should start. enter opens its"
        " log; r retries it.",
    ),
    Step(
        "submit",
        "Memory, before it starts",
        "Name a script: how much memory it needs and where it fits is shown as you type. F2"
        " applies a suggestion to the shipped copy.",
    ),
    Step(
        "triage",
        "What is wrong",
        "Each incident has its evidence, who is affected, and what to do: x, then a number.",
    ),
    Step(
        "fleet",
        "Back in time, and all else",
        "The line above the footer is time: < goes back five minutes, 0 returns to now. : finds"
        " any command, host, user or job; ? lists the keys.",
    ),
)
_KEYS = frozenset(name for key in in_area("tour") for name in key.keys.split(","))


class TourScreen(ModalScreen[None]):
    """One step, over the screen that it is about."""

    BINDINGS = bindings("tour")

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def compose(self) -> ComposeResult:
        """The step's text in a box."""
        with Vertical(id="tour", classes="panel"):
            yield Static(ink_of(self).say(STEPS[self.number].text), markup=False)

    def on_mount(self) -> None:
        """Name the box."""
        say = ink_of(self).say
        title = f"{self.number + 1}/{len(STEPS)}  {say(STEPS[self.number].title)}"
        name_box(self.query_one("#tour"), title, "enter next  esc leaves the tour")

    def on_key(self, event: events.Key) -> None:
        """A key for the console leaves the tour, and does what it does."""
        if event.key not in _KEYS:
            event.stop()
            self.action_leave()
            self.app.call_later(self.app.simulate_key, event.key)

    def action_step(self, by: int) -> None:
        """Show the next step, or the one before."""
        self.app.call_later(_turn, self.app, by)

    def action_leave(self) -> None:
        """Leave the tour."""
        self.app.call_later(_turn, self.app, len(STEPS))


def begin(console: ConsoleApp) -> None:
    """Show the tour from its first step."""
    console.call_later(_show, console, 0)


def begin_first(console: ConsoleApp) -> None:
    """Show the tour to a user who has not seen it."""
    seen = console.look.tour
    if seen is not None and not seen.exists():
        begin(console)


async def _turn(console: ConsoleApp, by: int) -> None:
    """Replace the step that is shown by another.

    One act of the app, which reads no key meanwhile: none reaches the screen below.
    """
    shown = console.screen
    if isinstance(shown, TourScreen):
        shown.dismiss()
        await _show(console, max(0, shown.number + by))


async def _show(console: ConsoleApp, number: int) -> None:
    if number >= len(STEPS):
        _remember(console)
        return
    mode = STEPS[number].mode
    if mode != console.current_mode and not (mode == "submit" and console.read_only):
        await console.switch_mode(mode)
    console.push_screen(TourScreen(number))


def _remember(console: ConsoleApp) -> None:
    seen = console.look.tour
    # A folder that cannot be written to is reported by the journal; then the tour is shown again.
    if seen is not None:
        with suppress(OSError):
            seen.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            seen.touch(mode=0o600)
