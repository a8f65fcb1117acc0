"""The journal: every job of a user, what happened to it, and who dispatches."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuconsole.core.devices.device_use import DeviceUse, HeldSums, Holding
from gpuconsole.core.devices.host_faults import FaultStreak, Streaks
from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.core.events import Event, Severity
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job, JobState, may_move
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError, ReadOnlyError
from gpuconsole.state.backup import restoration
from gpuconsole.state.backup.lock import DispatcherLock
from gpuconsole.state.backup.restoration import Restoration
from gpuconsole.state.database import Database
from gpuconsole.state.journal_guard import JournalLostError, damaged
from gpuconsole.state.tables import (
    audit,
    device_use,
    dispatcher_lease,
    faults,
    host_drains,
    incidents,
    rows,
    run_history,
    use_sums,
)
from gpuconsole.state.tables.dispatcher_lease import Role
from gpuconsole.state.tables.host_drains import Drain
from gpuconsole.state.tables.use_sums import Asked

KEPT_EVENTS = 1000
_SEVERITIES: dict[JobState, Severity] = {
    JobState.FAILED: "error",
    JobState.OOM: "error",
    JobState.UNKNOWN: "warning",
}


CHANGED = "SELECT * FROM jobs WHERE revision > ? ORDER BY +seq"
"""The plus keeps SQLite from reading all rows in their order: it takes the few that are newer, and
sorts these."""


class JobMovedError(JournalError):
    """A job is no longer in the state in which the writer saw it; nothing was written."""

    def __init__(self, job: Job, state: JobState) -> None:
        super().__init__(
            "Job has moved on",
            f"Job {job.id} is {state} now, no longer {job.state}.",
            "Look at it again with `gpuconsole jobs`.",
        )
        self.state = state


class Journal:
    """The jobs of one user in one SQLite file. Use from one thread; many processes may share it.

    Any method may raise JournalError (disk full, locked, read-only, damaged); then nothing of
    what was asked was written.
    """

    def __init__(
        self, folder: Path, *, clock: Callable[[], float], read_only: bool = False
    ) -> None:
        """Open the journal of a state folder, making it where there is none."""
        self.folder = folder
        self.read_only = read_only
        self._clock = clock
        self._database = Database(folder, clock=clock, read_only=read_only)
        self._lock = DispatcherLock(folder)
        self._jobs: dict[str, Job] = {}
        self._ordered: tuple[Job, ...] = ()
        self._revision = -1
        self._seen_version = -1
        self._dirty = True
        self._drains: Mapping[str, Drain] | None = None
        self._drains_version = -1
        self._streaks: Streaks | None = None
        self._streaks_version = -1
        self._incidents: tuple[Incident, ...] | None = None
        self._incidents_version = -1
        rows = self._database.query("SELECT value FROM meta WHERE key = 'journal'")
        self.id: str = rows[0]["value"] if rows else ""
        rows = self._database.query("SELECT value FROM meta WHERE key = 'simulated'")
        self.simulated = bool(rows)
        """Whether its jobs belong to a demo: none of them ever ran."""

    @property
    def lost(self) -> JournalLostError | None:
        """Why nothing can be read or written any more; None while all is well."""
        return self._database.lost

    def require_intact(self) -> None:
        """Raise JournalLostError where the journal is gone, was exchanged or is damaged."""
        self._database.require_intact()

    def mark_simulated(self) -> None:
        """Write that its jobs are a demo's; stays for ever."""
        if not self.simulated:
            with self._writing() as (connection, _):
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('simulated', '1')")
            self.simulated = True

    def version(self) -> tuple[int, int]:
        """Return numbers that change when anything is written, here or by another process."""
        return self._database.changes(), self._database.outside_version()

    def close(self) -> None:
        """Close the file."""
        self._lock.free()
        self._database.close()

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, oldest first; the same tuple while nothing changed.

        Reads only the rows that changed since the last call. When the journal is lost, the jobs
        as they were read last: a screen goes on to show them.
        """
        try:
            self._read_changes()
        except JournalLostError:
            if self._seen_version < 0:
                raise
        return self._ordered

    def _read_changes(self) -> None:
        version = self._database.outside_version()
        if not self._dirty and version == self._seen_version:
            return
        rows = self._database.query(CHANGED, (self._revision,))
        for row in rows:
            job = self._read(row)
            self._jobs[job.id] = job
            self._revision = max(self._revision, job.revision)
        if rows:
            # A dict keeps the place of a key it had; new keys arrive in order of their rows.
            self._ordered = tuple(self._jobs.values())
        self._seen_version, self._dirty = version, False

    def job(self, job_id: str) -> Job | None:
        """Return the job of an exact id as it is now."""
        self.jobs()
        return self._jobs.get(job_id)

    def add(self, job: Job) -> Job:
        """Add a new job; its id must be new."""
        self.add_all((job,))
        return self._stored(job.id)

    def add_all(self, jobs: Sequence[Job]) -> None:
        """Add new jobs, all or none; their ids must be new."""
        with self._writing() as (connection, revision):
            for job in jobs:
                values = rows.job_values(job) | {"id": job.id, "revision": revision}
                _insert(connection, "jobs", values)
            if len(jobs) == 1:
                self._tell(connection, jobs[0])
            elif jobs:
                message = msg(
                    "{name}: {n} jobs queued",
                    name=jobs[0].task.sweep or jobs[0].task.name,
                    n=len(jobs),
                )
                _tell(connection, Event("job", jobs[0].id, message, self._clock(), "information"))

    def save(self, old: Job, new: Job, *, epoch: int | None = None) -> Job:
        """Write what differs between `old` and `new`, and return the job as it then is.

        JobMovedError when the job left `old.state` meanwhile; RoleLostError when `epoch` (the
        dispatcher's writes) is no longer the dispatcher's; ValueError for an illegal move.
        """
        if new.state is not old.state and not may_move(old.state, new.state):
            raise ValueError(f"a job cannot go from {old.state} to {new.state}")
        with self._writing(epoch) as (connection, revision):
            row = connection.execute("SELECT state FROM jobs WHERE id = ?", (old.id,)).fetchone()
            if row is None:
                raise JournalError("No such job", msg("Job {id} is not in the journal.", id=old.id))
            if row["state"] != old.state.value:
                raise JobMovedError(old, JobState(row["state"]))
            values = rows.changed(rows.job_values(old), rows.job_values(new))
            _update(connection, "jobs", values | {"revision": revision}, {"id": old.id})
            _save_attempts(connection, old, new)
            if new.state is not old.state:
                self._tell(connection, new, seen_again=_is_seen_again(old, new))
        return self._stored(old.id)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write what is saved within at once, all or nothing; nothing may be awaited within.

        A commit waits for the disk: a thousand of them take a minute, one a moment.
        """
        try:
            with self._database.transaction():
                yield
        except BaseException:
            # What was read within has never been written.
            self._jobs, self._revision, self._dirty = {}, -1, True
            raise

    def adopt(self, jobs: Sequence[Job], hosts: Iterable[str], *, epoch: int | None = None) -> None:
        """Write jobs as hosts know them after a restore, and that these hosts were asked.

        A job may be new, and may be in any state: what the journal had of it is older. All or
        nothing is written.
        """
        self.jobs()
        with self._writing(epoch) as (connection, revision):
            for job in jobs:
                old = self._jobs.get(job.id)
                values = rows.job_values(job) | {"id": job.id, "revision": revision}
                if old is None:
                    _insert(connection, "jobs", values)
                else:
                    _update(connection, "jobs", values, {"id": job.id})
                    # Attempts may have got other numbers: those that were never begun.
                    connection.execute("DELETE FROM attempts WHERE job = ?", (job.id,))
                for attempt in job.attempts:
                    key = {"job": job.id, "number": attempt.number}
                    _insert(connection, "attempts", key | rows.attempt_values(attempt))
                if job.state is not JobState.QUEUED:
                    self._tell(connection, job)
            restoration.note_asked(connection, hosts)

    def restoration(self) -> Restoration | None:
        """Return what is not known since a restore; None once all hosts were asked."""
        try:
            return restoration.read(self._database.query(restoration.QUERY))
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(f"its restore cannot be read ({error})") from error

    def end_restoration(self, *, epoch: int) -> None:
        """Note that all that could be known after a restore is."""
        with self._writing(epoch) as (connection, _):
            restoration.end(connection)

    def tell(
        self, kind: str, subject: str, message: str, severity: Severity, what: str = ""
    ) -> None:
        """Record an event for every console that shares this journal."""
        with self._writing() as (connection, _):
            _tell(connection, Event(kind, subject, message, self._clock(), severity, what))

    def last_event(self) -> int:
        """Return the number of the latest event."""
        return int(self._database.query("SELECT ifnull(max(seq), 0) AS n FROM events")[0]["n"])

    def events_after(self, number: int) -> list[tuple[int, Event]]:
        """Return the events after that number, with theirs, oldest first."""
        rows = self._database.query("SELECT * FROM events WHERE seq > ? ORDER BY seq", (number,))
        return [
            (
                row["seq"],
                Event(
                    row["kind"],
                    row["subject"],
                    row["message"],
                    row["at"],
                    row["severity"],
                    row["what"],
                ),
            )
            for row in rows
        ]

    def record(self, act: Act) -> None:
        """Record what somebody asked of the queue."""
        with self._writing() as (connection, _):
            audit.add(connection, act)

    def acts(self, limit: int, user: str = "") -> tuple[Act, ...]:
        """Return the latest acts, of one user or of all, the latest first."""
        if user:
            return audit.read(self._database.query(audit.LATEST_OF, (user, limit)))
        return audit.read(self._database.query(audit.LATEST, (limit,)))

    def observe(self, observation: Observation) -> None:
        """Record what was seen of an attempt; what was recorded of it before is replaced."""
        with self._writing() as (connection, _):
            run_history.add_observation(connection, observation)

    def observations(self) -> tuple[Observation, ...]:
        """Return what was seen of runs, oldest first."""
        return run_history.read_observations(self._database.query(run_history.ALL_OBSERVATIONS))

    def measure_use(self, uses: Sequence[DeviceUse], *, epoch: int | None = None) -> None:
        """Record what was measured of attempts, in place of what was recorded of them before."""
        with self._writing(epoch) as (connection, _):
            device_use.write(connection, uses)

    def measured_use(self, job_id: str) -> tuple[DeviceUse, ...]:
        """Return what was measured of a job's attempts."""
        return device_use.read(self._database.query(device_use.OF_JOB, (job_id,)))

    def held(self, asked: Asked) -> tuple[list[HeldSums], list[Holding]]:
        """Return which devices were held, by whom, and what was measured: the sums over simple
        jobs, and what each of the others held.

        Reads over a connection of its own: may be called in a thread.
        """
        with self._database.reading() as connection:
            if connection is None:
                return [], []
            try:
                # All see one state of the journal.
                connection.execute("BEGIN")
                sums, others = use_sums.read(connection, asked)
                return sums, device_use.read_holdings(
                    connection, asked.since, asked.read_until, others,
                    accounts=bool({"account", "project"} & set(asked.keys)),
                )  # fmt: skip
            except (ValueError, TypeError, KeyError) as error:
                raise self._damaged(f"an attempt cannot be read ({clean(str(error), 200)})") from (
                    error
                )

    def history_version(self) -> tuple[int, int]:
        """Return numbers that change when an observation or a calibration is added."""
        (row,) = self._database.query(run_history.VERSION_OF)
        return row["observed"], row["measured"]

    def calibrate(self, calibration: HostCalibration) -> None:
        """Record what was measured on a card."""
        with self._writing() as (connection, _):
            run_history.add_calibration(connection, calibration)

    def calibrations(self) -> tuple[HostCalibration, ...]:
        """Return what was measured on cards, oldest first."""
        return run_history.read_calibrations(self._database.query(run_history.ALL_CALIBRATIONS))

    def drains(self) -> Mapping[str, Drain]:
        """Return the hosts that were drained, by name; the same while nothing changed."""
        version = self._database.outside_version()
        if self._drains is None or version != self._drains_version:
            drains = host_drains.read(self._database.query(host_drains.ALL))
            if self._drains is None or drains != self._drains:
                self._drains = drains
            self._drains_version = version
        return self._drains

    def drain(self, host: str, reason: str, by: str) -> None:
        """Let no new job start on a host."""
        with self._writing() as (connection, _):
            drained = Drain(host, reason, by, self._clock())
            host_drains.write(connection, drained)
            _tell(connection, Event("host", host, f"{host} is {drained.text}", drained.at))
        self._drains_version = -1

    def undrain(self, host: str) -> bool:
        """Let jobs start on a host again; whether it was drained, or set aside."""
        with self._writing() as (connection, _):
            was = host_drains.erase(connection, host)
            was = faults.erase(connection, host) or was
            if was:
                _tell(
                    connection,
                    Event("host", host, msg("{host} takes jobs again", host=host), self._clock()),
                )
        self._drains_version = self._streaks_version = -1
        return was

    def streaks(self) -> Streaks:
        """Return the streaks of faults, by host and image; the same while nothing changed."""
        version = self._database.outside_version()
        if self._streaks is None or version != self._streaks_version:
            try:
                streaks = faults.read(self._database.query(faults.ALL))
            except (ValueError, TypeError) as error:
                raise self._damaged(f"a host's faults cannot be read ({error})") from error
            if self._streaks is None or streaks != self._streaks:
                self._streaks = streaks
            self._streaks_version = version
        return self._streaks

    def save_streak(self, streak: FaultStreak, message: str = "", *, epoch: int) -> None:
        """Write a streak of faults, and tell every console `message` as a warning."""
        with self._writing(epoch) as (connection, _):
            faults.write(connection, streak)
            if message:
                _tell(connection, Event("host", streak.host, message, self._clock(), "warning"))
        self._streaks_version = -1

    def end_streak(self, host: str, image: str, message: str = "", *, epoch: int) -> None:
        """Forget the faults of a host, or of an image there, and tell every console `message`."""
        with self._writing(epoch) as (connection, _):
            faults.erase(connection, host, image)
            if message:
                _tell(connection, Event("host", host, message, self._clock()))
        self._streaks_version = -1

    def incidents(self) -> tuple[Incident, ...]:
        """Return the incidents that stand, and the latest that are over; the same tuple while
        nothing changed."""
        version = self._database.outside_version()
        if self._incidents is None or version != self._incidents_version:
            current = incidents.read(self._database.query(incidents.ALL))
            if current != self._incidents:
                self._incidents = current
            self._incidents_version = version
        return self._incidents or ()

    def open_incident(self, incident: Incident) -> bool:
        """Store an incident. Returns True if it was new to this journal; its consoles are then
        notified."""
        with self._changing_incidents() as connection:
            new = incidents.add(connection, incident)
            if new:
                _tell(connection, incidents.event_of(incident, self._clock()))
        return new

    def renew_incidents(self, seen: Sequence[Incident]) -> None:
        """Note how incidents that stand look now."""
        with self._changing_incidents() as connection:
            incidents.renew(connection, seen)

    def close_incident(self, incident: Incident) -> bool:
        """Note that an incident is over since its `ended_at`; whether it stood until then."""
        with self._changing_incidents() as connection:
            return incidents.close(connection, incident)

    def mark_incident(self, incident: Incident) -> bool:
        """Store a user's mark on an open incident. Returns False if it is not open."""
        with self._changing_incidents() as connection:
            return incidents.mark(connection, incident)

    @contextmanager
    def _changing_incidents(self) -> Iterator[sqlite3.Connection]:
        with self._writing() as (connection, _):
            yield connection
        self._incidents_version = -1

    def role(self) -> Role:
        """Return which process dispatches; none once the journal is lost."""
        if self.lost is not None:
            return dispatcher_lease.NO_DISPATCHER
        return dispatcher_lease.read_role(
            self._database.query("SELECT * FROM dispatcher WHERE id = 1")[0]
        )

    def take_role(self, owner: str) -> int | None:
        """Become the dispatcher if there is none. Returns the epoch to write with, or None."""
        # Asked each second by every waiting console: look before taking the write lock.
        if self.role().alive(self._clock()):
            return None
        if not self._lock.take(owner):
            return None
        epoch = None
        try:
            with self._writing() as (connection, _):
                epoch = dispatcher_lease.take(connection, owner, self._clock())
        finally:
            if epoch is None:
                self._lock.free()
        return epoch

    def renew_role(self, epoch: int) -> None:
        """Say that the dispatcher is alive; RoleLostError when another took over."""
        with self._writing() as (connection, _):
            dispatcher_lease.renew(connection, epoch, self._clock())

    def require_role(self, epoch: int) -> None:
        """Raise RoleLostError when another console has taken over."""
        now = self.role()
        if now.epoch != epoch or not now.owner:
            raise dispatcher_lease.RoleLostError

    def give_back_role(self, epoch: int) -> None:
        """Free the role so that another console takes over at once."""
        try:
            with self._writing() as (connection, _):
                dispatcher_lease.give_back(connection, epoch)
        finally:
            self._lock.free()

    @contextmanager
    def _writing(self, epoch: int | None = None) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Open a transaction that is the dispatcher's, if `epoch` is given; give the number
        that the rows it changes carry."""
        if self.read_only:
            raise ReadOnlyError(
                "Read-only", "This console was opened to look only.", "Open it without --read-only."
            )
        with self._database.transaction() as connection:
            dispatcher_lease.require(connection, epoch)
            row = connection.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()
            revision = int(row["value"]) + 1
            connection.execute("UPDATE meta SET value = ? WHERE key = 'revision'", (str(revision),))
            yield connection, revision
        self._dirty = True

    def _stored(self, job_id: str) -> Job:
        job = self.job(job_id)
        if job is None:
            raise JournalError(
                "No such job", msg("Job {job_id} is not in the journal.", job_id=job_id)
            )
        return job

    def _read(self, row: sqlite3.Row) -> Job:
        attempts = self._database.query(
            "SELECT * FROM attempts WHERE job = ? ORDER BY number", (row["id"],)
        )
        try:
            return rows.read_job(row, tuple(rows.read_attempt(attempt) for attempt in attempts))
        except (ValueError, TypeError, KeyError) as error:
            what = f"job {row['id']} cannot be read ({error})"
            raise self._damaged(clean(what, 300)) from error

    def _damaged(self, what: str) -> JournalError:
        self._database.lost = damaged(self._database.path, what)
        return self._database.lost

    def _tell(self, connection: sqlite3.Connection, job: Job, *, seen_again: bool = False) -> None:
        severity = _SEVERITIES.get(job.state, "information")
        message = f"{job.task.name}: {job.state_word}" + (f". {job.cause}" if job.cause else "")
        what = "" if seen_again else job.stopped_for or job.state.value
        _tell(connection, Event("job", job.id, message, self._clock(), severity, what))


def _is_seen_again(old: Job, new: Job) -> bool:
    """Whether a job that is noted as running had been so before its host went out of sight."""
    out_of_sight = old.state is JobState.UNKNOWN and new.state is JobState.RUNNING
    return out_of_sight and old.started_at is not None and old.started_at == new.started_at


def _tell(connection: sqlite3.Connection, event: Event) -> None:
    connection.execute(
        "INSERT INTO events (at, kind, subject, message, severity, what) VALUES (?, ?, ?, ?, ?, ?)",
        (event.at, event.kind, event.subject, event.message, event.severity, event.what),
    )
    connection.execute(
        "DELETE FROM events WHERE seq <= (SELECT max(seq) FROM events) - ?", (KEPT_EVENTS,)
    )


def _save_attempts(connection: sqlite3.Connection, old: Job, new: Job) -> None:
    before = {attempt.number: attempt for attempt in old.attempts}
    for attempt in new.attempts:
        previous = before.get(attempt.number)
        if previous is attempt:
            continue
        key = {"job": new.id, "number": attempt.number}
        values = rows.attempt_values(attempt)
        if previous is None:
            _insert(connection, "attempts", key | values)
        elif difference := rows.changed(rows.attempt_values(previous), values):
            _update(connection, "attempts", difference, key)


def _insert(connection: sqlite3.Connection, table: str, values: dict[str, object]) -> None:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))


def _update(
    connection: sqlite3.Connection, table: str, values: dict[str, object], key: dict[str, object]
) -> None:
    fields = ", ".join(f"{name} = ?" for name in values)
    where = " AND ".join(f"{name} = ?" for name in key)
    connection.execute(
        f"UPDATE {table} SET {fields} WHERE {where}", (*values.values(), *key.values())
    )
