"""What was measured of attempts, as rows; and who held which devices when."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache

from gpuconsole.core.devices.device_use import DeviceUse, Holding
from gpuconsole.core.jobs import JobState
from gpuconsole.state.tables import codec

_FIELDS = DeviceUse._fields
_COLUMNS = ", ".join(f"u.{name}" for name in _FIELDS)
_ACTIVE = ", ".join(f"'{state.value}'" for state in JobState if state.active)
OF_JOB = f"SELECT {_COLUMNS} FROM device_use u WHERE job = ?"
_HELD = f"""
    SELECT a.job, a.number, j.user, a.host, a.device_uuids, a.members, a.created_at, a.ended_at,
        a.shared,
        CASE WHEN a.ended_at IS NULL THEN json_extract(j.task, '$.name') END,
        CASE WHEN :accounts OR a.device_uuids = '[]'
            THEN json_extract(j.task, '$.account', '$.project', '$.devices', '$.labels.slurm') END
    FROM json_each(:jobs) o CROSS JOIN jobs j ON j.id = o.value JOIN attempts a ON a.job = j.id
    WHERE a.created_at < :until AND CASE
        WHEN a.ended_at IS NULL THEN j.state IN ({_ACTIVE})
            AND a.number = (SELECT max(number) FROM attempts l WHERE l.job = a.job)
        ELSE a.starting_at IS NOT NULL AND a.ended_at > :since END
"""
"""An attempt that was ended before its start held nothing, as for fair share. Only what is held now
is shown by its job's name; without it the words of many jobs are equal, and parsed once. They cost
a quarter of the whole: who groups by neither account nor project does without."""
_USED = f"""
    SELECT {_COLUMNS} FROM json_each(:jobs) o CROSS JOIN device_use u ON u.job = o.value
    WHERE created_at < :until
"""
_MEANS = "SELECT job, attempt, utilization, device FROM observations"
"""A few thousand at most."""
_NO_MEAN: tuple[float | None, str] = None, ""
_PART = 4
"""So many fields of a measurement name its attempt on a host: job, number, beginning and host."""


def write(connection: sqlite3.Connection, uses: Iterable[DeviceUse]) -> None:
    """Write what was measured, in place of what was written of the same attempts before."""
    marks = ", ".join("?" * len(_FIELDS))
    connection.executemany(
        f"INSERT OR REPLACE INTO device_use ({', '.join(_FIELDS)}) VALUES ({marks})",
        list(uses),
    )


def read(rows: Iterable[Sequence[object]]) -> tuple[DeviceUse, ...]:
    """Return what was measured, of rows with the columns of the table."""
    return tuple(DeviceUse._make(row) for row in rows)


def read_holdings(
    connection: sqlite3.Connection,
    since: float,
    until: float,
    jobs: Sequence[str],
    *,
    accounts: bool = True,
) -> list[Holding]:
    """Return all that jobs held between two times; `accounts` tells whether accounts and projects
    are wanted. ValueError where a row is damaged."""
    connection.row_factory = None
    asked = {"since": since, "until": until, "accounts": accounts, "jobs": json.dumps(jobs)}
    uses: dict[tuple[object, ...], tuple[DeviceUse, ...]] = {}
    for use in map(DeviceUse._make, connection.execute(_USED, asked)):
        # Numbers of attempts that never started are given again.
        part = use[:_PART]
        uses[part] = (*uses[part], use) if part in uses else (use,)
    means = {(row[0], row[1]): (row[2], row[3]) for row in connection.execute(_MEANS)}
    # Many jobs have the same words and devices: a long journal has few different texts.
    uuids_of, words_of = cache(_uuids), cache(_words)
    holdings: list[Holding] = []
    for row in connection.execute(_HELD, asked):
        job, number, user, host, uuids, members, began, ended, shared, name, task = row
        account, project, devices, cluster = words_of(task)
        parts = [(host, uuids_of(uuids))]
        if members != "[]":
            parts += [(member.host, member.device_uuids) for member in codec.load_members(members)]
        count = 0
        if cluster and not any(held for _, held in parts):
            # Of a job on a cluster Slurm alone knows the devices: as many as it asked for.
            count, parts = int(devices or 1), parts[:1]
        mean_use, mean_model = means.get((job, number), _NO_MEAN)
        for host, uuids in parts:
            if uuids or count:
                used = uses.get((job, number, began, host), ())
                holding = (
                    *(job, number, name or "", user, account, project, host, uuids),
                    *(len(uuids) or count, began, ended, used, bool(shared)),
                    *(mean_use, mean_model),
                )
                holdings.append(Holding._make(holding))
    return holdings


def _uuids(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _words(text: str | None) -> tuple[str, str, int | None, str | None]:
    """Return a task's account, project, devices and cluster."""
    if text is None:
        return "", "", None, None
    account, project, devices, cluster = json.loads(text)
    return account or "", project or "", devices, cluster
