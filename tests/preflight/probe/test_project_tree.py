"""The copy of a project that a measured script writes to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.probe.runs import project_copy
from tests.waiting import DEADLINE_S


@pytest.fixture
def tree() -> Any:
    return project_copy


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in (".git/objects", "net/deep", "data"):
        (root / name).mkdir(parents=True)
    (root / "train.py").write_text("x = 1")
    (root / "train.sh").write_text("")
    (root / "train.sh").chmod(0o755)
    (root / "net" / "deep" / "layers.py").write_text("y = 2")
    (root / "data" / "large.bin").write_bytes(b"l" * (2**20 + 1))
    (root / "data" / "gone").symlink_to("nowhere")
    return root


def test_small_files_are_copied_and_the_rest_is_linked(
    tree: Any, project: Path, tmp_path: Path
) -> None:
    root = tmp_path / "laid"
    tree.lay(str(project), str(root))
    for name in ("train.py", "net/deep/layers.py"):
        assert not (root / name).is_symlink()
        assert (root / name).read_text() == (project / name).read_text()
    assert (root / "train.sh").stat().st_mode & 0o111
    assert (root / "data" / "large.bin").resolve() == project / "data" / "large.bin"
    assert (root / ".git").resolve() == project / ".git"
    assert not (root / "net").is_symlink()


def test_past_their_limits_folders_and_files_are_linked(
    tree: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (project / "data" / f"{number}.txt").write_text("0123456789")
    monkeypatch.setattr(tree, "MOST_ENTRIES", 12)
    monkeypatch.setattr(tree, "ALL_COPIED_BYTES", 7)
    root = tmp_path / "laid"
    tree.lay(str(project), str(root))
    assert not (root / "train.py").is_symlink()
    assert (root / "data").resolve() == project / "data"
    assert (root / "net" / "deep" / "layers.py").is_symlink()
    assert (root / "net" / "deep" / "layers.py").read_text() == "y = 2"


def test_only_named_files_are_laid_out_where_a_folder_is_no_project(
    tree: Any, project: Path, tmp_path: Path
) -> None:
    tree.lay(str(project), str(tmp_path / "laid"), ["net/deep/layers.py"])
    found = [one.name for one in (tmp_path / "laid").rglob("*") if one.is_file()]
    assert found == ["layers.py"]


def test_what_a_run_left_is_cleared_but_not_what_is_mounted(
    tree: Any, project: Path, tmp_path: Path
) -> None:
    root = tmp_path / "laid"
    (root / "mounted").mkdir(parents=True)
    tree.lay(str(project), str(root))
    (root / "output").mkdir()
    tree.cleared(str(root), {"mounted"})
    assert [one.name for one in root.iterdir()] == ["mounted"]
    tree.lay(str(project), str(root))
    assert (root / "train.py").read_text() == "x = 1"


@pytest.mark.parametrize(("mode", "then"), [("w", "new"), ("a", "l" * (2**20 + 1) + "new")])
def test_a_link_that_is_opened_for_writing_becomes_a_file_of_its_own(
    tree: Any, project: Path, tmp_path: Path, mode: str, then: str
) -> None:
    root = tmp_path / "laid"
    tree.lay(str(project), str(root))
    code = (
        "import sys; from gpuconsole.preflight.probe.runs import project_copy\n"
        f"project_copy.guard_links({str(project)!r})\n"
        f"assert open({str(root / 'data/large.bin')!r}).read(1) == 'l'\n"
        f"open({str(root / 'data/large.bin')!r}, {mode!r}).write('new')\n"
    )
    # In a process of its own: an audit hook stays for good.
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)
    assert (root / "data" / "large.bin").read_text() == then
    assert (project / "data" / "large.bin").stat().st_size == 2**20 + 1


def test_where_a_project_could_be_written_to_nothing_leads_out_of_its_copy(
    tree: Any, project: Path, tmp_path: Path
) -> None:
    outside, root = tmp_path / "outside", tmp_path / "laid"
    (outside / "deep").mkdir(parents=True)
    (outside / "weights.bin").write_text("real")
    for name, target in {
        "to-folder": outside, "to-file": outside / "weights.bin", "to-itself": "net/deep",
        "up": "../outside", "net/back": "../data/large.bin", "all": "/",
    }.items():  # fmt: skip
        (project / name).symlink_to(target)
    tree.lay(str(project), str(root), linked=False)
    assert not (root / "data" / "large.bin").is_symlink()
    assert (root / "data" / "large.bin").read_bytes() == (project / "data/large.bin").read_bytes()
    assert (root / "to-file").read_text() == "real"
    assert (root / "to-itself" / "layers.py").read_text() == "y = 2"
    links = [one for one in root.rglob("*") if one.is_symlink()]
    assert {one.relative_to(root).as_posix() for one in links} == {"to-itself", "data/gone"}
    assert all(one.resolve().is_relative_to(root) for one in links)
    # As `sh -c 'echo > …'` does, which Python's own guard does not see.
    for written in (root / "data" / "large.bin", root / "to-file", root / "net" / "back"):
        written.write_text("written")
    assert (outside / "weights.bin").read_text() == "real"
    assert (project / "data" / "large.bin").stat().st_size == 2**20 + 1


def test_what_is_too_large_to_copy_is_left_out_where_nothing_is_linked(
    tree: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ALL_ALONE_BYTES", 2**20)
    tree.lay(str(project), str(tmp_path / "laid"), linked=False)
    assert (tmp_path / "laid" / "train.py").exists()
    assert not (tmp_path / "laid" / "data" / "large.bin").is_symlink()
    assert not (tmp_path / "laid" / "data" / "large.bin").exists()
    assert not (tmp_path / "laid" / ".git").exists()
