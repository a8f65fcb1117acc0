"""The journal on disks that are full or cannot be written: real filesystems, mounted here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import JournalError
from gpuconsole.state import Journal, new_job_id
from gpuconsole.state.backup.backups import backups, make_backup, restore

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root, mount"),
]


def a_job(size: int = 0) -> Job:
    now = time.time()
    return Job(
        id=new_job_id(now),
        task=Task("x", script="/p/t.py"),
        user="ada",
        state=JobState.QUEUED,
        submitted_at=now,
        estimate={"filling": "x" * size},
    )


def until_refused(journal: Journal) -> list[Job]:
    """Add large jobs until the disk is full; those that were added."""
    added: list[Job] = []
    for _ in range(1000):
        try:
            added.append(journal.add(a_job(size=50_000)))
        except JournalError as refused:
            assert (refused.title, refused.exit_code) == ("Disk is full", 2)  # noqa: PT017
            return added
    raise AssertionError("the disk never filled up")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.decode(errors='replace').strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.fault(
    "The console's disk fills up",
    "No job is lost; it works again once there is room",
)
def test_a_disk_that_fills_up_loses_no_job_and_works_again_once_there_is_room(disk: Path) -> None:
    journal = Journal(disk / "state", clock=time.time)
    kept = [journal.add(a_job())]
    kept += until_refused(journal)
    journal.close()
    looking = Journal(disk / "state", clock=time.time, read_only=True)
    assert [job.id for job in looking.jobs()] == [job.id for job in kept]
    looking.close()

    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    again = Journal(disk / "state", clock=time.time)
    assert [job.id for job in again.jobs()] == [job.id for job in kept]
    cancelled = again.save(kept[0], replace(kept[0], state=JobState.CANCELLED))
    assert cancelled.state is JobState.CANCELLED
    again.close()


@pytest.mark.fault(
    "The console's disk is full when the journal is backed up",
    "It is said; nothing half made is left, older backups stay, and the journal is opened",
)
def test_a_full_disk_makes_no_half_backup(disk: Path) -> None:
    state = disk / "state"
    journal = Journal(state, clock=time.time)
    journal.add(a_job())
    first = make_backup(state, time.time())
    kept = until_refused(journal)
    journal.close()
    (state / "identity").unlink()
    with pytest.raises(JournalError) as refused:
        make_backup(state, time.time())
    assert "not backed up" in refused.value.title
    assert [path.name for path in (state / "backups").iterdir()] == [first.path.name]
    assert backups(state) == (first,)
    again = Journal(state, clock=time.time)
    assert len(again.jobs()) == len(kept) + 1
    again.close()
    with pytest.raises(JournalError, match="not restored"):
        restore(state, None, time.time())
    again = Journal(state, clock=time.time)
    assert len(again.jobs()) == len(kept) + 1
    again.close()
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    make_backup(state, time.time())
    assert restore(state, None, time.time()).backup is not None


@pytest.mark.fault(
    "The console's disk is read-only",
    "Work is refused with a sentence, looking works",
)
def test_a_read_only_disk_is_refused_for_work_and_fine_for_looking(disk: Path) -> None:
    journal = Journal(disk / "state", clock=time.time)
    job = journal.add(a_job())
    journal.close()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(JournalError) as refused:
        Journal(disk / "state", clock=time.time)
    assert refused.value.title == "State folder is read-only"
    assert "--read-only" in refused.value.hint
    with pytest.raises(JournalError):
        Journal(disk / "elsewhere", clock=time.time)

    looking = Journal(disk / "state", clock=time.time, read_only=True)
    assert looking.jobs() == (job,)
    looking.close()
