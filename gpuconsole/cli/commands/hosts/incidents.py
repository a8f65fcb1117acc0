"""What is wrong, and what a person says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show, tell
from gpuconsole.cli.sessions import drive
from gpuconsole.core.incidents import Incident, IncidentState, worst_first
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("incident", metavar="[ID]", default="", shell_complete=shell_completion.incidents)
@click.option("--all", "everything", is_flag=True, help="Also resolved and dismissed ones.")
@click.option("--ack", is_flag=True, help="Acknowledge it.")
@click.option("--snooze", metavar="TIME", help="Snooze it for a duration: 30m, 1h or 2d.")
@click.option("--resolve", is_flag=True, help="Resolve it: it is closed until it occurs again.")
@click.option("--reopen", is_flag=True, help="Remove the marks.")
@common
def incidents(
    incident: str, everything: bool, ack: bool, snooze: str | None, resolve: bool, reopen: bool
) -> int:
    """Show what is wrong in the lab, or one incident with its evidence.

    Hosts are sampled once; conditions that must last for minutes are known if a console or
    `gpuconsole dispatch` was watching. ID may be the beginning of an id. Marks on an incident apply
    to every console of this queue.
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
        return await session.incidents(), session.now()

    incidents, now = drive(work)
    ordered = worst_first(incidents, now)
    shown = [
        incident
        for incident in ordered
        if everything or incident.state(now) is not IncidentState.RESOLVED
    ]
    if options().as_json:
        print_document({"incidents": [incident.as_json(now) for incident in shown]})
        return 0
    if not shown:
        note("Nothing is wrong.")
        return 0
    from gpuconsole.cli.views import incidents as incident_views

    show(*incident_views.listed(shown, now))
    return 0


def _one(reference: str) -> int:
    async def work(session: Session) -> tuple[Incident, float]:
        return await session.incident(reference), session.now()

    incident, now = drive(work)
    if options().as_json:
        print_document({"incident": incident.as_json(now)})
        return 0
    from gpuconsole.cli.views import incidents as incident_views

    show(*incident_views.incident_lines(incident, now))
    return 0


def _say(reference: str, *, ack: bool, snooze: str | None, resolve: bool) -> int:
    seconds = _seconds(snooze) if snooze is not None else None

    async def work(session: Session) -> tuple[Incident, float]:
        if ack:
            marked = await session.acknowledge(reference)
        elif seconds is not None:
            marked = await session.snooze(reference, seconds)
        elif resolve:
            marked = await session.resolve(reference)
        else:
            marked = await session.reopen(reference)
        return marked, session.now()

    marked, now = drive(work, fleet=False)
    if options().as_json:
        print_document({"incident": marked.as_json(now)})
    else:
        tell(
            msg(
                "{where}: {title_text} is {state_word}.",
                where=marked.where, title_text=marked.title, state_word=marked.state(now).value,
            )
        )  # fmt: skip
    return 0


def _seconds(text: str) -> float:
    from pydantic import TypeAdapter, ValidationError

    from gpuconsole.yamldoc import Seconds

    try:
        return float(TypeAdapter(Seconds).validate_python(text))
    except ValidationError:
        raise UsageError(
            "Wrong usage",
            msg("{word} is no time.", word=repr(text)),
            "Such as `90s`, `30m`, `2h` or `1d`.",
        ) from None
