"""The choice of tests by what changed: those that import it, or all where imports do not show."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import script

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """Return the tool as a module."""
    return script(ROOT / "tools" / "choose_tests.py")


def test_a_module_chooses_the_tests_that_import_it_and_no_others(tool: ModuleType) -> None:
    chosen = tool.choose(ROOT, {"gpuconsole/triage/xids.py"})
    assert "tests/triage/test_rules.py" in chosen  # through the rules
    assert "tests/test_words.py" in chosen  # always
    assert "tests/placement/test_decide.py" not in chosen
    assert not any(path.startswith("tests/real/") for path in chosen)


def test_a_package_chooses_the_tests_of_its_modules(tool: ModuleType) -> None:
    modules = tool.choose(ROOT, {"gpuconsole/triage/xids.py", "gpuconsole/triage/detector.py"})
    assert tool.choose(ROOT, {"gpuconsole/triage/__init__.py"}) >= modules


def test_what_tests_share_chooses_the_tests_that_import_it(tool: ModuleType) -> None:
    chosen = tool.choose(ROOT, {"tests/waiting.py"})
    importers = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "from tests.waiting import" in path.read_text() and "/real/" not in str(path)
    }
    assert importers
    assert chosen >= importers
    assert len(chosen) < len(tool._test_files(ROOT))


@pytest.mark.parametrize(
    "path",
    ["gpuconsole/data/cards.csv", "pyproject.toml", "tests/conftest.py", "gpuconsole/removed.py"],
)
def test_what_imports_cannot_tell_chooses_all(tool: ModuleType, path: str) -> None:
    assert tool.choose(ROOT, {path}) is None


def test_a_page_chooses_the_tests_of_pages(tool: ModuleType) -> None:
    assert all(path.count("/") == 1 for path in tool.choose(ROOT, {"docs/speed.md", "README.md"}))


def test_changes_are_those_since_the_branch_left_with_files_not_yet_committed(
    tool: ModuleType, tmp_path: Path
) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        subprocess.run(("git", *who, *arguments), cwd=tmp_path, check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text(name)
        git("add", "--all")
        git("commit", "--message", name)

    git("init", "--initial-branch", "main")
    commit("before")
    git("checkout", "-b", "branch")
    commit("on the branch")
    git("checkout", "main")
    commit("on main")
    git("checkout", "branch")
    assert tool.changed_files(tmp_path, None) == {"on the branch"}
    (tmp_path / "new").write_text("")
    (tmp_path / "before").unlink()
    assert tool.changed_files(tmp_path, None) == {"on the branch", "new", "before"}
    assert tool.changed_files(tmp_path, "main") == {"on the branch", "new", "before", "on main"}
