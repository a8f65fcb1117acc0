"""Ending what runs on a device: asks, names whom it hits, then drives the session."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from gpuconsole.core.fleet import Device, DeviceProcess, Host
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg, sentences
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.processes import jobs_by_container
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.base import AskScreen, ConfirmScreen
from gpuconsole.tui.screens.dialogs.modal import Dialog
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import name_box

SIGNALS = {
    "TERM": "TERM asks it to end; it may save its work first.",
    "INT": "INT is like ctrl+c; many programs write a last checkpoint.",
    "KILL": "KILL ends it at once; what it had in memory is lost.",
}


class SignalScreen(Dialog[str | None]):
    """Which signal; the focus is on none."""

    BINDINGS = bindings("dialog")
    AUTO_FOCUS = "#no"

    def __init__(self, question: str, *about: str) -> None:
        super().__init__()
        self._question, self._about = question, about

    def compose(self) -> ComposeResult:
        """What it is, what each signal does, and a button for each."""
        say = ink_of(self).say
        words = "\n".join([*map(clean, map(say, self._about)), "", *map(say, SIGNALS.values())])
        with Vertical(id="dialog", classes="panel wide"):
            yield Static(words, markup=False, id="dialog-text")
            with Horizontal(id="dialog-buttons"):
                yield Button(say("Cancel"), id="no", compact=True)
                for name in SIGNALS:
                    yield Button(name, id=name, variant="error", compact=True)

    def on_mount(self) -> None:
        """Name the box."""
        name_box(self.query_one("#dialog"), self._question, "y TERM  esc cancel  tab chooses")

    def action_yes(self) -> None:
        """The mildest."""
        self.dismiss("TERM")

    def action_no(self) -> None:
        """Leave it running."""
        self.dismiss(None)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        chosen = event.button.id
        self.dismiss(chosen if chosen in SIGNALS else None)


def signal_process(
    screen: ConsoleScreen, host: str, process: DeviceProcess, job: Job | None, first: str = ""
) -> None:
    """Ask for a signal, and for the user's name where the process is somebody else's. `first` is
    a sentence before what is said of the process."""
    user = clean(process.user) or "somebody"
    about = [
        *filter(None, (first,)),
        msg(
            "{pid} of {user} on {host}: {command}",
            pid=process.pid,
            user=user,
            host=host,
            command=process.command or "n/a",
        ),
    ]
    if job is not None:
        about.append(
            msg("It is the job {name}, which would fail; c cancels it.", name=job.task.name)
        )

    def chosen(signal: str | None) -> None:
        if signal is None:
            return
        if user == screen.session.user:
            _send(screen, host, process.pid, signal)
            return
        asked = AskScreen(
            msg("SIG{signal} to a process of {user}?", signal=signal, user=user),
            sentences(
                "It is not yours. What it did since it last saved is lost.",
                msg("Type `{user}` to send it.", user=user),
            ),
            must_be=user,
        )

        def named(typed: str | None) -> None:
            if typed:
                _send(screen, host, process.pid, signal)

        screen.app.push_screen(asked, named)

    screen.app.push_screen(SignalScreen(msg("Signal {pid}?", pid=process.pid), *about), chosen)


def signal_largest(screen: ConsoleScreen, host: Host | None, device: Device | None) -> None:
    """Ask for a signal to the process that holds most of a device, or of its host if no process is
    on the device."""
    largest = largest_process(host, device)
    if host is None or largest is None:
        screen.tell("No process is on a device of this host.")
        return
    where, process = largest
    about = ""
    if device is not None and device is not where:
        about = msg(
            "No process is on gpu {index}. This is the largest of the host, on gpu {n}.",
            index=device.index, n=where.index,
        )  # fmt: skip
    job = jobs_by_container(screen.picture.jobs).get(process.container_id)
    signal_process(screen, host.name, process, job, about)


def largest_process(
    host: Host | None, device: Device | None
) -> tuple[Device, DeviceProcess] | None:
    """Return the process that holds most of a device, else most of one of its host's devices, and
    where it is; None if there is none."""
    own = (device,) if device is not None and device.processes else ()
    devices = own or (host.devices if host is not None else ())
    candidates = ((each, process) for each in devices for process in each.processes)
    return max(candidates, key=lambda pair: pair[1].memory_mib or 0.0, default=None)


def stop_container(
    screen: ConsoleScreen, host: str, process: DeviceProcess, job: Job | None
) -> None:
    """Ask, then stop the container of a process; one of a job of this queue is cancelled."""
    container = process.container_id
    if not container:
        screen.tell("This process runs in no container; K signals it.")
        return
    user = clean(process.user) or "somebody"
    words = _what_stopping_does(host, process, job, user)
    question = msg("Stop the container of {name}?", name=job.task.name if job is not None else user)

    def done(ended: Job | None) -> None:
        what = msg("The container {id} is stopped.", id=container[:12]) if ended is None else (
            msg(
                "{host} is {state_word}.",
                host=clean(ended.task.name), state_word=ended.state_word,
            )
        )  # fmt: skip
        screen.tell(what)

    def answered(yes: object) -> None:
        if yes:
            processes = screen.session.processes
            screen.ask_session(lambda: processes.stop_container(host, container), done)

    mine = screen.session.user in (process.user, job.user if job is not None else "")
    asked = (
        ConfirmScreen(question, words, "Stop")
        if mine
        else AskScreen(
            question, sentences(words, msg("Type `{user}` to stop it.", user=user)), must_be=user
        )
    )
    screen.app.push_screen(asked, answered)


def _what_stopping_does(host: str, process: DeviceProcess, job: Job | None, user: str) -> str:
    if job is not None:
        return sentences(
            msg(
                "It is the job {name} of {user} on {host}.",
                name=job.task.name, user=job.user, host=host,
            ),
            "It is cancelled: SIGTERM, then SIGKILL after the grace time.",
            "What it wrote to its results folder stays.",
        )  # fmt: skip
    command, container = process.command or "a command", process.container_id[:12]
    return sentences(
        msg(
            "Container {id} on {host} runs {command} of {user}.",
            id=container, host=host, command=command, user=user,
        ),
        "It is no job of this queue.",
        "It gets SIGTERM, then SIGKILL after 30 seconds; the container itself stays and can be"
        " started again.",
    )  # fmt: skip


def _send(screen: ConsoleScreen, host: str, pid: int, signal: str) -> None:
    processes = screen.session.processes
    screen.ask_session(
        lambda: processes.signal(host, pid, signal),
        lambda _: screen.tell(
            msg("SIG{signal} was sent to {pid} on {host}.", signal=signal, pid=pid, host=host)
        ),
    )
