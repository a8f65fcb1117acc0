"""Jobs and attempts as rows: which column holds which field, and back."""

from __future__ import annotations

import sqlite3

from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.state.tables import codec

JOB_COLUMNS = (
    *("user", "state", "task", "submitted_at", "queued_at", "cause", "detail"),
    *("cancel_requested", "estimate_mib", "estimate", "run_as", "replica"),
)
ATTEMPT_COLUMNS = (
    *("host", "device_uuids", "device_indexes", "container_name", "container_id"),
    *("created_at", "creating_at", "starting_at", "started_at", "ended_at", "exit_code"),
    *("cause", "peak_mib", "placement_reasons", "ended_by", "members", "shared"),
    *("at_fault", "steps_mib", "warned_at", "stopping_at", "steps", "stepped_at"),
    "steps_read_at",
)
_NUMBERS = frozenset(
    (
        *("seq", "number", "revision", "submitted_at", "queued_at", "created_at", "creating_at"),
        *("starting_at", "started_at", "ended_at", "exit_code", "peak_mib", "estimate_mib"),
        *("steps_mib", "warned_at", "stopping_at", "steps", "stepped_at"),
        "steps_read_at",
        *("cancel_requested", "shared"),
    )
)
"""Columns that hold numbers; all others hold text. SQLite itself takes anything in any column."""
_ATTEMPT_LISTS = ("device_uuids", "device_indexes", "placement_reasons")


def job_values(job: Job) -> dict[str, object]:
    """Return the columns of a job."""
    values: dict[str, object] = {name: getattr(job, name) for name in JOB_COLUMNS}
    return values | {
        "state": job.state.value,
        "task": codec.dump_task(job.task),
        "cancel_requested": int(job.cancel_requested),
        "estimate": codec.dump_document(job.estimate),
        "replica": codec.dump_replica(job.replica),
    }


def attempt_values(attempt: Attempt) -> dict[str, object]:
    """Return the columns of an attempt."""
    values: dict[str, object] = {name: getattr(attempt, name) for name in ATTEMPT_COLUMNS}
    lists = {name: codec.dump_list(getattr(attempt, name)) for name in _ATTEMPT_LISTS}
    members = codec.dump_members(attempt.members)
    return values | lists | {"members": members, "shared": int(attempt.shared)}


def changed(old: dict[str, object], new: dict[str, object]) -> dict[str, object]:
    """Return the columns of `new` that differ, so that what others wrote meanwhile stays."""
    return {name: value for name, value in new.items() if old[name] != value}


def read_attempt(row: sqlite3.Row) -> Attempt:
    """Return the attempt of a row. ValueError when it is damaged."""
    _require_types(row)
    values = {name: row[name] for name in ATTEMPT_COLUMNS}
    values |= {name: codec.load_list(values[name]) for name in _ATTEMPT_LISTS}
    values |= {"members": codec.load_members(row["members"]), "shared": bool(row["shared"])}
    return Attempt(number=row["number"], **values)


def read_job(row: sqlite3.Row, attempts: tuple[Attempt, ...]) -> Job:
    """Return the job of a row. ValueError when it is damaged."""
    _require_types(row)
    values = {name: row[name] for name in JOB_COLUMNS}
    decoded = {
        "state": JobState(row["state"]),
        "task": codec.load_task(row["task"]),
        "cancel_requested": bool(row["cancel_requested"]),
        "estimate": codec.load_document(row["estimate"]),
        "replica": codec.load_replica(row["replica"]),
    }
    return Job(id=row["id"], revision=row["revision"], attempts=attempts, **values | decoded)


def _require_types(row: sqlite3.Row) -> None:
    for name in row.keys():  # noqa: SIM118 - a row iterates over its values
        value = row[name]
        kinds = (int, float) if name in _NUMBERS else (str,)
        if value is not None and not isinstance(value, kinds):
            raise ValueError(f"{name} is {type(value).__name__}")
