"""Copies of the journal for a standby: whole, in changed blocks, all or nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import JournalError
from gpuconsole.state import Journal
from gpuconsole.state.backup.backups import install
from gpuconsole.state.backup.copies import BLOCK, Copy, CopyStore, Held, digest_of_all, make_copy
from gpuconsole.state.backup.restoration import HELD


def journal_with(folder: Path, jobs: int) -> Journal:
    journal = Journal(folder, clock=time.time)
    padding = {"PADDING": "x" * 2000}
    for number in range(jobs):
        task = Task(f"job-{number}", script="train.py", env=padding)
        journal.add(Job(f"{number}job", task, "ann", JobState.QUEUED, float(number)))
    return journal


def held(copy: Copy, journal: Journal, *, in_step: bool = True) -> Held:
    return Held(journal.id, 3, in_step, 100.0, copy.size)


def blocks(copy: Copy, numbers: list[int]) -> dict[int, bytes]:
    return {number: copy.read([number]) for number in numbers}


def changed(old: Copy, new: Copy) -> list[int]:
    return [
        number
        for number, digest in enumerate(new.digests)
        if number >= len(old.digests) or old.digests[number] != digest
    ]


def test_a_copy_that_follows_in_changed_blocks_is_the_journal(tmp_path: Path) -> None:
    journal = journal_with(tmp_path / "lead", 200)
    store = CopyStore(tmp_path / "standby")
    first = make_copy(tmp_path / "lead")
    everything = blocks(first, list(range(len(first.digests))))
    store.take(held(first, journal), everything, digest_of_all(first.digests))
    journal.add(Job("new", Task("new"), "bob", JobState.QUEUED, 900.0))
    second = make_copy(tmp_path / "lead")
    numbers = changed(first, second)
    assert 0 < len(numbers) * BLOCK < first.size / 4
    store.take(held(second, journal), blocks(second, numbers), digest_of_all(second.digests))
    store.close()
    # After a crash of the standby it is there as it was confirmed.
    store = CopyStore(tmp_path / "standby")
    assert store.held == held(second, journal)
    install(tmp_path / "standby", store.written(), 5.0, made_at=100.0, hold=False)
    taken = Journal(tmp_path / "standby", clock=time.time)
    assert taken.id == journal.id
    assert taken.jobs() == journal.jobs()
    assert taken.role().owner == ""
    assert taken.restoration() is None


def test_with_hold_what_waits_is_held_until_hosts_were_asked(tmp_path: Path) -> None:
    journal = journal_with(tmp_path / "lead", 2)
    copy = make_copy(tmp_path / "lead")
    store = CopyStore(tmp_path / "standby")
    everything = blocks(copy, list(range(len(copy.digests))))
    store.take(held(copy, journal), everything, digest_of_all(copy.digests))
    install(tmp_path / "standby", store.written(), 5.0, made_at=100.0, hold=True)
    taken = Journal(tmp_path / "standby", clock=time.time)
    assert {(job.state, job.cause) for job in taken.jobs()} == {(JobState.HELD, HELD)}
    found = taken.restoration()
    assert found is not None
    assert found.backup_at == 100.0


def test_blocks_that_make_another_copy_change_nothing(tmp_path: Path) -> None:
    journal = journal_with(tmp_path / "lead", 100)
    copy = make_copy(tmp_path / "lead")
    store = CopyStore(tmp_path / "standby")
    everything = blocks(copy, list(range(len(copy.digests))))
    store.take(held(copy, journal), everything, digest_of_all(copy.digests))
    before = store.written().read_bytes()
    wrong = {0: bytes(len(everything[0]))}
    with pytest.raises(JournalError, match="does not fit"):
        store.take(held(copy, journal), wrong, digest_of_all(copy.digests))
    lacking = held(copy, journal)
    with pytest.raises(JournalError, match="does not fit"):
        store.take(
            Held(lacking.journal, 4, True, 0.0, copy.size + BLOCK), {}, digest_of_all(copy.digests)
        )
    assert store.held == held(copy, journal)
    assert store.written().read_bytes() == before


def test_a_journal_that_shrinks_is_followed(tmp_path: Path) -> None:
    journal = journal_with(tmp_path / "lead", 2)
    large, small = tmp_path / "large", make_copy(tmp_path / "lead")
    other = journal_with(large, 300)
    copy = make_copy(large)
    store = CopyStore(tmp_path / "standby")
    everything = blocks(copy, list(range(len(copy.digests))))
    store.take(held(copy, other), everything, digest_of_all(copy.digests))
    few = blocks(small, list(range(len(small.digests))))
    store.take(held(small, journal), few, digest_of_all(small.digests))
    assert store.written().read_bytes() == small.path.read_bytes()


def test_what_the_leading_head_promises_is_kept_and_a_cleared_store_has_nothing(
    tmp_path: Path,
) -> None:
    journal = journal_with(tmp_path / "lead", 1)
    copy = make_copy(tmp_path / "lead")
    store = CopyStore(tmp_path / "standby")
    everything = blocks(copy, list(range(len(copy.digests))))
    store.take(held(copy, journal, in_step=False), everything, digest_of_all(copy.digests))
    store.note(in_step=True, epoch=7)
    store.close()
    store = CopyStore(tmp_path / "standby")
    assert (store.held.in_step, store.held.epoch) == (True, 7)
    store.clear()
    store.close()
    assert CopyStore(tmp_path / "standby").held == Held()


def test_a_damaged_copy_takes_no_journals_place(tmp_path: Path) -> None:
    journal_with(tmp_path / "lead", 1).close()
    copy = tmp_path / "copy"
    copy.write_bytes(b"no journal at all" * 1000)
    before = (tmp_path / "lead" / "journal.sqlite").read_bytes()
    with pytest.raises(JournalError, match="cannot be used"):
        install(tmp_path / "lead", copy, 5.0, made_at=1.0, hold=False)
    assert (tmp_path / "lead" / "journal.sqlite").read_bytes() == before


def test_files_of_a_standby_are_for_its_account_alone(tmp_path: Path) -> None:
    journal = journal_with(tmp_path / "lead", 1)
    copy = make_copy(tmp_path / "lead")
    store = CopyStore(tmp_path / "standby")
    everything = blocks(copy, list(range(len(copy.digests))))
    store.take(held(copy, journal), everything, digest_of_all(copy.digests))
    store.written()
    files = [*(tmp_path / "standby").iterdir(), copy.path]
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
