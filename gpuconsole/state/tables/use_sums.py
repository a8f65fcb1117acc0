"""Sums of what jobs held, computed by SQLite for simple jobs: for a hundred thousand of them this
takes a fraction of the time that Python takes to read them.

A simple job has one attempt that ended, on one host, on devices of one model that no other job held
meanwhile, with all of it measured. Of the others the names are returned.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Sequence
from typing import NamedTuple

from gpuconsole.core.devices.device_use import HeldSums, merged_spans
from gpuconsole.state.tables import codec

_WITHIN = """
    a.created_at < :read_until
    AND CASE WHEN a.ended_at IS NULL THEN 1
        ELSE a.starting_at IS NOT NULL AND a.ended_at > :since END
"""
_SHARED = f"""
    SELECT a.host, a.members, a.created_at, a.ended_at FROM attempts a WHERE a.shared AND {_WITHIN}
"""
_ALONE = """
    count(*) = 1 AND a.ended_at > a.created_at AND a.members = '[]'
    AND u.host = a.host AND u.devices > 0 AND u.devices = json_array_length(a.device_uuids)
"""
_BESIDE = """
    AND NOT ifnull((SELECT s.since FROM temp.shared_times s
        WHERE s.host = a.host AND s.until > a.created_at ORDER BY s.until LIMIT 1) < a.ended_at, 0)
"""
"""The spans of a host do not touch: only the first that ends later can be beside it."""
_MONTH = "(SELECT m.number FROM temp.months m WHERE m.since <= {} ORDER BY m.since DESC LIMIT 1)"
_BEGIN, _END = "max(a.created_at, :since)", "min(a.ended_at, :until)"
_SUMS = """
    SELECT j.user, {account}, {project}, p.host, p.model, p.month, count(*), sum(held_s),
        sum(used_s * held_s / most_used_s), sum(use_known_s * held_s / most_used_s),
        sum(energy_j * held_s / most_drawn_s), sum(energy_known_s * held_s / most_drawn_s), other
    FROM (
        SELECT a.job, a.host, u.model, {month} AS month,
            ({end} - {begin}) * u.devices AS held_s,
            max((a.ended_at - a.created_at) * u.devices, u.use_known_s) AS most_used_s,
            max((a.ended_at - a.created_at) * u.devices, u.energy_known_s) AS most_drawn_s,
            u.used_s, u.use_known_s, u.energy_j, u.energy_known_s,
            CASE WHEN ({simple}) IS TRUE THEN NULL ELSE a.job END AS other
        FROM attempts a LEFT JOIN device_use u
            ON u.job = a.job AND u.attempt = a.number AND u.created_at = a.created_at
        WHERE {within}
        GROUP BY a.job
    ) p JOIN jobs j ON j.id = p.job
    WHERE other IS NOT NULL OR (held_s > 0 AND :user IN ('', j.user))
    GROUP BY other, j.user, p.host, p.model{keys}
"""
"""Clocks of hosts may run a little ahead: nothing is measured for longer than it was held."""


class Asked(NamedTuple):
    """What is summed up."""

    since: float
    until: float
    read_until: float
    """Until when what others held beside it matters: at least `until`."""
    keys: Collection[str]
    """Of `account`, `project` and `month` those that are wanted."""
    months: Sequence[float] = ()
    """When months begin after `since`."""
    user: str = ""
    """The user; "" for all."""


def read(connection: sqlite3.Connection, asked: Asked) -> tuple[list[HeldSums], list[str]]:
    """Return the sums over simple jobs, and the ids of the jobs that are not. ValueError where a
    row is damaged."""
    connection.row_factory = None
    connection.execute("PRAGMA temp_store = MEMORY")
    values = asked._asdict()
    values.pop("keys"), values.pop("months")
    simple = _ALONE + (_BESIDE if _write_shared_times(connection, values) else "")
    month = "0"
    if "month" in asked.keys:
        _write_months(connection, asked)
        month = _MONTH.format(_BEGIN)
        simple += f" AND {month} = {_MONTH.format(_END)}"
    wanted = [key for key in ("account", "project") if key in asked.keys]
    words = {
        key: f"ifnull(json_extract(j.task, '$.{key}'), '') AS {key}" if key in wanted else "''"
        for key in ("account", "project")
    }
    grouped = "".join(f", {key}" for key in wanted) + (", p.month" if month != "0" else "")
    statement = _SUMS.format(
        begin=_BEGIN, end=_END, month=month, simple=simple, within=_WITHIN, keys=grouped, **words
    )
    sums: list[HeldSums] = []
    others: list[str] = []
    for *row, other in connection.execute(statement, values):
        if other is None:
            sums.append(HeldSums._make(row))
        else:
            others.append(other)
    return sums, others


def _write_shared_times(connection: sqlite3.Connection, values: dict[str, object]) -> bool:
    """Write when hosts had attempts that came beside others, and return whether there were any."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for host, members, since, until in connection.execute(_SHARED, values):
        for name in (host, *(member.host for member in codec.load_members(members))):
            spans.setdefault(name, []).append((since, math.inf if until is None else until))
    connection.execute(
        "CREATE TEMP TABLE shared_times"
        " (host TEXT, since REAL, until REAL, PRIMARY KEY (host, until)) WITHOUT ROWID"
    )
    connection.executemany(
        "INSERT INTO temp.shared_times VALUES (?, ?, ?)",
        [(host, *span) for host, host_spans in spans.items() for span in merged_spans(host_spans)],
    )
    return bool(spans)


def _write_months(connection: sqlite3.Connection, asked: Asked) -> None:
    connection.execute("CREATE TEMP TABLE months (since REAL PRIMARY KEY, number INTEGER)")
    connection.executemany(
        "INSERT INTO temp.months VALUES (?, ?)",
        [(since, number) for number, since in enumerate((asked.since, *asked.months))],
    )
