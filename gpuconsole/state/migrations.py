"""The journal's schema, as the steps that lead to it. A step, once released, never changes."""

from __future__ import annotations

import sqlite3

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE jobs (
            seq INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            user TEXT NOT NULL,
            state TEXT NOT NULL,
            task TEXT NOT NULL,
            submitted_at REAL NOT NULL,
            queued_at REAL,
            cause TEXT NOT NULL DEFAULT '',
            detail TEXT NOT NULL DEFAULT '',
            cancel_requested INTEGER NOT NULL DEFAULT 0,
            estimate_mib REAL,
            estimate TEXT,
            revision INTEGER NOT NULL
        )""",
        "CREATE INDEX jobs_by_revision ON jobs (revision)",
        """CREATE TABLE attempts (
            job TEXT NOT NULL REFERENCES jobs (id),
            number INTEGER NOT NULL,
            host TEXT NOT NULL,
            device_uuids TEXT NOT NULL,
            device_indexes TEXT NOT NULL,
            container_name TEXT NOT NULL,
            container_id TEXT NOT NULL DEFAULT '',
            created_at REAL NOT NULL,
            starting_at REAL,
            started_at REAL,
            ended_at REAL,
            exit_code INTEGER,
            cause TEXT NOT NULL DEFAULT '',
            peak_mib REAL,
            placement_reasons TEXT NOT NULL,
            PRIMARY KEY (job, number)
        ) WITHOUT ROWID""",
        """CREATE TABLE dispatcher (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            epoch INTEGER NOT NULL,
            owner TEXT NOT NULL,
            pid INTEGER NOT NULL,
            host TEXT NOT NULL,
            heartbeat REAL NOT NULL
        )""",
        "INSERT INTO dispatcher VALUES (1, 0, '', 0, '', 0)",
        """CREATE TABLE events (
            seq INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            kind TEXT NOT NULL,
            subject TEXT NOT NULL,
            message TEXT NOT NULL,
            severity TEXT NOT NULL
        )""",
        "INSERT INTO meta VALUES ('revision', '0')",
    ),
    (
        "ALTER TABLE attempts ADD COLUMN creating_at REAL",
        # Unknown for attempts from before: there may be a container.
        "UPDATE attempts SET creating_at = created_at",
    ),
    (
        """CREATE TABLE observations (
            seq INTEGER PRIMARY KEY,
            job TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            at REAL NOT NULL,
            outcome TEXT NOT NULL,
            digest TEXT NOT NULL,
            script TEXT NOT NULL,
            args TEXT NOT NULL,
            batch INTEGER,
            devices INTEGER NOT NULL,
            backend TEXT NOT NULL,
            device TEXT NOT NULL,
            host TEXT NOT NULL,
            tier TEXT NOT NULL,
            predicted_tensors_mib REAL,
            predicted_reserved_mib REAL,
            predicted_total_mib REAL,
            oom_probability REAL,
            allocated_mib REAL,
            reserved_mib REAL,
            nvml_mib REAL,
            requested_mib REAL,
            free_mib REAL,
            step_s REAL,
            steps INTEGER NOT NULL,
            paddle TEXT NOT NULL,
            image TEXT NOT NULL,
            UNIQUE (job, attempt)
        )""",
        """CREATE TABLE calibrations (
            seq INTEGER PRIMARY KEY,
            host TEXT NOT NULL,
            device TEXT NOT NULL,
            at REAL NOT NULL,
            method TEXT NOT NULL,
            uuid TEXT NOT NULL,
            driver TEXT NOT NULL,
            image TEXT NOT NULL,
            paddle TEXT NOT NULL,
            context_mib REAL,
            first_mib REAL,
            matmul_mib REAL,
            granularity_mib REAL,
            workspace_mib REAL
        )""",
    ),
    (
        "ALTER TABLE attempts ADD COLUMN ended_by TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE attempts ADD COLUMN members TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE attempts ADD COLUMN shared INTEGER NOT NULL DEFAULT 0",
    ),
    (
        """CREATE TABLE drains (
            host TEXT PRIMARY KEY,
            reason TEXT NOT NULL,
            by TEXT NOT NULL,
            at REAL NOT NULL
        ) WITHOUT ROWID""",
        "ALTER TABLE observations ADD COLUMN utilization REAL",
    ),
    (
        """CREATE TABLE incidents (
            seq INTEGER PRIMARY KEY,
            id TEXT NOT NULL,
            rule TEXT NOT NULL,
            subject TEXT NOT NULL,
            severity TEXT NOT NULL,
            title TEXT NOT NULL,
            host TEXT NOT NULL,
            uuid TEXT NOT NULL,
            device_index INTEGER,
            since REAL NOT NULL,
            last_seen REAL NOT NULL,
            ended_at REAL,
            marked TEXT NOT NULL DEFAULT '',
            marked_by TEXT NOT NULL DEFAULT '',
            marked_at REAL,
            until REAL,
            about TEXT NOT NULL
        )""",
        # Of several consoles that see the same, one notes it.
        "CREATE UNIQUE INDEX standing_incidents ON incidents (id) WHERE ended_at IS NULL",
        "CREATE INDEX incidents_by_end ON incidents (ended_at)",
    ),
    (
        "ALTER TABLE attempts ADD COLUMN at_fault TEXT NOT NULL DEFAULT ''",
        """CREATE TABLE fault_streaks (
            host TEXT NOT NULL,
            image TEXT NOT NULL,
            count INTEGER NOT NULL,
            jobs TEXT NOT NULL,
            since REAL NOT NULL,
            last_at REAL NOT NULL,
            pauses INTEGER NOT NULL,
            until REAL NOT NULL,
            title TEXT NOT NULL,
            message TEXT NOT NULL,
            hint TEXT NOT NULL,
            trial TEXT NOT NULL,
            PRIMARY KEY (host, image)
        ) WITHOUT ROWID""",
    ),
    ("ALTER TABLE attempts ADD COLUMN steps_mib REAL",),
    (
        "ALTER TABLE observations ADD COLUMN user TEXT NOT NULL DEFAULT ''",
        "UPDATE observations SET user ="
        " ifnull((SELECT user FROM jobs WHERE jobs.id = observations.job), '')",
    ),
    (
        """CREATE TABLE acts (
            seq INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            user TEXT NOT NULL,
            uid INTEGER NOT NULL,
            origin TEXT NOT NULL,
            verb TEXT NOT NULL,
            subject TEXT NOT NULL,
            detail TEXT NOT NULL,
            refused TEXT NOT NULL
        )""",
        "CREATE INDEX acts_by_user ON acts (user, seq)",
    ),
    ("ALTER TABLE jobs ADD COLUMN run_as TEXT NOT NULL DEFAULT ''",),
    (
        """CREATE TABLE device_use (
            job TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            host TEXT NOT NULL,
            model TEXT NOT NULL,
            created_at REAL NOT NULL,
            devices INTEGER NOT NULL,
            used_s REAL NOT NULL,
            use_known_s REAL NOT NULL,
            energy_j REAL NOT NULL,
            energy_known_s REAL NOT NULL,
            seen_at REAL NOT NULL,
            busy_at REAL,
            PRIMARY KEY (job, attempt, host, model)
        ) WITHOUT ROWID""",
    ),
    (
        "ALTER TABLE attempts ADD COLUMN warned_at REAL",
        "ALTER TABLE attempts ADD COLUMN stopping_at REAL",
        "ALTER TABLE attempts ADD COLUMN steps INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE attempts ADD COLUMN stepped_at REAL",
        "ALTER TABLE events ADD COLUMN what TEXT NOT NULL DEFAULT ''",
    ),
    ("ALTER TABLE attempts ADD COLUMN steps_read_at REAL",),
    ("ALTER TABLE jobs ADD COLUMN replica TEXT",),
)
"""Step i brings a journal from version i to i + 1; `PRAGMA user_version` holds the version."""

VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, journal: str) -> None:
    """Bring a journal to this version; a new one gets the id `journal`. Call in a transaction."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    for step in MIGRATIONS[version:]:
        for statement in step:
            connection.execute(statement)
    if version == 0:
        connection.execute("INSERT INTO meta VALUES ('journal', ?)", (journal,))
    connection.execute(f"PRAGMA user_version = {VERSION}")
