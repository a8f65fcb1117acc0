"""Ports of a job's container that are reached from this machine: opened, listed and closed."""

from __future__ import annotations

from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Button, Input, Static

from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg, name
from gpuconsole.errors import ConsoleError
from gpuconsole.session.ports.forwards import ForwardInfo
from gpuconsole.session.session import Session
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.field import Field
from gpuconsole.tui.widgets.panel import name_box

LOOK_EVERY_S = 1.0


def forwarded(job: Job) -> str:
    """Return what a port of a job is opened by: its id, or the name of its service."""
    return job.id if job.task.service is None else job.task.sweep


class PortsScreen(Dialog[None]):
    """Ask for a port of a job, and list what is open; a button closes each."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = "#answer"
    TYPED_INTO = True

    def __init__(self, session: Session, job: Job) -> None:
        super().__init__()
        self._session, self._job = session, job
        self._listed: tuple[ForwardInfo, ...] | None = None

    def compose(self) -> ComposeResult:
        """What it does, the port, what is wrong, and what is open."""
        say = ink_of(self).say
        service = self._job.task.service
        words = (
            "Which port of its container? TensorBoard has 6006, JupyterLab 8888."
            if service is None
            else "Which port of the service? Connections are spread over its healthy replicas.",
            "It is reached on this machine alone, while the console is open.",
        )
        with Vertical(id="dialog", classes="panel wide"):
            yield Static(" ".join(map(say, words)), markup=False, id="dialog-text")
            usual = "" if service is None else str(service.port)
            yield Field(usual, id="answer", compact=True, type="integer")
            yield Static("", markup=False, id="dialog-wrong")
            yield Vertical(id="forwards")

    def on_mount(self) -> None:
        """Name the box, and go on looking at what is open."""
        super().on_mount()
        service = self._job.task.service
        shown = self._job.task.name if service is None else self._job.task.sweep
        title = msg("Ports of {name}", name=name(clean(shown)))
        name_box(self.query_one("#dialog"), title, "enter opens  tab chooses  esc leaves")
        self._show()
        self.set_interval(LOOK_EVERY_S, self._show)

    def action_yes(self) -> None:
        """Figures are typed here; enter opens."""

    def action_no(self) -> None:
        """Leave; what is open stays open."""
        self.dismiss(None)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        typed = event.value.strip()
        if typed.isdecimal() and len(typed) <= 5:
            event.input.clear()
            aside(self, partial(self._open, int(typed)), group="forward")
        else:
            self._tell("A whole number is needed.")

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        local_port = int((event.button.id or "").rpartition("-")[2])
        aside(self, partial(self._close, local_port), group="forward")

    async def _open(self, port: int) -> None:
        self._tell("")
        try:
            await self._session.forward(forwarded(self._job), port)
        except ConsoleError as error:
            self._tell(error.message)
        self._show()

    async def _close(self, local_port: int) -> None:
        try:
            await self._session.close_forward(local_port)
        except ConsoleError as error:
            self._tell(error.message)
        self._show()

    def _tell(self, text: str) -> None:
        self.query_one("#dialog-wrong", Static).update(clean(ink_of(self).say(text)))

    def _show(self) -> None:
        """List what is open, of every job, where that has changed."""
        forwards = tuple(forward.info for forward in self._session.forwards.open_now())
        if forwards == self._listed:
            return
        before, self._listed = self._listed, forwards
        trouble = next((forward.trouble for forward in forwards if forward.trouble), "")
        if trouble and trouble not in {forward.trouble for forward in before or ()}:
            self._tell(trouble)
        aside(self, partial(self._listing, forwards), group="listing", exclusive=True)

    async def _listing(self, forwards: tuple[ForwardInfo, ...]) -> None:
        ink = ink_of(self)
        box = self.query_one("#forwards", Vertical)
        focused = self.focused.id if self.focused is not None else None
        await box.remove_children()
        for forward in forwards:
            words = msg(
                "{url}  port {port} of {name}, open: {n}",
                url=forward.url, port=forward.port, name=clean(forward.name), n=forward.connections,
            )  # fmt: skip
            line = Static(ink.say(words), markup=False)
            button = Button(ink.say("Close"), id=f"close-{forward.local_port}", compact=True)
            await box.mount(line, button)
            if focused == button.id:
                button.focus()
        if self.focused is None:
            self.query_one("#answer").focus()
