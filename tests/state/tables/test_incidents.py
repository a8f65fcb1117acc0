"""Incidents in the journal: an open one for each id, those before it, what people said."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.incidents import Evidence, Incident, Severity
from gpuconsole.errors import JournalError, ReadOnlyError
from gpuconsole.state import Journal
from gpuconsole.state.migrations import MIGRATIONS, VERSION
from gpuconsole.state.tables import incidents

HOT = Incident(
    "heat", "GPU-1", Severity.WARNING, "slowed by heat", "a", 100.0, 160.0, "GPU-1", 0,
    ("ana-1",), (Evidence(100.0, "device", "91 C 温度"),), "high", "the device says so",
)  # fmt: skip


def now() -> float:
    return 1000.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path, clock=now)
    yield made
    made.close()


def test_what_is_written_is_read(journal: Journal) -> None:
    down = replace(HOT, rule="unreachable", subject="b", host="b", uuid="", index=None,
                   severity=Severity.CRITICAL, since=50.0)  # fmt: skip
    assert journal.open_incident(HOT)
    assert journal.open_incident(down)
    assert journal.incidents() == (down, HOT)
    assert journal.incidents() is journal.incidents()


def test_of_one_id_only_one_stands(journal: Journal) -> None:
    assert journal.open_incident(HOT)
    assert not journal.open_incident(replace(HOT, since=120.0))
    assert journal.incidents() == (HOT,)
    assert len(journal.events_after(0)) == 1


def test_each_time_it_comes_back_it_knows_when_it_was_before(journal: Journal) -> None:
    for begun in (100.0, 200.0, 300.0):
        one = replace(HOT, since=begun)
        assert journal.open_incident(one)
        if begun < 300:
            assert journal.close_incident(replace(one, ended_at=begun + 50))
    first, second, third = journal.incidents()
    assert (first.before, first.ended_at) == ((), 150.0)
    assert second.before == (100.0,)
    assert (third.before, third.times_before, third.ended_at) == ((200.0, 100.0), 2, None)
    assert not journal.close_incident(replace(HOT, subject="other", ended_at=1.0))


def test_a_mark_survives_what_consoles_write_meanwhile(journal: Journal, tmp_path: Path) -> None:
    journal.open_incident(HOT)
    other = Journal(tmp_path, clock=now)
    try:
        marked = replace(HOT, marked="snoozed", marked_by="bo", marked_at=900.0, until=2000.0)
        assert other.mark_incident(marked)
        journal.renew_incidents([replace(HOT, title="slower", last_seen=500.0)])
        assert journal.incidents() == (replace(marked, title="slower", last_seen=500.0),)
        assert other.incidents() == journal.incidents()
    finally:
        other.close()


def test_what_is_over_cannot_be_marked(journal: Journal) -> None:
    journal.open_incident(HOT)
    journal.close_incident(replace(HOT, ended_at=200.0))
    assert not journal.mark_incident(replace(HOT, marked="resolved"))


def test_a_damaged_row_costs_that_row_alone(journal: Journal) -> None:
    journal.open_incident(HOT)
    journal.open_incident(replace(HOT, subject="GPU-2"))
    journal.open_incident(replace(HOT, subject="GPU-3"))
    with journal._database.transaction() as connection:
        connection.execute("UPDATE incidents SET about = '{' WHERE subject = 'GPU-2'")
        connection.execute("UPDATE incidents SET severity = 'dire' WHERE subject = 'GPU-3'")
    journal._incidents_version = -1
    assert journal.incidents() == (HOT,)


def test_the_past_is_bounded_and_what_stands_is_not_forgotten(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "KEPT", 3)
    journal.open_incident(replace(HOT, subject="stands", since=1.0))
    for at in range(8):
        one = replace(HOT, subject=f"GPU-{at}", since=100.0 + at)
        journal.open_incident(one)
        journal.close_incident(replace(one, ended_at=200.0 + at))
    journal.open_incident(replace(HOT, subject="new", since=900.0))
    kept = [one.subject for one in journal.incidents()]
    assert kept == ["stands", "GPU-5", "GPU-6", "GPU-7", "new"]


def test_read_only_reads_and_refuses(tmp_path: Path) -> None:
    Journal(tmp_path, clock=now).close()
    looking = Journal(tmp_path, clock=now, read_only=True)
    try:
        assert looking.incidents() == ()
        with pytest.raises(ReadOnlyError):
            looking.open_incident(HOT)
    finally:
        looking.close()
    nothing = Journal(tmp_path / "none", clock=now, read_only=True)
    assert nothing.incidents() == ()
    nothing.close()


def older(folder: Path, version: int) -> None:
    folder.mkdir(mode=0o700)
    old = sqlite3.connect(folder / "journal.sqlite")
    for step in MIGRATIONS[:version]:
        for statement in step:
            old.execute(statement)
    old.execute("INSERT INTO meta VALUES ('journal', 'J')")
    old.execute(f"PRAGMA user_version = {version}")
    old.commit()
    old.close()


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_journal_from_before_takes_incidents(tmp_path: Path, version: int) -> None:
    older(tmp_path / "state", version)
    with pytest.raises(JournalError, match="too old"):
        Journal(tmp_path / "state", clock=now, read_only=True)
    journal = Journal(tmp_path / "state", clock=now)
    try:
        assert journal.id == "J"
        assert journal.open_incident(HOT)
        assert journal.incidents() == (HOT,)
    finally:
        journal.close()
