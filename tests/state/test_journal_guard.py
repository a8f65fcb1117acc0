"""A journal that is removed, exchanged or damaged is noticed, while it is open and at opening."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuconsole.cli import main
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import JournalError
from gpuconsole.state import Journal, JournalLostError

Harm = Callable[[Path], None]


def remove(path: Path) -> None:
    for part in path.parent.glob(f"{path.name}*"):
        part.unlink()


def remove_journal(path: Path) -> None:
    path.unlink()


def remove_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def exchange(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scribble(path: Path) -> None:
    with path.open("r+b") as file:
        for place in range(0, path.stat().st_size, 512):
            file.seek(place)
            file.write(os.urandom(256))


def scribble_inside(path: Path) -> None:
    """Leave the first page, by which SQLite knows its files, as it is."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 8192))


HARMS = [remove, remove_journal, exchange, empty, halve, scribble, scribble_inside]


_ids = itertools.count()


def a_job() -> Job:
    return Job(
        f"job{next(_ids):07}", Task("train" * 20, script="/p/t.py"), "ada", JobState.QUEUED, 1.0
    )


def checkpoint(path: Path) -> None:
    """Bring everything into the journal's own file, where it can be damaged: what the log beside
    it has is read from there."""
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path, clock=lambda: 1.0)
    made.add_all([a_job() for _ in range(200)])
    checkpoint(tmp_path / "journal.sqlite")
    made.require_intact()
    yield made
    made.close()


@pytest.mark.parametrize("harm", [*HARMS, remove_log])
def test_an_open_journal_notices_and_neither_reads_nor_writes_any_more(
    journal: Journal, harm: Harm
) -> None:
    before = journal.jobs()
    path = journal.folder / "journal.sqlite"
    harm(path)
    left = path.stat().st_ino if path.exists() else None
    with pytest.raises(JournalLostError) as caught:
        journal.require_intact()
    assert str(path) in caught.value.message
    assert "gpuconsole journal restore" in caught.value.hint
    assert journal.lost is caught.value
    assert journal.jobs() is before
    assert not journal.role().owner
    for change in (lambda: journal.add(a_job()), lambda: journal.take_role("x")):
        with pytest.raises(JournalLostError):
            change()
    assert (path.stat().st_ino if path.exists() else None) == left


@pytest.mark.parametrize("harm", [remove, exchange])
def test_nothing_is_written_into_a_file_that_nobody_reads(journal: Journal, harm: Harm) -> None:
    harm(journal.folder / "journal.sqlite")
    # Nothing has looked since: the write itself does.
    with pytest.raises(JournalLostError):
        journal.add(a_job())
    assert journal.lost is not None


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("harm", [harm for harm in HARMS if harm is not exchange])
def test_a_lost_journal_is_not_opened_and_no_new_one_is_made(
    journal: Journal, harm: Harm, read_only: bool
) -> None:
    journal.close()
    path = journal.folder / "journal.sqlite"
    harm(path)
    content = path.read_bytes() if path.exists() else None
    with pytest.raises(JournalLostError) as caught:
        Journal(journal.folder, clock=lambda: 1.0, read_only=read_only)
    assert "gpuconsole journal restore" in caught.value.hint
    assert (path.read_bytes() if path.exists() else None) == content


def test_what_sqlite_does_itself_is_no_harm(journal: Journal) -> None:
    for _ in range(3):
        other = Journal(journal.folder, clock=lambda: 2.0)
        other.add(a_job())
        other.require_intact()
        other.close()
        checkpoint(journal.folder / "journal.sqlite")
        journal.require_intact()
    assert len(journal.jobs()) == 203


def test_a_journal_from_before_this_is_guarded_from_its_first_opening_on(journal: Journal) -> None:
    journal.close()
    identity = journal.folder / "identity"
    identity.unlink()
    Journal(journal.folder, clock=lambda: 1.0).close()
    assert identity.read_text().strip() == journal.id
    assert identity.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "words",
    [["jobs"], ["--read-only", "jobs"], ["why", "x"], ["hold", "x"], ["priority", "x", "1"]],
)
@pytest.mark.parametrize("harm", [remove, halve])
def test_commands_say_it(
    journal: Journal, harm: Harm, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    journal.close()
    harm(journal.folder / "journal.sqlite")
    assert main(["--state", str(journal.folder), *words, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["title"] in ("Journal is gone", "Journal is damaged")
    assert "gpuconsole journal restore" in error["hint"]


def test_a_row_that_cannot_be_read_is_damage_too(journal: Journal) -> None:
    with sqlite3.connect(journal.folder / "journal.sqlite") as raw:
        raw.execute("UPDATE jobs SET task = 'no task', revision = 999 WHERE seq = 7")
    raw.close()
    fresh = Journal(journal.folder, clock=lambda: 1.0)
    with pytest.raises(JournalError, match="cannot be read"):
        fresh.jobs()
    assert fresh.lost is not None
    fresh.close()
