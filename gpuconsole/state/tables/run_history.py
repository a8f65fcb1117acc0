"""Observations and calibrations as rows, and how many of them are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.state.tables import codec

KEPT_OBSERVATIONS = 3000
"""The newest; a year of a busy lab's jobs, and read in some tens of milliseconds."""
KEPT_CALIBRATIONS = 1000
VERSION_OF = (
    "SELECT (SELECT ifnull(max(seq), 0) FROM observations) AS observed,"
    " (SELECT ifnull(max(seq), 0) FROM calibrations) AS measured"
)
_OBSERVED = tuple(field.name for field in fields(Observation))
_MEASURED = tuple(field.name for field in fields(HostCalibration))
_ARGS = _OBSERVED.index("args")
ALL_OBSERVATIONS = f"SELECT {', '.join(_OBSERVED)} FROM observations ORDER BY seq"
ALL_CALIBRATIONS = f"SELECT {', '.join(_MEASURED)} FROM calibrations ORDER BY seq"
"""In the order of the records' fields."""


def add_observation(connection: sqlite3.Connection, observation: Observation) -> None:
    """Write an observation, in place of an older one of the same attempt."""
    values: dict[str, Any] = {name: getattr(observation, name) for name in _OBSERVED}
    _add(connection, "observations", values | {"args": codec.dump_list(observation.args)})
    _trim(connection, "observations", KEPT_OBSERVATIONS)


def add_calibration(connection: sqlite3.Connection, calibration: HostCalibration) -> None:
    """Write a calibration."""
    _add(connection, "calibrations", {name: getattr(calibration, name) for name in _MEASURED})
    _trim(connection, "calibrations", KEPT_CALIBRATIONS)


def read_observations(rows: Iterable[sqlite3.Row]) -> tuple[Observation, ...]:
    """Return the observations of rows; those with damaged arguments are left out."""
    observations = []
    for row in rows:
        values = list(row)
        try:
            values[_ARGS] = codec.load_list(values[_ARGS])
        except (ValueError, TypeError):
            continue
        observations.append(Observation(*values))
    return tuple(observations)


def read_calibrations(rows: Iterable[sqlite3.Row]) -> tuple[HostCalibration, ...]:
    """Return the calibrations of rows."""
    return tuple(HostCalibration(*row) for row in rows)


def _add(connection: sqlite3.Connection, table: str, values: dict[str, object]) -> None:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(
        f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", tuple(values.values())
    )


def _trim(connection: sqlite3.Connection, table: str, limit: int) -> None:
    connection.execute(
        f"DELETE FROM {table} WHERE seq <= (SELECT max(seq) FROM {table}) - ?", (limit,)
    )
