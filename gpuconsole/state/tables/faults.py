"""Streaks of faults by host and image, as every console of a journal reads and writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from gpuconsole.core.devices.host_faults import FaultStreak, Streaks
from gpuconsole.state.tables import codec

ALL = "SELECT * FROM fault_streaks ORDER BY host, image"
_COLUMNS = (
    *("host", "image", "count", "since", "last_at", "pauses", "until"),
    *("title", "message", "hint", "trial"),
)


def read(rows: Iterable[sqlite3.Row]) -> Streaks:
    """Return streaks by host and image. ValueError when a row is damaged."""
    streaks = (
        FaultStreak(**{name: row[name] for name in _COLUMNS}, jobs=codec.load_list(row["jobs"]))
        for row in rows
    )
    return {(streak.host, streak.image): streak for streak in streaks}


def write(connection: sqlite3.Connection, streak: FaultStreak) -> None:
    """Write a streak in place of what was known of its host and image."""
    values = [getattr(streak, name) for name in _COLUMNS]
    names, marks = ", ".join(_COLUMNS), ", ".join("?" * (len(_COLUMNS) + 1))
    connection.execute(
        f"INSERT OR REPLACE INTO fault_streaks ({names}, jobs) VALUES ({marks})",
        [*values, codec.dump_list(streak.jobs)],
    )


def erase(connection: sqlite3.Connection, host: str, image: str | None = None) -> bool:
    """End the streak of a host and image, or without an image all of the host; whether there was
    one."""
    if image is None:
        done = connection.execute("DELETE FROM fault_streaks WHERE host = ?", (host,))
    else:
        done = connection.execute(
            "DELETE FROM fault_streaks WHERE host = ? AND image = ?", (host, image)
        )
    return done.rowcount > 0
