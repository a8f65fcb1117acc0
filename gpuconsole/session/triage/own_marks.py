"""Marks on incidents by users of the lab's service who are no operators.

Such a mark holds in its user's own view. Where an incident hits jobs of that user alone it holds
for everybody, until it hits a job of somebody else. An operator's mark holds for everybody, and
removes those of users.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from gpuconsole.core.incidents import Incident
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.triage.service import LONGEST_SNOOZE_S
from gpuconsole.state.files.json_file import KeptFile

MARKS_FILE = "incident-marks.json"
MOST_MARKS = 200
"""Of a user; incidents that are over leave room."""
MAX_BYTES = 4 * 2**20
Verb = Literal["acknowledge", "snooze", "resolve", "reopen"]
_MARKED: Mapping[Verb, Literal["acknowledged", "snoozed", "resolved"]] = {
    "acknowledge": "acknowledged", "snooze": "snoozed", "resolve": "resolved",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OwnMark:
    """What a user said of one occurrence of an incident."""

    user: str
    incident: str
    since: float
    """When the occurrence was first seen: the next one is another."""
    marked: Literal["acknowledged", "snoozed", "resolved"]
    at: float
    until: float | None = None


_MARKS = TypeAdapter(tuple[OwnMark, ...])
Marks = Mapping[tuple[str, float], Mapping[str, OwnMark]]
"""By incident and its first sight, then by user."""


class OwnMarks:
    """Keeps the marks of users, and shows incidents as each of them sees them."""

    def __init__(self, context: Context) -> None:
        self._journal = context.journal
        self._clock = context.clock
        self._file = KeptFile(context.state / MARKS_FILE, _read, MAX_BYTES)
        self._shared: tuple[tuple[object, ...], tuple[Incident, ...]] | None = None

    @property
    def version(self) -> object:
        """Another object whenever a mark has changed."""
        return self._file.content()

    def mark(self, user: str, verb: Verb, incident: Incident, seconds: float = 0.0) -> None:
        """Note what a user says of an incident; `seconds` is how long it is put off.

        UsageError for a time that is none and an incident that is over, RefusedError where an
        operator's mark would have to be taken back, or a user has too many.
        """
        if incident.ended_at is not None:
            raise UsageError("It is resolved", msg("{id} ended by itself.", id=incident.id))
        marks = {(mark_.user, mark_.incident, mark_.since): mark_ for mark_ in self._standing()}
        key = (user, incident.id, incident.since)
        if verb == "reopen":
            if key not in marks and incident.marked and incident.marked_by != user:
                raise RefusedError(
                    "An operator's mark",
                    msg("{user} has marked it for everybody.", user=incident.marked_by),
                    "Ask an operator of the lab.",
                )  # fmt: skip
            marks.pop(key, None)
        else:
            now = self._clock.now()
            if verb == "snooze" and not 0.0 < seconds <= LONGEST_SNOOZE_S:
                raise UsageError("Wrong time", "An incident can be put off for up to 30 days.")
            until = now + seconds if verb == "snooze" else None
            marks[key] = OwnMark(user, incident.id, incident.since, _MARKED[verb], now, until)
            if sum(mark_.user == user for mark_ in marks.values()) > MOST_MARKS:
                raise RefusedError(
                    "Too many marks",
                    msg("You have marked {n} open incidents.", n=MOST_MARKS),
                    "Reopen some of them.",
                )  # fmt: skip
        self._write(marks.values())

    def forget(self, incident: str) -> None:
        """Remove what users have said of an incident: an operator has said something."""
        before = self._standing()
        left = [mark_ for mark_ in before if mark_.incident != incident]
        if len(left) != len(before):
            self._write(left)

    def shared(self, incidents: tuple[Incident, ...]) -> tuple[Incident, ...]:
        """Return incidents as all see them; the same tuple while nothing changed."""
        marks, jobs = self._file.content(), self._journal.jobs()
        key = (incidents, marks, jobs)
        if self._shared is None or any(
            first is not other for first, other in zip(key, self._shared[0], strict=True)
        ):
            shown = (
                tuple(self._as_all_see(incident, marks) for incident in incidents)
                if marks
                else incidents
            )
            if self._shared is not None and shown == self._shared[1]:
                shown = self._shared[1]
            self._shared = (key, shown)
        return self._shared[1]

    def seen_by(self, user: str, incidents: Iterable[Incident]) -> tuple[Incident, ...]:
        """Return those of the incidents that a user sees otherwise than all do."""
        marks = self._file.content()
        return tuple(
            _with(incident, own)
            for incident in incidents
            if (own := marks.get((incident.id, incident.since), {}).get(user)) is not None
            and incident.ended_at is None
            and (incident.marked_at is None or own.at > incident.marked_at)
        )

    def _as_all_see(self, incident: Incident, marks: Marks) -> Incident:
        said = marks.get((incident.id, incident.since))
        if not said or incident.marked or incident.ended_at is not None:
            return incident
        owner = self._only_owner(incident)
        return _with(incident, said[owner]) if owner in said else incident

    def _only_owner(self, incident: Incident) -> str:
        """Return the one user with jobs affected by an incident; "" if there is no such user."""
        jobs = (self._journal.job(job_id) for job_id in incident.jobs)
        users = {"" if job is None else job.user for job in jobs}
        return users.pop() if len(users) == 1 else ""

    def _standing(self) -> list[OwnMark]:
        """Return the marks on incidents that are still open."""
        stand = {
            (incident.id, incident.since)
            for incident in self._journal.incidents()
            if incident.ended_at is None
        }
        marks = self._file.content()
        return [mark for key, said in marks.items() if key in stand for mark in said.values()]

    def _write(self, marks: Iterable[OwnMark]) -> None:
        content = json.dumps([asdict(mark) for mark in marks]).encode()
        if len(content) > MAX_BYTES:
            raise RefusedError("Too many marks", "The lab has no room for more.")
        self._file.write(content)


def _with(incident: Incident, own: OwnMark) -> Incident:
    return replace(
        incident, marked=own.marked, marked_by=own.user, marked_at=own.at, until=own.until
    )


def _read(content: bytes) -> Marks:
    try:
        entries = _MARKS.validate_json(content) if content else ()
    except ValidationError:
        return {}
    marks: dict[tuple[str, float], dict[str, OwnMark]] = {}
    for entry in entries:
        marks.setdefault((entry.incident, entry.since), {})[entry.user] = entry
    return marks
