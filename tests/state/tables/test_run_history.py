"""What was seen of runs and cards outlives the console, within bounds, and older journals too."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.devices.run_history import HostCalibration, Observation
from gpuconsole.errors import ReadOnlyError
from gpuconsole.state import Journal
from gpuconsole.state.migrations import MIGRATIONS, VERSION
from gpuconsole.state.tables import run_history

RUN = Observation(
    job="20261121-1", attempt=1, at=1_800_000_000.0, outcome="oom", digest="d", script="/p/t.py",
    args=("--batch-size", "8", "ü"), batch=8, devices=1, backend="gpu", device="A100",
    host="lab-01", tier="static", predicted_tensors_mib=10.5, predicted_reserved_mib=11.0,
    predicted_total_mib=611.0, oom_probability=0.25, allocated_mib=12.0, reserved_mib=13.0,
    nvml_mib=400.0, requested_mib=5.0, free_mib=900.0, step_s=0.125, steps=40, paddle="3.3.1",
    image="lab/paddle:1",
)  # fmt: skip
CARD = HostCalibration(
    host="lab-01", device="A100", at=1_800_000_000.0, method="driver", uuid="GPU-1",
    driver="550.1", image="lab/paddle:1", paddle="3.3.1", context_mib=412.0, first_mib=300.0,
    matmul_mib=380.0, granularity_mib=2.0, workspace_mib=1.5,
)  # fmt: skip


def now() -> float:
    return 1_800_000_000.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "state", clock=now)
    yield opened
    opened.close()


def test_what_was_seen_comes_back_whole(journal: Journal) -> None:
    sparse = Observation("20261121-2", 1, 1.0, "ok", "", "/p/t.py")
    journal.observe(RUN)
    journal.observe(sparse)
    journal.calibrate(CARD)
    assert journal.observations() == (RUN, sparse)
    assert journal.calibrations() == (CARD,)


def test_an_attempt_is_recorded_once_however_often_its_end_is_written(journal: Journal) -> None:
    journal.observe(RUN)
    journal.observe(replace(RUN, reserved_mib=14.0))
    journal.observe(replace(RUN, attempt=2))
    assert [(one.attempt, one.reserved_mib) for one in journal.observations()] == [
        (1, 14.0),
        (2, 13.0),
    ]


def test_its_version_tells_that_something_was_added(journal: Journal) -> None:
    versions = [journal.history_version()]
    for add in (journal.observe, journal.observe):
        add(RUN)
        versions.append(journal.history_version())
    journal.calibrate(CARD)
    versions.append(journal.history_version())
    assert len(set(versions[:2] + versions[3:])) == 3


def test_only_the_newest_are_kept(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_history, "KEPT_OBSERVATIONS", 3)
    monkeypatch.setattr(run_history, "KEPT_CALIBRATIONS", 2)
    for number in range(6):
        journal.observe(replace(RUN, job=str(number)))
        journal.calibrate(replace(CARD, context_mib=float(number)))
    assert [one.job for one in journal.observations()] == ["3", "4", "5"]
    assert [one.context_mib for one in journal.calibrations()] == [4.0, 5.0]


def test_a_console_that_only_looks_records_nothing(journal: Journal) -> None:
    journal.observe(RUN)
    looking = Journal(journal.folder, clock=now, read_only=True)
    try:
        assert looking.observations() == (RUN,)
        with pytest.raises(ReadOnlyError):
            looking.observe(RUN)
        with pytest.raises(ReadOnlyError):
            looking.calibrate(CARD)
    finally:
        looking.close()


def test_where_there_is_no_journal_there_is_no_history(tmp_path: Path) -> None:
    looking = Journal(tmp_path / "none", clock=now, read_only=True)
    try:
        assert looking.observations() == ()
        assert looking.calibrations() == ()
    finally:
        looking.close()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_older_journal_is_brought_up_with_its_jobs(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    old = sqlite3.connect(folder / "journal.sqlite")
    for step in MIGRATIONS[:version]:
        for statement in step:
            old.execute(statement)
    old.execute("INSERT INTO meta VALUES ('journal', 'J')")
    old.execute(
        "INSERT INTO jobs (id, user, state, task, submitted_at, revision)"
        " VALUES ('a', 'ada', 'queued', '{\"name\": \"x\"}', 1.0, 1)"
    )
    with contextlib.suppress(sqlite3.OperationalError):
        # From the version on that has a history.
        old.executemany(
            "INSERT INTO observations (job, attempt, at, outcome, digest, script, args, devices,"
            " backend, device, host, tier, steps, paddle, image)"
            " VALUES (?, 1, 1.0, 'ok', 'd', 's', '[]', 1, 'gpu', '', '', '', 3, '', '')",
            [("a",), ("gone",)],
        )
    old.execute(f"PRAGMA user_version = {version}")
    old.commit()
    old.close()
    journal = Journal(folder, clock=now)
    try:
        assert [job.id for job in journal.jobs()] == ["a"]
        seen = journal.observations()
        # From version 9 on it is written with each run, and these two say nothing.
        assert [one.user for one in seen] in ([], ["ada", ""] if version < 9 else ["", ""])
        journal.observe(RUN)
        journal.calibrate(CARD)
        assert journal.observations() == (*seen, RUN)
    finally:
        journal.close()


def test_a_damaged_row_costs_that_row_alone(journal: Journal) -> None:
    journal.observe(RUN)
    journal.observe(replace(RUN, job="other"))
    with journal._database.transaction() as connection:
        connection.execute("UPDATE observations SET args = '{' WHERE job = 'other'")
    assert journal.observations() == (RUN,)
