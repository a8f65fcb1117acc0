"""What a restored journal does not know, and which hosts were asked for it so far.

Between the backup and its loss the journal went on: jobs were started that the backup has as
waiting, or not at all. Until every host has been asked, all that the backup has as waiting is held.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from gpuconsole.core.util.lazy_dataclass import dataclass

_KEY = "restored"
QUERY = f"SELECT value FROM meta WHERE key = '{_KEY}'"


HELD = (
    "It may have started since the backup that was restored. It joins the queue again once all"
    " hosts were asked; `gpuconsole journal adopt` asks them and names those that are missing."
)
"""Why a job is held, where a restore did it."""
_HOLD = """
    UPDATE jobs SET state = 'held', cause = ?, detail = '' WHERE state = 'queued'
    OR state IN ('launching', 'unknown') AND NOT EXISTS (
        SELECT 1 FROM attempts WHERE attempts.job = jobs.id
        AND number = (SELECT max(number) FROM attempts WHERE attempts.job = jobs.id)
        AND (starting_at IS NOT NULL OR started_at IS NOT NULL)
    )
"""


@dataclass(frozen=True, slots=True)
class Restoration:
    """A restore that hosts were not all asked about."""

    at: float
    """When the backup was restored."""
    backup_at: float
    """When it was made; 0 for a journal that began empty."""
    asked: frozenset[str] = frozenset()
    """Hosts that were asked since."""


def begin(connection: sqlite3.Connection, backup_at: float, now: float) -> None:
    """Note that a journal was restored from a backup of that time, and hold what waited then."""
    connection.execute(_HOLD, (HELD,))
    _write(connection, Restoration(now, backup_at))


def note_asked(connection: sqlite3.Connection, hosts: Iterable[str]) -> None:
    """Note hosts that were asked."""
    restoration = read(connection.execute(QUERY).fetchall())
    if restoration is not None:
        _write(
            connection,
            Restoration(restoration.at, restoration.backup_at, restoration.asked | set(hosts)),
        )


def end(connection: sqlite3.Connection) -> None:
    """Note that all hosts were asked."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_KEY,))


def read(rows: Sequence[sqlite3.Row]) -> Restoration | None:
    """Return what the rows of `QUERY` say; None where nothing was restored, or all is known.

    ValueError, TypeError or KeyError for a row that says nothing.
    """
    if not rows:
        return None
    said = json.loads(rows[0]["value"])
    return Restoration(float(said["at"]), float(said["backup_at"]), frozenset(said["asked"]))


def _write(connection: sqlite3.Connection, restoration: Restoration) -> None:
    said = {
        "at": restoration.at,
        "backup_at": restoration.backup_at,
        "asked": sorted(restoration.asked),
    }
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY, json.dumps(said)))
