"""What a person sees of incidents on a plain terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gpuconsole.cli.output import said, say, table, text
from gpuconsole.core.incidents import Incident, IncidentState, Severity
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, iso_utc
from gpuconsole.core.wording import joined, msg, name, sentences

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_SHORTEST = 6
"""Letters of a subject that are shown at least."""


def listed(incidents: Sequence[Incident], now: float) -> Iterator[RenderableType]:
    """Draw the incidents as a table, with ids that can be typed."""
    shown = table("ID", "SEVERITY", "STATE", "FOR", "WHERE", "WHAT", right=("FOR",))
    ids = [incident.id for incident in incidents if incident.ended_at is None]
    for incident in incidents:
        state = incident.state(now)
        quiet = "" if state is IncidentState.OPEN else "dim"
        lasted = (incident.ended_at if incident.ended_at is not None else now) - incident.since
        shown.add_row(
            text(
                incident.id if incident.ended_at is not None else short_id(incident.id, ids), quiet
            ),
            said(incident.severity.value, quiet or _STYLES[incident.severity]),
            said(state.value, quiet),
            text(format_duration(lasted), quiet),
            text(incident.where, quiet),
            said(incident.title, quiet),
        )
    yield shown


def short_id(own: str, ids: Sequence[str]) -> str:
    """Return the shortest beginning of an id that no other of them has."""
    rule, _, subject = own.partition(":")
    # The kind of a UUID is the same for all of a maker.
    kind = len(subject) - len(subject.removeprefix("GPU-").removeprefix("NPU-"))
    for length in range(len(rule) + 1 + kind + _SHORTEST, len(own)):
        begun = own[:length]
        if not any(other.startswith(begun) for other in ids if other != own):
            return begun
    return own


def incident_lines(incident: Incident, now: float) -> Iterator[RenderableType]:
    """Draw one incident: what, where, evidence, and what can be done."""
    from rich.cells import set_cell_size

    yield text(f"{say(incident.severity.value)}: {say(incident.title)}, {incident.where}", "bold")
    ago = msg("{time} ago", time=format_duration(now - incident.since))
    lines = [
        ("id", name(incident.id)),
        ("state", _state(incident, now)),
        ("since", joined(", ", (str(iso_utc(incident.since)), ago))),
        ("before", _before(incident)),
        ("affected", name(", ".join(incident.jobs)) if incident.jobs else "none"),
        ("confidence", joined(": ", (incident.confidence, incident.reason))),
    ]
    for label, words in lines:
        yield text(set_cell_size(say(label), 12) + say(clean(words)))
    yield said("evidence", "bold")
    for evidence in incident.evidence:
        yield text(f"  {iso_utc(evidence.at)} {say(evidence.source)}: {say(clean(evidence.text))}")
    if incident.actions:
        yield said("what can be done", "bold")
        for action in incident.actions:
            yield said(joined("", ("  ", action.label, ": ", sentences(*action.preview))))


def _state(incident: Incident, now: float) -> str:
    state = incident.state(now)
    words = [state.value]
    if incident.marked:
        words = [msg("{state_word} by {user}", state_word=state.value, user=incident.marked_by)]
    if state is IncidentState.SNOOZED:
        words.append(msg("until {when}", when=iso_utc(incident.until)))
    if incident.ended_at is not None:
        words.append(msg("resolved at {when}", when=iso_utc(incident.ended_at)))
    return joined(", ", words)


def _before(incident: Incident) -> str:
    if not incident.times_before:
        return "never here"
    days = ", ".join(datetime.fromtimestamp(at).strftime("%Y-%m-%d") for at in incident.before)
    return msg("{n} times, lately on {dates}", n=incident.times_before, dates=days)
