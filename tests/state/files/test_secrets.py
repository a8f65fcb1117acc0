"""Secret values of jobs on disk: for this user alone, shared by a sweep, removed with their job."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.errors import JournalError, UsageError
from gpuconsole.state.files.secrets import FOLDER, SecretStore

VALUES = {"HF_TOKEN": "hf_x" * 10, "P": "pass\nword\udcff ü"}


def test_values_come_back_and_only_this_user_can_read_them(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "state")
    store.put(["a"], VALUES)
    assert SecretStore(tmp_path / "state").values("a") == VALUES
    folder = tmp_path / "state" / FOLDER
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "a").stat().st_mode & 0o777 == 0o600
    store.put(["a"], {"HF_TOKEN": "other"})
    assert store.values("a") == {"HF_TOKEN": "other"}
    store.discard("a")
    store.discard("a")
    assert store.values("a") == {}
    assert list(folder.iterdir()) == []


def test_the_jobs_of_a_sweep_share_one_file_and_lose_it_one_by_one(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    store.put([f"job-{number}" for number in range(50)], VALUES)
    assert len({path.stat().st_ino for path in (tmp_path / FOLDER).iterdir()}) == 1
    store.put(["job-3"], {"HF_TOKEN": "its own"})
    store.discard("job-0")
    assert store.values("job-1") == VALUES
    assert store.values("job-3") == {"HF_TOKEN": "its own"}
    left = store.discard_if(lambda job, written_at: job != "job-7" and written_at > 0)
    assert left == {"job-7"}
    assert store.values("job-7") == VALUES


def test_without_values_there_is_no_folder(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    store.put(["a"], {})
    assert store.discard_if(lambda job, written_at: True) == frozenset()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"[]", b'{"A": 1}', b"\xff", b"{" * 100_000])
def test_a_damaged_file_is_told_without_its_content(tmp_path: Path, content: bytes) -> None:
    store = SecretStore(tmp_path)
    store.put(["a"], VALUES)
    (tmp_path / FOLDER / "a").write_bytes(content)
    with pytest.raises(UsageError):
        store.values("a")


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    store = SecretStore(tmp_path)
    store.put(["a"], VALUES)
    (tmp_path / FOLDER / "a").chmod(0o644)
    with pytest.raises(UsageError, match="open to others"):
        store.values("a")


def test_a_place_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / FOLDER).touch()
    with pytest.raises(JournalError):
        SecretStore(tmp_path).put(["a", "b"], VALUES)
