"""What a shell completes: names in the journal, read without decoding what is behind them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpuconsole.core.util.user_dirs import JOURNAL_NAME
from gpuconsole.errors import JournalError
from gpuconsole.state.database import Database

MOST = 200
"""Names that are offered at most: the latest."""


def job_names(
    folder: Path, beginning: str, states: Collection[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Return ids and sweeps that begin so, latest first, each with a few words about it.

    Only jobs in one of `states`, where any are named. Nothing where the journal cannot be read.
    """
    marks = ",".join("?" * len(states))
    among = f"AND state IN ({marks})" if states else ""
    rows = _read(
        folder,
        "SELECT id, state, json_extract(task, '$.name') AS name, "
        "json_extract(task, '$.sweep') AS sweep FROM jobs "
        f"WHERE (substr(id, 1, ?) = ? OR substr(sweep, 1, ?) = ?) {among} "
        "ORDER BY seq DESC LIMIT ?",
        (len(beginning), beginning, len(beginning), beginning, *states, MOST),
    )
    jobs = [(row[0], f"{row[2]}, {row[1]}") for row in rows if row[0].startswith(beginning)]
    sweeps = dict.fromkeys(row[3] for row in rows if row[3] and row[3].startswith(beginning))
    return (*jobs, *((sweep, "sweep") for sweep in sweeps))


def incident_names(folder: Path, beginning: str) -> tuple[tuple[str, str], ...]:
    """Return ids of incidents that are not over and begin so, each with its title."""
    rows = _read(
        folder,
        "SELECT id, title FROM incidents WHERE ended_at IS NULL AND substr(id, 1, ?) = ? "
        "ORDER BY seq DESC LIMIT ?",
        (len(beginning), beginning, MOST),
    )
    return tuple((row[0], row[1]) for row in rows)


def _read(folder: Path, statement: str, arguments: tuple[object, ...]) -> list[tuple[str, ...]]:
    if not (folder / JOURNAL_NAME).exists():
        return []
    try:
        database = Database(folder, clock=lambda: 0.0, read_only=True)
    except JournalError:
        return []
    try:
        return [tuple(row) for row in database.query(statement, arguments)]
    except JournalError:
        return []
    finally:
        database.close()
