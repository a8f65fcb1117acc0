"""A report of sums that SQLite makes is that of the jobs read one by one."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings, PriceSection
from gpuconsole.core.devices.device_use import DeviceUse
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.jobs import Attempt, Job, JobState, Member, Task
from gpuconsole.session.report.making import Known, made, prices_of
from gpuconsole.session.report.model import KEYS, Key, Query, Sums
from gpuconsole.session.report.totals import Tally
from gpuconsole.state import Journal
from gpuconsole.state.database import Database
from gpuconsole.state.journal import _insert
from gpuconsole.state.tables import device_use, rows
from gpuconsole.state.tables.use_sums import Asked

DAY = 86400.0
NOW = 1_900_000_000.0
JOBS = 400
HOSTS = 4
SETTINGS = LabSettings(prices=PriceSection(per_hour={"A100": 1.5}, per_kwh=0.3, currency="EUR"))
KNOWN = Known({"h1": 9.0}, {("h2", "G0"): "T4"})


def attempt(dice: random.Random, number: int) -> Attempt:
    """Return one of every kind that a journal may have: it runs, was shared, is over several
    hosts, never started, or ended at once."""
    created = NOW - dice.uniform(0.0, 100.0) * DAY
    lasted = dice.choice((0.0, 60.0, DAY * dice.random(), 5 * DAY))
    running = dice.random() < 0.05
    started = running or dice.random() < 0.95
    hosts = dice.sample(range(HOSTS), 2 if dice.random() < 0.15 else 1)
    uuids = tuple(f"G{card}" for card in range(dice.choice((1, 1, 2, 4))))
    return Attempt(
        number, f"h{hosts[0]}", uuids, created_at=created,
        starting_at=created if started else None, started_at=created if started else None,
        ended_at=None if running else created + lasted, shared=dice.random() < 0.02,
        members=tuple(Member(f"h{host}", uuids, (), "c") for host in hosts[1:]),
    )  # fmt: skip


def uses(dice: random.Random, job: str, one: Attempt) -> list[DeviceUse]:
    """Return what was measured of an attempt: all, a part, on two models, too long, or nothing."""
    found = []
    until = NOW if one.ended_at is None else one.ended_at
    for part in one.parts:
        count = len(part.device_uuids)
        known = (until - one.created_at) * count * dice.choice((0.5, 1.0, 1.2))
        models = dice.choice(((), ("A100",), ("A100",), ("A100",), ("A100", "T4"), ("",)))
        for model in models:
            counted = max(1, count // len(models)) if dice.random() < 0.9 else count + 1
            found.append(
                DeviceUse(
                    job, one.number, one.created_at, part.host, model, counted,
                    known * dice.random(), known, known * 200.0, known * 0.7, NOW, one.created_at,
                )
            )  # fmt: skip
    return found


def fill(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    journal = Journal(folder, clock=lambda: NOW)
    with journal._writing() as (connection, revision):
        for place in range(JOBS):
            attempts = tuple(attempt(dice, n + 1) for n in range(dice.choice((1, 1, 1, 2))))
            # Only the last one may run still.
            attempts = (
                *(replace(one, ended_at=one.ended_at or NOW - DAY / 9) for one in attempts[:-1]),
                attempts[-1],
            )
            state = JobState.SUCCEEDED if attempts[-1].ended_at else JobState.RUNNING
            slurm = {"slurm": "c1"} if dice.random() < 0.05 else {}
            task = Task(
                f"t{place}", account=dice.choice(("", "a1")), project=dice.choice(("/p", "/q'")),
                labels=slurm, devices=3,
            )  # fmt: skip
            job = Job(f"j{place}", task, dice.choice(("ada", "bob")), state, NOW, attempts=attempts)
            values = rows.job_values(job) | {"id": job.id, "revision": revision}
            _insert(connection, "jobs", values)
            for one in attempts:
                one = replace(one, device_uuids=()) if slurm else one
                key = {"job": job.id, "number": one.number}
                _insert(connection, "attempts", key | rows.attempt_values(one))
                device_use.write(connection, uses(dice, job.id, one))
    journal.observe(Observation("j1", 1, NOW, "ok", "", "", host="h0", utilization=50.0))
    journal.close()


def one_by_one(folder: Path, query: Query, user: str) -> Tally:
    """Return the tally of all jobs as they are read one by one."""
    connection = sqlite3.connect(Database(folder, clock=lambda: NOW, read_only=True).path)
    jobs = [row[0] for row in connection.execute("SELECT id FROM jobs")]
    held = device_use.read_holdings(connection, query.since, max(query.until, NOW), jobs)
    connection.close()
    tally = Tally(query, prices_of(SETTINGS.prices, KNOWN.hourly), KNOWN.models, NOW)
    tally.take(held, user)
    return tally


def figures(sums: Sums) -> dict[str, object]:
    return {
        name: value if isinstance(value, int) or value is None else pytest.approx(value, abs=1e-3)
        for name, value in ((name, getattr(sums, name)) for name in Sums.__dataclass_fields__)
    }


@pytest.fixture(scope="module", params=range(2))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = tmp_path_factory.mktemp("journal") / "state"
    fill(state, request.param)
    return state


@pytest.mark.parametrize("by", [*((key,) for key in KEYS), ("user", "account"), KEYS])
@pytest.mark.parametrize("user", ["", "ada"])
def test_sums_are_those_of_jobs_read_one_by_one(
    folder: Path, by: tuple[Key, ...], user: str
) -> None:
    journal = Journal(folder, clock=lambda: NOW, read_only=True)
    for since, until in ((0.0, NOW), (NOW - 40 * DAY, NOW - 20 * DAY), (NOW - 3 * DAY, NOW + DAY)):
        query = Query(since, until, by)
        wanted = one_by_one(folder, query, user)
        got = made(journal, SETTINGS, query, KNOWN, NOW, user)
        want = {row.words: figures(row.sums) for row in wanted.rows()}
        assert {row.words: vars_of(row.sums) for row in got.rows} == want
        assert vars_of(got.total) == figures(wanted.total())
    journal.close()


def test_sqlite_sums_up_simple_jobs(folder: Path) -> None:
    journal = Journal(folder, clock=lambda: NOW, read_only=True)
    sums, held = journal.held(Asked(0.0, NOW, NOW, ("user",)))
    journal.close()
    assert sum(one.jobs for one in sums) > JOBS / 10
    assert {one.job for one in held} | {"j1"} < {f"j{number}" for number in range(JOBS)}


def vars_of(sums: Sums) -> dict[str, object]:
    return {name: getattr(sums, name) for name in Sums.__dataclass_fields__}
