"""Incidents as every console of a journal reads and writes them, one row an occurrence."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuconsole.core import events
from gpuconsole.core.incidents import Evidence, Incident, Severity

KEPT = 2000
"""Occurrences that are over and still kept."""
SHOWN = 500
"""Occurrences that are over and still read: what a person may want to look back at."""
DATES = 5
"""Earlier occurrences of which an incident says when they were."""

ALL = f"""
SELECT * FROM incidents WHERE ended_at IS NULL
UNION ALL
SELECT * FROM (SELECT * FROM incidents WHERE ended_at IS NOT NULL ORDER BY ended_at DESC
               LIMIT {SHOWN})
ORDER BY since"""

_COLUMNS = (
    *("id", "rule", "subject", "severity", "title", "host", "uuid", "device_index", "since"),
    *("last_seen", "ended_at", "marked", "marked_by", "marked_at", "until", "about"),
)
_TOLD: Mapping[Severity, events.Severity] = {
    Severity.CRITICAL: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "information",
}


def read(rows: Iterable[sqlite3.Row]) -> tuple[Incident, ...]:
    """Return incidents, oldest first, each with what came before it; damaged rows are left out."""
    incidents: list[Incident] = []
    earlier: dict[str, list[float]] = {}
    for row in rows:
        incident = _read(row)
        if incident is None:
            continue
        times = earlier.setdefault(incident.id, [])
        dates = tuple(reversed(times[-DATES:]))
        incidents.append(replace(incident, before=dates, times_before=len(times)))
        times.append(incident.since)
    return tuple(incidents)


def add(connection: sqlite3.Connection, incident: Incident) -> bool:
    """Store an incident; returns False if it is already open."""
    marks = ", ".join("?" * len(_COLUMNS))
    done = connection.execute(
        f"INSERT INTO incidents ({', '.join(_COLUMNS)}) VALUES ({marks}) ON CONFLICT DO NOTHING",
        tuple(_values(incident)[name] for name in _COLUMNS),
    )
    connection.execute(
        "DELETE FROM incidents WHERE seq IN (SELECT seq FROM incidents WHERE ended_at IS NOT NULL"
        " ORDER BY ended_at DESC LIMIT -1 OFFSET ?)",
        (KEPT,),
    )
    return done.rowcount > 0


def renew(connection: sqlite3.Connection, incidents: Sequence[Incident]) -> None:
    """Note how incidents that stand look now; what a person said of them stays."""
    for incident in incidents:
        values = _values(incident)
        connection.execute(
            "UPDATE incidents SET severity = :severity, title = :title, about = :about,"
            " last_seen = :last_seen WHERE id = :id AND ended_at IS NULL",
            values,
        )


def close(connection: sqlite3.Connection, incident: Incident) -> bool:
    """Note that an incident is over; False when another console has noted it."""
    done = connection.execute(
        "UPDATE incidents SET ended_at = :ended_at, last_seen = :last_seen, about = :about"
        " WHERE id = :id AND ended_at IS NULL",
        _values(incident),
    )
    return done.rowcount > 0


def mark(connection: sqlite3.Connection, incident: Incident) -> bool:
    """Note what a person says of an incident; False when it does not stand."""
    done = connection.execute(
        "UPDATE incidents SET marked = :marked, marked_by = :marked_by, marked_at = :marked_at,"
        " until = :until WHERE id = :id AND ended_at IS NULL",
        _values(incident),
    )
    return done.rowcount > 0


def event_of(incident: Incident, at: float) -> events.Event:
    """Return the event that tells of a new incident."""
    message = f"{incident.where}: {incident.title}"
    return events.Event("incident", incident.host, message, at, _TOLD[incident.severity])


def _values(incident: Incident) -> dict[str, object]:
    about = {
        "jobs": list(incident.jobs),
        "evidence": [
            [evidence.at, evidence.source, evidence.text] for evidence in incident.evidence
        ],
        "confidence": incident.confidence,
        "reason": incident.reason,
    }
    names = ("id", "rule", "subject", "title", "host", "uuid", "since", "last_seen", "ended_at")
    marks = ("marked", "marked_by", "marked_at", "until")
    return {name: getattr(incident, name) for name in (*names, *marks)} | {
        "severity": incident.severity.value,
        "device_index": incident.index,
        "about": json.dumps(about, separators=(",", ":")),
    }


def _read(row: sqlite3.Row) -> Incident | None:
    try:
        about = json.loads(row["about"])
        return Incident(
            rule=row["rule"],
            subject=row["subject"],
            severity=Severity(row["severity"]),
            title=row["title"],
            host=row["host"],
            since=row["since"],
            last_seen=row["last_seen"],
            uuid=row["uuid"],
            index=row["device_index"],
            jobs=tuple(map(str, about["jobs"])),
            evidence=tuple(
                Evidence(float(at), str(source), str(text))
                for at, source, text in about["evidence"]
            ),
            confidence=about["confidence"],
            reason=about["reason"],
            ended_at=row["ended_at"],
            marked=row["marked"],
            marked_by=row["marked_by"],
            marked_at=row["marked_at"],
            until=row["until"],
        )
    except (ValueError, TypeError, KeyError):
        # One occurrence that cannot be read must not hide the others.
        return None
