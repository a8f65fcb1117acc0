"""Copies of the journal: made whole, kept in bounds, and put back by one command."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.cli import main
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import JournalError, UsageError
from gpuconsole.state import Journal, JournalLostError
from gpuconsole.state.backup import backups as backing
from gpuconsole.state.backup.backups import backups, make_backup, restore
from gpuconsole.state.migrations import MIGRATIONS, VERSION
from tests.state.test_journal_guard import HARMS, checkpoint, halve, remove, scribble

DAY = 86400.0
START = 1_800_000_000.0


def a_job(job_id: str) -> Job:
    return Job(job_id, Task("train", script="/p/t.py"), "ada", JobState.QUEUED, START)


def opened(folder: Path) -> Journal:
    return Journal(folder, clock=lambda: START)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a state folder with a journal of three jobs, of which the backup has two."""
    state = tmp_path / "state"
    journal = opened(state)
    journal.add_all([a_job("aaa"), a_job("bbb")])
    make_backup(state, START)
    journal.add(a_job("ccc"))
    journal.close()
    checkpoint(state / "journal.sqlite")
    return state


def test_a_backup_is_whole_while_others_write_and_private_whatever_the_umask(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        writer = opened(tmp_path / "state")
        writer.add(a_job("aaa"))
        # What is only in the log beside the journal counts as well.
        made = make_backup(tmp_path / "state", START)
        writer.add(a_job("bbb"))
        writer.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert made.name == "journal-20270115T080000Z"
    with sqlite3.connect(made.path) as raw:
        assert raw.execute("SELECT id FROM jobs").fetchall() == [("aaa",)]
    raw.close()
    assert backups(tmp_path / "state") == (made,)
    assert not [path for path in made.path.parent.iterdir() if path.name.startswith(".")]


def test_few_are_kept_one_a_day_and_those_before_upgrades(folder: Path) -> None:
    for hour in range(0, 24 * 12, 6):
        make_backup(folder, START + hour * 3600)
    for version in range(6):
        make_backup(folder, START + version, before=version)
    regular = [one for one in backups(folder) if not one.before_migration]
    last = START + (24 * 12 - 6) * 3600
    assert regular[0].made_at == last
    assert [one.made_at // DAY for one in regular] == [last // DAY - back for back in range(7)]
    upgrades = [one for one in backups(folder) if one.before_migration]
    assert [one.made_at - START for one in upgrades] == [5, 4, 3]


def test_two_in_one_second_have_two_names(folder: Path) -> None:
    first, second = (make_backup(folder, START, before=9) for _ in range(2))
    assert first.path != second.path
    assert {first, second} <= set(backups(folder))


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_upgrade_makes_one_first(tmp_path: Path, version: int) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    old = sqlite3.connect(state / "journal.sqlite")
    for step in MIGRATIONS[:version]:
        for statement in step:
            old.execute(statement)
    old.execute("INSERT INTO meta VALUES ('journal', ?)", ("0" * 32,))
    old.execute(f"PRAGMA user_version = {version}")
    old.commit()
    old.close()
    opened(state).close()
    (made,) = backups(state)
    assert made.before_migration
    with sqlite3.connect(made.path) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (version,)
    raw.close()
    opened(state).close()
    assert backups(state) == (made,)
    restore(state, made.name, START)
    back = opened(state)
    assert back.id == "0" * 32
    back.close()


@pytest.mark.parametrize("step", ["the copy", "the rename"])
def test_a_full_disk_leaves_nothing_half_made(
    folder: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = backups(folder)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step == "the copy":
        monkeypatch.setattr(backing, "_sync", full)
    else:
        monkeypatch.setattr(backing.os, "replace", full)
    with pytest.raises(JournalError, match="No space left on device"):
        make_backup(folder, START + DAY)
    monkeypatch.undo()
    assert backups(folder) == (before,)
    assert [path.name for path in (folder / "backups").iterdir()] == [before.path.name]


@pytest.mark.parametrize("harm", HARMS)
def test_a_lost_journal_comes_back_with_its_identity(
    folder: Path, harm: Callable[[Path], None]
) -> None:
    journal = opened(folder)
    identity = journal.id
    epoch = journal.take_role("ann@box (1)")
    assert epoch is not None
    make_backup(folder, START + 60)
    journal.close()
    checkpoint(folder / "journal.sqlite")
    harm(folder / "journal.sqlite")
    lost = list(folder.glob("journal.sqlite*"))
    done = restore(folder, None, START + 120)
    assert done.backup is not None
    assert done.backup.made_at == START + 60
    assert len(done.aside) == len(lost)
    assert all(path.is_file() and path.parent == folder / "backups" for path in done.aside)
    back = opened(folder)
    assert back.id == identity
    assert [job.id for job in back.jobs()] == ["aaa", "bbb", "ccc"]
    # Nobody dispatches, and one that did before cannot write into it.
    assert not back.role().owner
    assert back.take_role("bob@box (2)") == epoch + 2
    since = back.restoration()
    assert since is not None
    assert (since.at, since.backup_at, since.asked) == (START + 120, START + 60, frozenset())
    back.close()
    assert stat.S_IMODE((folder / "journal.sqlite").stat().st_mode) == 0o600


def test_an_older_one_can_be_named_and_a_bad_one_is_passed_over(folder: Path) -> None:
    newer = make_backup(folder, START + DAY)
    restore(folder, "journal-20270115T080000Z", START + DAY)
    back = opened(folder)
    assert [job.id for job in back.jobs()] == ["aaa", "bbb"]
    back.close()
    scribble(newer.path)
    with pytest.raises(JournalError, match="No backup can be used"):
        restore(folder, newer.name, START + DAY)
    done = restore(folder, None, START + DAY)
    assert done.backup is not None
    assert done.backup.made_at == START
    with pytest.raises(UsageError, match="No such backup"):
        restore(folder, "journal-1", START)
    for number in range(5):
        restore(folder, None, START + number)
    assert len(list((folder / "backups").glob("lost-*.sqlite"))) == 3


def test_an_empty_one_has_the_same_identity(folder: Path) -> None:
    journal = opened(folder)
    identity = journal.id
    journal.close()
    remove(folder / "journal.sqlite")
    done = restore(folder, None, START, journal=identity)
    assert done.backup is None
    back = opened(folder)
    assert (back.id, back.jobs()) == (identity, ())
    assert back.restoration() is not None
    back.close()


def test_nothing_is_restored_while_a_console_dispatches(folder: Path) -> None:
    journal = opened(folder)
    epoch = journal.take_role("ann@box (17)")
    assert epoch is not None
    content = (folder / "journal.sqlite").read_bytes()
    with pytest.raises(JournalError) as caught:
        restore(folder, None, START)
    assert "ann@box (17) works with the journal" in caught.value.message
    assert "SIGTERM" in caught.value.hint
    assert (folder / "journal.sqlite").read_bytes() == content
    journal.give_back_role(epoch)
    restore(folder, None, START)
    # The console that has the former one open writes into neither.
    with pytest.raises(JournalLostError, match="open this console again"):
        journal.add(a_job("ddd"))
    journal.close()
    back = opened(folder)
    assert [job.id for job in back.jobs()] == ["aaa", "bbb"]
    back.close()


def test_the_dispatcher_of_a_lost_journal_holds_it_no_more(folder: Path) -> None:
    journal = opened(folder)
    epoch = journal.take_role("ann@box (17)")
    assert epoch is not None
    remove(folder / "journal.sqlite")
    with pytest.raises(JournalError, match="A console dispatches"):
        restore(folder, None, START)
    with pytest.raises(JournalLostError):
        journal.give_back_role(epoch)
    assert restore(folder, None, START).backup is not None
    journal.close()


def test_commands_check_list_and_restore(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str, code: int = 0) -> dict[str, object]:
        assert main(["--state", str(folder), "journal", *words, "--json"]) == code
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    assert said("check")["ok"] is True
    (one,) = said("backups")["backups"]  # type: ignore[misc]
    assert one["name"] == "journal-20270115T080000Z"
    refused = said("restore", code=2)["error"]
    assert "is whole" in str(refused)
    assert "--yes" in str(refused)
    halve(folder / "journal.sqlite")
    damaged = said("check", code=1)
    assert damaged["ok"] is False
    assert damaged["latest_backup"] == one["name"]
    # There is no inventory, so no host is asked: that is left to the console that dispatches.
    assert said("restore")["restored"] == one["name"]
    assert said("check")["ok"] is True
    assert main(["--state", str(folder), "jobs", "--json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["id"] for job in jobs] == ["aaa", "bbb"]


def test_without_a_backup_what_can_be_done_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    opened(state).close()
    remove(state / "journal.sqlite")
    assert main(["--state", str(state), "journal", "restore", "--json"]) == 2
    assert "--empty" in json.loads(capsys.readouterr().out)["error"]["hint"]
    assert main(["--state", str(state), "journal", "restore", "--empty", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["restored"] is None
    never = tmp_path / "never"
    assert main(["--state", str(never), "journal", "restore", "--empty"]) == 2
    assert "never had a journal" in capsys.readouterr().err
