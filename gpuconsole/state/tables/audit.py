"""Acts on the lab's queue as rows of its journal: written once, never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from gpuconsole.core.lab_service.audit import Act

KEPT = 200_000
"""Acts to keep for each user; the oldest beyond that go. No user can crowd out the acts of
others."""
_COLUMNS = ("at", "user", "uid", "origin", "verb", "subject", "detail", "refused")
LATEST = f"SELECT {', '.join(_COLUMNS)} FROM acts ORDER BY seq DESC LIMIT ?"
LATEST_OF = f"SELECT {', '.join(_COLUMNS)} FROM acts WHERE user = ? ORDER BY seq DESC LIMIT ?"


def add(connection: sqlite3.Connection, act: Act) -> None:
    """Write an act."""
    names, marks = ", ".join(_COLUMNS), ", ".join("?" * len(_COLUMNS))
    values = tuple(getattr(act, name) for name in _COLUMNS)
    connection.execute(f"INSERT INTO acts ({names}) VALUES ({marks})", values)
    connection.execute(
        "DELETE FROM acts WHERE user = ? AND seq <= "
        "(SELECT seq FROM acts WHERE user = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)",
        (act.user, act.user, KEPT),
    )


def read(rows: Iterable[sqlite3.Row]) -> tuple[Act, ...]:
    """Return the acts of rows."""
    return tuple(Act(*row) for row in rows)
