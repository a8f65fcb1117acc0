"""Incidents: what is found wrong in a lab, since when, whom it hits, and what can be done.

An incident's id names its rule and its subject, so that it is the same tomorrow and on another
console. Each time it comes back after it had gone is an occurrence of its own; those before are
its history. Times are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum
from typing import Literal

from gpuconsole.core.filters import Filter, Term
from gpuconsole.core.units import iso_utc
from gpuconsole.core.util.lazy_dataclass import dataclass


class Severity(str, Enum):
    """How bad it is, worst first."""

    CRITICAL = "critical"
    """Work is lost, or will be."""
    WARNING = "warning"
    """Something is wasted or about to go wrong."""
    INFO = "info"
    """Worth knowing."""

    def __str__(self) -> str:
        return self.value

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


class IncidentState(str, Enum):
    """The state of an incident."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    """A person has seen it."""
    SNOOZED = "snoozed"
    """Put off until a time."""
    RESOLVED = "resolved"
    """It went away, or a person said that it is no fault."""

    def __str__(self) -> str:
        return self.value


Confidence = Literal["high", "medium", "low"]

ActionKind = Literal[
    "drain",
    "undrain",
    "cancel",
    "preempt",
    "retry",
    "end-process",
    "stop-container",
    "open-host",
    "open-job",
    "ticket",
    "snooze",
    "resolve",
]
HARMFUL: frozenset[ActionKind] = frozenset(
    {"drain", "cancel", "preempt", "end-process", "stop-container"}
)
"""Actions that are asked about before they are done."""
WRITING: frozenset[ActionKind] = HARMFUL | {"undrain", "retry", "snooze", "resolve"}
"""Actions that change something outside the screen; read-only consoles lack them."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen."""

    at: float
    source: str
    """Where it was seen: a word such as `host`, `device`, `job`, `process`."""
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a person can do about an incident."""

    kind: ActionKind
    label: str
    """What it does, for a list: `drain rtx-01`."""
    target: str = ""
    """Upon what it acts: a host's name, the id of a job or a container, a process's number."""
    preview: tuple[str, ...] = ()
    """What would follow, as sentences."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that is or was wrong."""

    rule: str
    subject: str
    """What the rule speaks of: a device's UUID, a host's name, or a part of one."""
    severity: Severity
    title: str
    """What is wrong, in a few words."""
    host: str
    since: float
    """When it was first seen."""
    last_seen: float
    uuid: str = ""
    """The device, where it is about one."""
    index: int | None = None
    """The device's number on its host."""
    jobs: tuple[str, ...] = ()
    """Ids of the jobs that it hits."""
    evidence: tuple[Evidence, ...] = ()
    confidence: Confidence = "medium"
    reason: str = ""
    """Why one may be so sure, or why not."""
    ended_at: float | None = None
    """When it was found gone."""
    marked: Literal["", "acknowledged", "snoozed", "resolved"] = ""
    """What a person said of it."""
    marked_by: str = ""
    marked_at: float | None = None
    until: float | None = None
    """When a snoozed one comes back."""
    before: tuple[float, ...] = ()
    """When earlier occurrences began, the latest first; at most a few of them."""
    times_before: int = 0
    """How many earlier occurrences there were."""
    actions: tuple[Action, ...] = field(default=(), compare=False)

    @property
    def id(self) -> str:
        """Names rule and subject; the same for every occurrence."""
        return incident_id(self.rule, self.subject)

    @property
    def where(self) -> str:
        """The place, for a person."""
        return self.host if self.index is None else f"{self.host} gpu {self.index}"

    def state(self, now: float) -> IncidentState:
        """Return the incident's state at a time; a snooze ends by itself."""
        if self.ended_at is not None or self.marked == "resolved":
            return IncidentState.RESOLVED
        if self.marked == "snoozed":
            over = self.until is None or now >= self.until
            return IncidentState.OPEN if over else IncidentState.SNOOZED
        return IncidentState.ACKNOWLEDGED if self.marked else IncidentState.OPEN

    def as_json(self, now: float) -> dict[str, object]:
        """Return the incident as the `incidents --json` document shows it."""
        return {
            "id": self.id,
            "rule": self.rule,
            "severity": self.severity.value,
            "state": self.state(now).value,
            "title": self.title,
            "host": self.host,
            "device": self.uuid or None,
            "index": self.index,
            "jobs": list(self.jobs),
            "since": iso_utc(self.since),
            "last_seen": iso_utc(self.last_seen),
            "ended_at": iso_utc(self.ended_at),
            "snoozed_until": iso_utc(self.until) if self.marked == "snoozed" else None,
            "marked_by": self.marked_by or None,
            "confidence": self.confidence,
            "reason": self.reason,
            "evidence": [
                {"at": iso_utc(evidence.at), "source": evidence.source, "text": evidence.text}
                for evidence in self.evidence
            ],
            "seen_before": {
                "count": self.times_before,
                "last": [iso_utc(at) for at in self.before],
            },
            "actions": [{"kind": action.kind, "label": action.label} for action in self.actions],
        }


def incident_id(rule: str, subject: str) -> str:
    """Return the id of what a rule says of a subject."""
    return f"{rule}:{subject}"


def worst_first(incidents: tuple[Incident, ...], now: float) -> tuple[Incident, ...]:
    """Order incidents: open before put off before gone, the worst first, the newest first."""
    states = list(IncidentState)
    return tuple(
        sorted(
            incidents,
            key=lambda incident: (
                states.index(incident.state(now)),
                incident.severity.rank,
                -incident.since,
                incident.id,
            ),
        )
    )


def without_mark(incident: Incident) -> Incident:
    """Return the incident without any mark that a user set."""
    return replace(incident, marked="", marked_by="", marked_at=None, until=None)


def matches(wanted: Filter, incident: Incident, now: float) -> bool:
    """Tell whether an incident matches: words in its title, place and rule; `severity:`, `state:`,
    `rule:`, `host:`, `job:`."""
    return all(
        any(_holds(term, text, incident, now) for text in term.texts) is not term.denied
        for term in wanted.terms
    )


def _holds(term: Term, text: str, incident: Incident, now: float) -> bool:
    if term.operator == "":
        words = (incident.title, incident.where, incident.rule, incident.subject)
        return any(text in word.lower() for word in words)
    if term.operator != ":":
        return False
    if term.key == "job":
        return any(text in job.lower() for job in incident.jobs)
    if term.key == "host":
        return text == incident.host.lower()
    texts = {
        "severity": incident.severity.value,
        "state": incident.state(now).value,
        "rule": incident.rule,
    }
    return term.key in texts and texts[term.key].startswith(text)
