"""Folders of one process, and what is done with those that a killed process left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpuconsole.remote.isolation.claimed_folders import claimed_folder, remove_tree, scratch_folder
from tests.waiting import DEADLINE_S

KILLED = """
import os, sys
from pathlib import Path
from gpuconsole.remote.isolation.claimed_folders import claimed_folder, remove_tree
with claimed_folder(Path(sys.argv[1]), "own-", remove_tree) as folder:
    (folder / "deep" / "shut").mkdir(parents=True)
    (folder / "deep" / "shut" / "file").write_text("left")
    (folder / "deep" / "link").symlink_to(sys.argv[2])
    (folder / "deep" / "shut").chmod(0)
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    parent, other = tmp_path / "parent", tmp_path / "other"
    for folder in (parent, other, parent / "another-prefix"):
        folder.mkdir()
    (other / "file").write_text("of someone")
    (parent / "own-file").write_text("no folder")
    (parent / "own-link").symlink_to(other)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(parent), str(other)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    left = Path(done.stdout.strip())
    assert left.is_dir(), done.stderr
    with claimed_folder(parent, "own-", remove_tree) as mine:
        assert not left.exists()
        # A folder in use is nobody else's, not even in the same process.
        with claimed_folder(parent, "own-", remove_tree) as second:
            assert mine.is_dir()
            assert mine != second
    assert sorted(one.name for one in parent.iterdir()) == [
        "another-prefix",
        "own-file",
        "own-link",
    ]
    assert (other / "file").read_text() == "of someone"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change an owner")
def test_folders_of_other_users_are_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "own-theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    with claimed_folder(tmp_path, "own-", remove_tree):
        assert theirs.is_dir()
    assert theirs.is_dir()


def test_a_folder_that_another_took_for_left_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, []

    def taken(prefix: str, dir: Path) -> str:
        made.append(make(prefix=prefix, dir=dir))
        if len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    with claimed_folder(tmp_path, "own-", remove_tree) as folder:
        assert [str(folder)] == made[1:]
        assert folder.is_dir()


async def test_temporary_files_lie_where_the_system_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with scratch_folder("gpuconsole-") as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()
    assert not folder.exists()
