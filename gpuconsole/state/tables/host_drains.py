"""Hosts on which no new job may start, as every console of a journal reads and writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from gpuconsole.core.util.lazy_dataclass import dataclass

ALL = "SELECT host, reason, by, at FROM drains ORDER BY host"


@dataclass(frozen=True, slots=True)
class Drain:
    """One host that a person has drained."""

    host: str
    reason: str
    by: str
    at: float

    @property
    def text(self) -> str:
        """Why no new job starts there, for a person."""
        return f"drained by {self.by}: {self.reason}" if self.reason else f"drained by {self.by}"


def read(rows: Iterable[sqlite3.Row]) -> dict[str, Drain]:
    """Return drains by host."""
    return {row["host"]: Drain(row["host"], row["reason"], row["by"], row["at"]) for row in rows}


def write(connection: sqlite3.Connection, drain: Drain) -> None:
    """Note a drained host, in place of what was noted of it before."""
    connection.execute(
        "INSERT OR REPLACE INTO drains (host, reason, by, at) VALUES (?, ?, ?, ?)",
        (drain.host, drain.reason, drain.by, drain.at),
    )


def erase(connection: sqlite3.Connection, host: str) -> bool:
    """Forget that a host is drained; whether it was."""
    return connection.execute("DELETE FROM drains WHERE host = ?", (host,)).rowcount > 0
