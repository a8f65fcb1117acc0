"""What a measured script is heard to read, in a process of its own as the probe runs it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.probe.runs import read_files

RUN = """
import json, sys
from gpuconsole.preflight.probe.runs import read_files
reads = read_files.Reads({request!r})
sys.addaudithook(reads.heard)
sys.path[:0] = [{root!r}, *{others!r}]
exec(compile(open({script!r}).read(), {script!r}, "exec"))
print(json.dumps(reads.told()))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "__init__.py").touch()
    (root / "pkg" / "net.py").write_text("import helper\nWIDTH = 4\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper.py").write_text("A = 1\n")
    (tmp_path / "other.txt").write_text("not of the project\n")
    (root / "data").mkdir()
    (root / "data" / "a.csv").write_text("1,2\n")
    return root


def read(root: Path, text: str, source: Path | None = None) -> dict[str, Any]:
    script = root / "train.py"
    script.write_text(text)
    others = [str(root.parent / "lib")]
    request = {"root": str(root), "path": [*others, "src"], "source": source and str(source)}
    code = RUN.format(request=request, root=str(root), others=others, script=str(script))
    said = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=root, check=True, capture_output=True, text=True
    )
    return dict(json.loads(said.stdout))


def told(path: Path) -> list[Any]:
    content = path.read_bytes()
    return [len(content), hashlib.sha256(content).hexdigest()]


def test_modules_by_computed_names_and_files_of_any_kind_are_heard(project: Path) -> None:
    found = read(
        project,
        "import importlib, os, pathlib\n"
        "importlib.import_module('.'.join(['pkg', 'n' + 'et']))\n"
        "pathlib.Path('data/a.csv').read_text()\n"
        "open(b'../other.txt').close()\n"
        "os.listdir('data')\n"
        "try: open('local.yaml')\n"
        "except OSError: pass\n",
    )
    lib = project.parent / "lib" / "helper.py"
    assert found == {
        "files": {
            "train.py": told(project / "train.py"),
            "pkg/__init__.py": told(project / "pkg/__init__.py"),
            "pkg/net.py": told(project / "pkg/net.py"),
            str(lib): told(lib),
            "data/a.csv": told(project / "data/a.csv"),
            "local.yaml": None,
        },
        "folders": ["data"],
    }


def test_what_is_written_and_what_tools_hold_is_not_read(project: Path) -> None:
    (project / ".venv" / "site-packages").mkdir(parents=True)
    (project / ".venv" / "site-packages" / "library.py").touch()
    found = read(
        project,
        "open('log.txt', 'w').close()\n"
        "open('.venv/site-packages/library.py').close()\n"
        "open('log.txt', 'a').close()\n",
    )
    assert list(found["files"]) == ["train.py"]
    assert found["folders"] == []


def test_the_project_s_own_text_is_told_and_not_the_copy_s(project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (project / "settings.json").write_text("{}")
    found = read(
        copy,
        "open('settings.json', 'w').write('changed')\n"
        "open('settings.json').close()\n"
        f"open({str(project / 'pkg' / 'net.py')!r}).close()\n",
        source=project,
    )
    assert found["files"]["settings.json"] == told(project / "settings.json")
    assert found["files"]["pkg/net.py"] == told(project / "pkg" / "net.py")
    assert found["files"]["train.py"] is None


def test_large_files_are_told_by_their_size_and_odd_ones_not_at_all(project: Path) -> None:
    (project / "large.bin").write_bytes(b"x" * (2**20 + 1))
    found = read(project, "open('large.bin', 'rb').close()\nimport os\nos.open('data', 0)\n")
    assert found["files"]["large.bin"] == [2**20 + 1, ""]
    assert found["files"]["data"] is None


def test_runs_are_told_as_one() -> None:
    runs = [
        {"batch": 2, "read": {"files": {"a": None}, "folders": ["x"]}},
        {"batch": 4, "read": {"files": {"a": None, "b": [1, ""]}, "folders": ["x", "y"]}},
    ]
    assert read_files.united(runs) == {
        "files": {"a": None, "b": [1, ""]},
        "folders": ["x", "y"],
    }
    assert runs == [{"batch": 2}, {"batch": 4}]
