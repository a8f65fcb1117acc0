"""What one can do about an incident."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from gpuconsole.core.incidents import HARMFUL, Action, Incident, IncidentState
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg, sentences
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs import retry_oom
from gpuconsole.tui.screens.dialogs.base import ConfirmScreen
from gpuconsole.tui.screens.host import HostScreen

SNOOZE_S = 3600.0


def do(screen: ConsoleScreen, incident: Incident, action: Action) -> None:
    """Do an action; one that could do harm asks first, naming what would follow."""
    if action.kind not in HARMFUL:
        _done(screen, incident, action)
        return

    def answered(yes: bool | None) -> None:
        if yes:
            _done(screen, incident, action)

    label = screen.ink.say(action.label)
    label = label[:1].upper() + label[1:]
    asked = ConfirmScreen(f"{label}?", sentences(*action.preview), label)
    screen.app.push_screen(asked, answered)


def open_host(screen: ConsoleScreen, incident: Incident) -> None:
    """Show the host, at the device."""
    screen.app.push_screen(HostScreen(incident.host, incident.uuid))


def acknowledge(screen: ConsoleScreen, incident: Incident) -> None:
    """Say that it has been seen; take back what was said of one that is not open."""
    triage = screen.session.triage
    if incident.ended_at is not None:
        screen.tell(msg("{title_text} is resolved.", title_text=clean(incident.title)))
    elif incident.state(screen.picture.now) is IncidentState.OPEN:
        _say(
            screen,
            lambda: triage.acknowledge(incident.id),
            incident,
            "{title_text} is acknowledged.",
        )
    else:
        _say(screen, lambda: triage.reopen(incident.id), incident, "{title_text} is open again.")


def snooze(screen: ConsoleScreen, incident: Incident) -> None:
    """Snooze for an hour."""
    triage = screen.session.triage
    _say(
        screen,
        lambda: triage.snooze(incident.id, SNOOZE_S),
        incident,
        "{title_text} is put off for an hour.",
    )


def resolve(screen: ConsoleScreen, incident: Incident) -> None:
    """Say that it is no fault."""
    triage = screen.session.triage
    words = "{title_text} is closed until it comes back."
    _say(screen, lambda: triage.resolve(incident.id), incident, words)


def copy_ticket(screen: ConsoleScreen, incident: Incident) -> None:
    """Copy what is known as plain text."""
    screen.app.copy_to_clipboard(screen.session.triage.ticket(incident))
    screen.tell("Copied what is known as a ticket.")


def _done(screen: ConsoleScreen, incident: Incident, action: Action) -> None:
    session, target = screen.session, action.target
    if action.kind == "drain":
        reason = clean(incident.title)

        async def drained() -> None:
            await session.drains.drain(target, reason, session.user)

        _ask(screen, drained, msg("{host} takes no new jobs.", host=target))
    elif action.kind == "undrain":

        async def undrained() -> None:
            await session.drains.undrain(target)

        _ask(screen, undrained, msg("{host} takes jobs again.", host=target))
    elif action.kind == "cancel":
        _ask(screen, lambda: session.queue.cancel(target), "The job is being cancelled.")
    elif action.kind == "preempt":
        _ask(screen, lambda: session.queue.preempt(target), "The job is queued again.")
    elif action.kind == "retry":
        job = screen.picture.job(target)
        if job is not None:
            retry_oom.retry(screen, (job,))
    elif action.kind == "end-process":
        act = partial(session.processes.signal, incident.host, int(target), "TERM")
        _ask(screen, act, msg("SIGTERM was sent to process {pid}.", pid=target))
    elif action.kind == "stop-container":
        stopped = partial(session.processes.stop_container, incident.host, target)
        _ask(screen, stopped, msg("Container {id} is being stopped.", id=target[:12]))
    elif action.kind == "open-host":
        open_host(screen, incident)
    elif action.kind == "open-job":
        screen.console.open_job(target)
    elif action.kind == "ticket":
        copy_ticket(screen, incident)
    elif action.kind == "snooze":
        snooze(screen, incident)
    else:
        resolve(screen, incident)


def _ask(screen: ConsoleScreen, work: Callable[[], Awaitable[object]], words: str) -> None:
    screen.ask_session(work, lambda _: screen.tell(words))


def _say(
    screen: ConsoleScreen, work: Callable[[], Awaitable[object]], incident: Incident, template: str
) -> None:
    _ask(screen, work, msg(template, title_text=clean(incident.title)))
