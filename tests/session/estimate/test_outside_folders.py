"""Folders outside of a project that its files name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuconsole.session.estimate import outside_folders
from gpuconsole.session.estimate.outside_folders import named_outside


def test_folders_that_the_files_of_a_project_name_are_found(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "configs").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".git" / "hook.sh").write_text("cat /hidden/file")
    (project / "train.py").write_text('root = "/media/me/faces"\nlog("/etc/x", "/tmp/y", "a/b/c")')
    (project / "configs" / "a.yml").write_text("data: /data7/faces\nurl: https://host/path/x\n")
    (project / "picture.jpg").write_text("/jpg/x")
    # Nobody writes to it.
    os.mkfifo(project / "pipe.py")
    found = named_outside([project], project, ["--out", "/space0/run"])
    assert found == (Path("/data7"), Path("/media"), Path("/space0"), tmp_path)


def test_only_what_is_shown_is_read_and_not_too_much_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("'/data1/a'")
    (tmp_path / "other.py").write_text("'/data2/a'")
    assert Path("/data2") not in named_outside([script], tmp_path, [])
    monkeypatch.setattr(outside_folders, "MOST_ENTRIES", 1)
    assert named_outside([tmp_path], tmp_path, []) == (tmp_path.parent,)


@pytest.mark.parametrize("root", ["/project", "/usr/src/project", "/var/lib/project"])
def test_no_folder_of_the_system_is_among_them(root: str) -> None:
    assert named_outside([], Path(root), ["/usr/x", "/proc/self"]) == ()
