"""What is wrong, and what a person says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import completing
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.core.incidents import Incident, IncidentState, worst_first
from gpuconsole.core.text import clean
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

_WAIT_S = 5.0


@click.command()
@click.argument("incident", metavar="[ID]", default="", shell_complete=completing.incidents)
@click.option("--all", "everything", is_flag=True, help="Also what is over or closed.")
@click.option("--ack", is_flag=True, help="Say that it has been seen.")
@click.option("--snooze", metavar="TIME", help="Put it off for so long, such as 30m, 1h or 2d.")
@click.option(
    "--resolve", is_flag=True, help="Say that it is no fault: closed until it comes back."
)
@click.option("--reopen", is_flag=True, help="Take back what was said of it.")
@common
def incidents(
    incident: str, everything: bool, ack: bool, snooze: str | None, resolve: bool, reopen: bool
) -> int:
    """Show what is wrong in the lab, or one incident with its evidence.

    Hosts are looked at once; what must hold for minutes is known where a console or `gpuconsole
    dispatch` has watched. ID may be the beginning of an id. What is said of an incident holds for
    every console of this queue.
    """
    said = [ack, snooze is not None, resolve, reopen]
    if sum(said) > 1:
        raise UsageError("Wrong usage", "Only one thing can be said of an incident at a time.")
    if any(said):
        if not incident:
            raise UsageError("Wrong usage", "Which incident?", "`gpuconsole incidents` lists them.")
        return _say(incident, ack=ack, snooze=snooze, resolve=resolve)
    return _one(incident) if incident else _list(everything)


def _list(everything: bool) -> int:
    async def work(session: Session) -> tuple[tuple[Incident, ...], float]:
        await _look(session)
        return session.triage.incidents(), session.now()

    found, now = drive(work)
    ordered = worst_first(found, now)
    shown = [one for one in ordered if everything or one.state(now) is not IncidentState.RESOLVED]
    if options().as_json:
        print_document({"incidents": [one.as_json(now) for one in shown]})
        return 0
    if not shown:
        note("Nothing is wrong.")
        return 0
    from gpuconsole.cli import incident_views

    show(*incident_views.listed(shown, now))
    return 0


def _one(reference: str) -> int:
    async def work(session: Session) -> tuple[Incident, float]:
        await _look(session)
        return session.triage.incident(reference), session.now()

    found, now = drive(work)
    if options().as_json:
        print_document({"incident": found.as_json(now)})
        return 0
    from gpuconsole.cli import incident_views

    show(*incident_views.told(found, now))
    return 0


async def _look(session: Session) -> None:
    await session.first_frames(_WAIT_S)
    await session.triage.look()


def _say(reference: str, *, ack: bool, snooze: str | None, resolve: bool) -> int:
    seconds = _seconds(snooze) if snooze is not None else None

    async def work(session: Session) -> tuple[Incident, float]:
        triage = session.triage
        if ack:
            marked = triage.acknowledge(reference)
        elif seconds is not None:
            marked = triage.snooze(reference, seconds)
        elif resolve:
            marked = triage.resolve(reference)
        else:
            marked = triage.reopen(reference)
        return marked, session.now()

    marked, now = drive(work, fleet=False)
    if options().as_json:
        print_document({"incident": marked.as_json(now)})
    else:
        print(clean(f"{marked.where}: {marked.title} is {marked.state(now).value}."))
    return 0


def _seconds(text: str) -> float:
    from pydantic import TypeAdapter, ValidationError

    from gpuconsole.documents import Seconds

    try:
        return float(TypeAdapter(Seconds).validate_python(text))
    except ValidationError:
        raise UsageError(
            "Wrong usage", f"{text!r} is no time.", "Such as `90s`, `30m`, `2h` or `1d`."
        ) from None
