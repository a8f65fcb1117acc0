"""Sessions from the console: opened, and entered while they run."""

from __future__ import annotations

from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from gpuconsole.core.engines.terminals import JUPYTER, SESSION, SESSIONS
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.runtime.suspended import can_lend, lend
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box


class NewSessionScreen(Dialog[str | None]):
    """Ask for a kind of session; returns `SESSION`, `JUPYTER` or None."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = f"#{SESSION}"

    def compose(self) -> ComposeResult:
        """What it takes, and a button for each kind."""
        say = ink_of(self).say
        words = (
            "It waits for one free device and holds it until it is ended.",
            "For more devices, an image or a project: gpuconsole shell --help",
        )
        with Vertical(id="dialog", classes="panel wide"):
            yield Static("\n".join(map(say, words)), markup=False, id="dialog-text")
            with Horizontal(id="dialog-buttons"):
                yield Button(say("Shell"), id=SESSION, compact=True)
                yield Button("JupyterLab", id=JUPYTER, compact=True)
                yield Button(say("Cancel"), id="no", compact=True)

    def on_mount(self) -> None:
        """Name the box."""
        super().on_mount()
        name_box(self.query_one("#dialog"), "Open a session?", "tab chooses  enter OK  esc cancel")

    def action_yes(self) -> None:
        """A kind is chosen by its button."""

    def action_no(self) -> None:
        """Cancel."""
        self.dismiss(None)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        kind = event.button.id
        self.dismiss(kind if kind in (SESSION, JUPYTER) else None)


def can_enter(job: Job | None) -> bool:
    """Tell whether a job is a session that runs."""
    return job is not None and job.task.kind in SESSIONS and job.state is JobState.RUNNING


def open_new(screen: ConsoleScreen) -> None:
    """Ask for a kind of session, queue it, and show its job."""

    def chosen(kind: str | None) -> None:
        if kind is not None:
            aside(screen, partial(_opened, screen, kind), group="session")

    screen.app.push_screen(NewSessionScreen(), chosen)


def enter(screen: ConsoleScreen, job: Job) -> None:
    """Enter a session: its shell on this terminal, or JupyterLab's address."""
    if not can_enter(job):
        kind = "It is no session; B on the fleet opens one."
        waits = "It can be entered once it runs."
        screen.tell(waits if job.task.kind in SESSIONS and not job.state.ended else kind)
    elif job.task.kind == JUPYTER:
        aside(screen, partial(_address, screen, job), group="session")
    elif can_lend(screen.app):
        aside(screen, partial(_attached, screen, job), group="session")
    else:
        screen.tell(
            msg("There is no terminal to lend here. In one: gpuconsole shell {job}", job=job.id)
        )


async def _opened(screen: ConsoleScreen, kind: str) -> None:
    session = screen.session
    try:
        job = await (session.shell() if kind == SESSION else session.jupyter())
    except ConsoleError as error:
        screen.console.tell_error(error)
        return
    screen.console.paint(force=True)
    screen.console.open_job(job.id)
    screen.tell(msg("Session {name} is queued; B enters it once it runs.", name=job.task.name))


async def _attached(screen: ConsoleScreen, job: Job) -> None:
    size = screen.app.size
    try:
        terminal = await screen.session.attach(job.id, size.width, size.height)
        try:
            hint = screen.ink.say("Ctrl-P Ctrl-Q leaves it running, `exit` ends it.")
            left = await lend(screen.app, terminal, f"{clean(job.task.name)}: {hint}")
        finally:
            await terminal.close()
    except ConsoleError as error:
        screen.console.tell_error(error)
        return
    if left:
        screen.tell(msg("{name} runs on; B enters it again.", name=job.task.name))
    elif terminal.lost:
        screen.tell(
            msg("The connection is lost; {name} runs on. B enters it again.", name=job.task.name)
        )
    else:
        screen.tell(msg("The shell of {name} has ended.", name=job.task.name))


async def _address(screen: ConsoleScreen, job: Job) -> None:
    """Forward JupyterLab, copy its address, which has the token, and say where it is."""
    try:
        address = await screen.session.jupyter_address(job.id)
    except ConsoleError as error:
        screen.console.tell_error(error)
        return
    screen.app.copy_to_clipboard(address)
    screen.tell(msg("JupyterLab is at {url} (copied, with its token).", url=address))
