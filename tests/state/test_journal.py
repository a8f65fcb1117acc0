"""The journal keeps every job, refuses illegal and stale writes, and says what is wrong with it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.jobs import TRANSITIONS, Attempt, Job, JobState, Mount, Task
from gpuconsole.core.submission.script_edits import Edit
from gpuconsole.errors import JournalError, ReadOnlyError
from gpuconsole.state import (
    STALE_AFTER_S,
    JobMovedError,
    Journal,
    RoleLostError,
    new_job_id,
    new_nonce,
)
from gpuconsole.state.database import plain_errors
from gpuconsole.state.journal import CHANGED
from gpuconsole.state.migrations import MIGRATIONS, VERSION
from gpuconsole.state.tables import codec
from tests.waiting import DEADLINE_S


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[Journal]:
    opened = Journal(tmp_path / "state", clock=clock)
    yield opened
    opened.close()


def a_job(name: str = "train", **changes: object) -> Job:
    job = Job(
        id=new_job_id(1_800_000_000.0),
        task=Task(name=name, script="/home/ada/train.py"),
        user="ada",
        state=JobState.QUEUED,
        submitted_at=1_800_000_000.0,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def an_attempt(job: Job, number: int = 1) -> Attempt:
    return Attempt(
        number=number,
        host="a100-01",
        device_uuids=("GPU-1", "GPU-2"),
        device_indexes=(0, 1),
        container_name=f"gpuconsole-{job.id}-{number}-{new_nonce()}",
        created_at=1_800_000_001.0,
        placement_reasons=("fits best", "same NVLink island"),
    )


def test_a_job_comes_back_as_it_was_written(journal: Journal, clock: Clock) -> None:
    task = Task(
        name="bert",
        script="/p/train.py",
        args=("--lr", "0.1"),
        env={"A": "1"},
        mounts=(Mount("/data", "/data"), Mount("/scratch", "/scratch", read_only=False)),
        devices=None,
        labels={"rack": "r1"},
        preferred_devices=("RTX_3090",),
        after=("x",),
        assumptions={"vocab": "30000"},
    )
    job = a_job(task=task, estimate={"memory": {"total_mib": 1.5}}, estimate_mib=1.5)
    stored = journal.add(job)
    launching = journal.save(
        stored,
        replace(stored, state=JobState.LAUNCHING, attempts=(an_attempt(stored),), detail="claim"),
    )

    again = Journal(journal.folder, clock=clock)
    assert again.id == journal.id
    assert again.jobs() == (launching,)
    assert again.jobs()[0].task == task
    again.close()


def test_every_field_of_a_task_is_kept() -> None:
    text = codec.dump_task(Task(name="x"))
    assert all(f'"{field.name}":' in text for field in fields(Task))


@given(
    st.builds(
        Task,
        name=st.text(),
        args=st.tuples(st.text(), st.text()),
        env=st.dictionaries(st.text(), st.text()),
        mounts=st.tuples(st.builds(Mount, st.text(), st.text(), st.booleans())),
        edits=st.tuples(st.builds(Edit, st.text(), st.integers(1), st.text(), st.text())),
        run_time_s=st.none() | st.floats(0, 1e6),
        devices=st.none() | st.integers(1, 64),
    )
)
def test_any_task_survives_the_codec(task: Task) -> None:
    assert codec.load_task(codec.dump_task(task)) == task


def test_a_task_of_a_later_version_is_read_as_far_as_known() -> None:
    assert codec.load_task('{"name": "x", "colour": "blue"}') == Task(name="x")
    with pytest.raises(ValueError, match="damaged"):
        codec.load_task("[]")


def test_unchanged_jobs_are_the_same_tuple_and_changes_of_others_arrive(
    journal: Journal, clock: Clock
) -> None:
    first = journal.add(a_job("one"))
    journal.add(a_job("two"))
    before = journal.jobs()
    assert journal.jobs() is before

    other = Journal(journal.folder, clock=clock)
    seen = other.job(first.id)
    assert seen is not None
    other.save(seen, replace(seen, state=JobState.HELD))
    other.close()

    after = journal.jobs()
    assert [job.task.name for job in after] == ["one", "two"]
    assert after[0].state is JobState.HELD
    assert after[1] is before[1], "an unchanged job is not read again"
    assert after[0].revision > before[0].revision


def test_a_heartbeat_of_another_console_changes_no_job(journal: Journal, clock: Clock) -> None:
    journal.add(a_job())
    other = Journal(journal.folder, clock=clock)
    before = journal.jobs()
    assert other.take_role("other") == 1
    assert journal.jobs() is before
    other.close()


@pytest.mark.parametrize("old", list(JobState))
@pytest.mark.parametrize("new", list(JobState))
def test_only_legal_moves_are_written(journal: Journal, old: JobState, new: JobState) -> None:
    job = journal.add(a_job(state=old))
    if new is old or new in TRANSITIONS[old]:
        assert journal.save(job, replace(job, state=new)).state is new
    else:
        with pytest.raises(ValueError, match="cannot go from"):
            journal.save(job, replace(job, state=new))
        assert journal.job(job.id) == job


def test_a_write_that_saw_another_state_is_refused_whole(journal: Journal) -> None:
    job = journal.add(a_job())
    journal.save(job, replace(job, state=JobState.CANCELLED))
    with pytest.raises(JobMovedError) as refused:
        journal.save(
            job, replace(job, state=JobState.LAUNCHING, attempts=(an_attempt(job),), detail="x")
        )
    assert refused.value.state is JobState.CANCELLED
    now = journal.job(job.id)
    assert now is not None
    assert (now.state, now.attempts, now.detail) == (JobState.CANCELLED, (), "")


def test_two_writers_of_different_fields_do_not_undo_each_other(journal: Journal) -> None:
    queued = journal.add(a_job())
    job = journal.save(
        queued, replace(queued, state=JobState.LAUNCHING, attempts=(an_attempt(queued),))
    )
    journal.save(job, replace(job, cancel_requested=True))
    after = journal.save(job, replace(job, detail="pulling image 43 %"))
    assert after.cancel_requested
    assert after.detail == "pulling image 43 %"


def test_a_state_change_is_an_event_for_every_console(journal: Journal, clock: Clock) -> None:
    number = journal.last_event()
    job = journal.add(a_job("bert"))
    journal.save(job, replace(job, state=JobState.CANCELLED, cause="Cancelled by ada"))
    other = Journal(journal.folder, clock=clock)
    events = [event for _, event in other.events_after(number)]
    assert [(event.kind, event.subject) for event in events] == [("job", job.id)] * 2
    assert events[-1].message == "bert: cancelled. Cancelled by ada"
    other.close()


def test_the_role_has_one_owner_and_passes_on_when_its_heartbeat_ages(
    journal: Journal, clock: Clock
) -> None:
    second = Journal(journal.folder, clock=clock)
    epoch = journal.take_role("first")
    assert epoch is not None
    assert second.take_role("second") is None
    clock.time += STALE_AFTER_S - 1
    journal.renew_role(epoch)
    clock.time += STALE_AFTER_S - 1
    assert second.take_role("second") is None
    clock.time += 2
    assert second.take_role("second") == epoch + 1
    second.close()


def test_a_stale_dispatcher_can_write_nothing(journal: Journal, clock: Clock) -> None:
    job = journal.add(a_job())
    epoch = journal.take_role("first")
    assert epoch is not None
    clock.time += STALE_AFTER_S + 1
    second = Journal(journal.folder, clock=clock)
    newer = second.take_role("second")
    with pytest.raises(RoleLostError):
        journal.save(job, replace(job, state=JobState.LAUNCHING), epoch=epoch)
    with pytest.raises(RoleLostError):
        journal.renew_role(epoch)
    with pytest.raises(RoleLostError):
        journal.require_role(epoch)
    journal.give_back_role(epoch)
    assert second.role().owner == "second", "a stale owner cannot give away another's role"
    assert second.save(job, replace(job, state=JobState.LAUNCHING), epoch=newer).state
    second.close()


def test_a_role_given_back_is_free_at_once(journal: Journal, clock: Clock) -> None:
    epoch = journal.take_role("first")
    assert epoch is not None
    journal.give_back_role(epoch)
    with pytest.raises(RoleLostError):
        journal.renew_role(epoch)
    assert journal.take_role("second") == epoch + 1


def test_the_role_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, os, time; from pathlib import Path; from gpuconsole.state import Journal;"
        "j = Journal(Path(sys.argv[1]), clock=time.time); print(j.take_role('x'));"
        "sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (-9, "1"), done.stderr
    import time

    journal = Journal(tmp_path, clock=time.time)
    assert journal.take_role("next") == 2
    journal.close()


def test_a_clock_set_back_does_not_block_the_role(journal: Journal, clock: Clock) -> None:
    journal.take_role("first")
    clock.time -= 3600
    assert journal.take_role("second") == 2


def test_a_newer_journal_is_refused_and_not_touched(tmp_path: Path, clock: Clock) -> None:
    Journal(tmp_path, clock=clock).close()
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match="newer gpuconsole") as refused:
        Journal(tmp_path, clock=clock)
    assert refused.value.exit_code == 2
    assert "--state" in refused.value.hint
    assert path.read_bytes() == before


def test_an_attempt_of_an_older_journal_may_have_a_container(tmp_path: Path, clock: Clock) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "INSERT INTO jobs VALUES (1, 'j', 'ada', 'launching', ?, 1.0, NULL, '', '', 0, NULL,"
            " NULL, 1)",
            (codec.dump_task(Task(name="train")),),
        )
        connection.execute(
            "INSERT INTO attempts (job, number, host, device_uuids, device_indexes,"
            " container_name, created_at, placement_reasons)"
            " VALUES ('j', 1, 'a', '[]', '[]', 'c', 5.0, '[]')"
        )
    connection.close()
    journal = Journal(tmp_path, clock=clock)
    (job,) = journal.jobs()
    journal.close()
    assert job.attempt is not None
    assert job.attempt.creating_at == 5.0


def test_a_damaged_journal_is_named(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"not a database, but long enough" * 100)
    with pytest.raises(JournalError, match="is damaged"):
        Journal(tmp_path, clock=clock)


def test_a_damaged_row_is_named(journal: Journal, clock: Clock) -> None:
    job = journal.add(a_job())
    with sqlite3.connect(journal.folder / "journal.sqlite") as connection:
        connection.execute("UPDATE jobs SET task = 'x'")
    connection.close()
    other = Journal(journal.folder, clock=clock)
    with pytest.raises(JournalError, match=f"job {job.id} cannot be read"):
        other.jobs()
    other.close()


def test_a_locked_journal_is_named(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr("gpuconsole.state.database.BUSY_TIMEOUT_S", 0.01)
    other = Journal(journal.folder, clock=clock)
    blocker = sqlite3.connect(journal.folder / "journal.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError, match="locked"):
        other.add(a_job())
    blocker.execute("ROLLBACK")
    blocker.close()
    other.add(a_job())
    other.close()


def test_a_full_disk_loses_nothing(journal: Journal, clock: Clock) -> None:
    job = journal.add(a_job())
    connection = journal._database._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    big = a_job(estimate={"x": "y" * 200_000})
    with pytest.raises(JournalError, match="Disk is full"):
        journal.add(big)
    assert journal.jobs() == (job,)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert journal.add(big).id == big.id


def test_a_folder_that_is_a_file_and_one_that_cannot_be_made(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(JournalError, match="State folder"):
            Journal(folder, clock=clock)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder root cannot write")
def test_a_read_only_folder_is_named(clock: Clock) -> None:
    with pytest.raises(JournalError, match="read-only"):
        Journal(Path("/proc/self/fd"), clock=clock)


def test_read_only_looks_and_writes_nothing(tmp_path: Path, clock: Clock) -> None:
    nothing = Journal(tmp_path / "none", clock=clock, read_only=True)
    assert nothing.jobs() == ()
    assert not (tmp_path / "none").exists()
    nothing.close()

    writer = Journal(tmp_path, clock=clock)
    job = writer.add(a_job())
    reader = Journal(tmp_path, clock=clock, read_only=True)
    assert reader.jobs() == (job,)
    with pytest.raises(ReadOnlyError):
        reader.add(a_job())
    with pytest.raises(ReadOnlyError):
        reader.take_role("x")
    writer.close()
    reader.close()


def test_many_consoles_open_a_new_journal_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from gpuconsole.state import Journal;"
        "print(Journal(Path(sys.argv[1]), clock=time.time).id)"
    )
    consoles = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    ids = {console.communicate(timeout=DEADLINE_S)[0] for console in consoles}
    assert len(ids) == 1
    assert len(ids.pop().strip()) == 32


def test_what_is_written_survives_a_power_cut(tmp_path: Path) -> None:
    # In a process of its own: the tests' journals do not wait for the disk.
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from gpuconsole.state import Journal\n"
        "journal = Journal(Path(sys.argv[1]), clock=time.time)\n"
        "print(journal._database._connection.execute('PRAGMA synchronous').fetchone()[0])\n"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    full = "2"
    assert asked.stdout.strip() == full, asked.stderr


def test_ids_sort_by_time_and_do_not_repeat() -> None:
    ids = [new_job_id(1_800_000_000.0 + second) for second in range(1000)]
    assert ids == sorted(ids)
    assert len({new_job_id(1_800_000_000.0) for _ in range(100)}) > 95
    assert {len(job_id) for job_id in ids} == {10}


def test_old_events_go(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuconsole.state.journal.KEPT_EVENTS", 5)
    for number in range(12):
        journal.tell("error", "x", str(number), "error")
    assert [event.message for _, event in journal.events_after(0)] == ["7", "8", "9", "10", "11"]


def test_a_folder_that_may_not_be_written_can_be_looked_at(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "state"
    journal = Journal(folder, clock=clock)
    job = journal.add(a_job())
    journal.close()
    for path in (*folder.iterdir(), folder):
        path.chmod(0o500 if path.is_dir() else 0o400)
    code = (
        "import sys, time; from pathlib import Path; from gpuconsole.state import Journal;"
        "print(Journal(Path(sys.argv[1]), clock=time.time, read_only=True).jobs()[0].id)"
    )
    # Root may write anywhere unless it drops that right.
    words: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root needs setpriv to give up its rights")
        words = ["setpriv", "--bounding-set=-dac_override"]
    looked = subprocess.run(
        [*words, sys.executable, "-c", code, str(folder)], capture_output=True, text=True
    )
    folder.chmod(0o700)
    assert looked.stdout.strip() == job.id, looked.stderr


def test_no_room_for_shared_memory_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=0)

    for free, title in ((None, "Journal cannot be used"), (full, "Disk is full")):
        if free is not None:
            monkeypatch.setattr(shutil, "disk_usage", free)
        with pytest.raises(JournalError, match=title), plain_errors(tmp_path / "journal.sqlite"):
            raise sqlite3.OperationalError("disk I/O error")


def test_drained_hosts_are_kept_with_reason_and_person(journal: Journal, clock: Clock) -> None:
    assert journal.drains() == {}
    journal.drain("a", "fans", "ada")
    journal.drain("b", "", "bob")
    found = journal.drains()
    assert found is journal.drains()
    assert (found["a"].text, found["b"].text) == ("drained by ada: fans", "drained by bob")
    journal.drain("a", "new fans", "bob")
    assert journal.drains()["a"].text == "drained by bob: new fans"
    assert journal.undrain("a")
    assert not journal.undrain("a")
    other = Journal(journal.folder, clock=clock)
    assert list(other.drains()) == ["b"]
    other.close()


def test_jobs_added_together_are_there_all_or_none(journal: Journal) -> None:
    one, two, three = a_job("one"), a_job("two"), a_job("three")
    journal.add_all([one, two])
    assert [job.task.name for job in journal.jobs()] == ["one", "two"]
    with pytest.raises(JournalError):
        journal.add_all([three, one])
    assert [job.task.name for job in journal.jobs()] == ["one", "two"]


def test_what_is_saved_together_is_written_at_once_or_not_at_all(
    journal: Journal, tmp_path: Path, clock: Clock
) -> None:
    jobs = [journal.add(a_job(name)) for name in ("one", "two")]
    other = Journal(tmp_path / "state", clock=clock)
    with journal.together():
        for job in jobs:
            held = journal.save(job, replace(job, state=JobState.HELD))
            assert held.state is JobState.HELD
        assert {job.state for job in other.jobs()} == {JobState.QUEUED}
    assert {job.state for job in other.jobs()} == {JobState.HELD}
    held = journal.jobs()[0]

    def half() -> None:
        with journal.together():
            journal.save(held, replace(held, state=JobState.QUEUED))
            journal.save(jobs[1], replace(jobs[1], state=JobState.CANCELLED))

    with pytest.raises(JobMovedError):
        half()
    for seen in (journal, other):
        assert {job.state for job in seen.jobs()} == {JobState.HELD}
    other.close()


def test_only_rows_that_changed_are_read(journal: Journal) -> None:
    (step, *_) = journal._database.query(f"EXPLAIN QUERY PLAN {CHANGED}", (1,))
    assert "INDEX jobs_by_revision" in step["detail"]
