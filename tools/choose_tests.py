"""Chooses the test files that a change can affect, and prints them as arguments for pytest.

    python tools/choose_tests.py [--all] [--since REVISION]

A test file is chosen when it changed, or when it imports a changed module, directly or through
others (lazy imports count, imports for type checkers do not). Files in `tests/` itself always run:
they hold pages, words and the shape of the tree. All tests run with `--all`, when nothing changed,
and when something changed that imports do not lead to: data files, `pyproject.toml`.

Without `--since` a change is what differs from where the branch left `origin/main`, or `main`,
including files that are not committed.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = "gpuconsole"
TESTS = "tests"
BENCHMARKS = "benchmarks"
WHOLE = ("--ignore=tests/real",)
"""What pytest is given for all tests. The suite on real parts is one of its own: `make real`."""
PAGES = (".md", ".svg", ".png", ".gif", ".html", ".css")
"""Endings of files outside the product that only the tests in `tests/` itself read."""


def main() -> None:
    """Print the arguments, and what was chosen to the standard error."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--all", action="store_true", help="choose all tests")
    options.add_argument("--since", metavar="REVISION", help="the revision to compare with")
    given = options.parse_args()
    changed = None if given.all else changed_files(ROOT, given.since)
    chosen = choose(ROOT, changed) if changed else None
    if chosen is None:
        print("all tests", file=sys.stderr)
        print(*WHOLE)
        return
    total = len(_test_files(ROOT))
    print(
        f"{len(chosen)} of {total} test files: those that import what changed (ALL=1 for all)",
        file=sys.stderr,
    )
    print(*sorted(chosen))


def changed_files(root: Path, since: str | None) -> set[str]:
    """Return the paths that differ from the revision, deleted and new ones among them."""
    base = since or _branch_point(root)
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", base)
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return {path for path in (tracked + new).split("\0") if path}


def choose(root: Path, changed: Iterable[str]) -> set[str] | None:
    """Return the test files that the changed paths can affect; None means all.

    Paths are relative to the root, with slashes.
    """
    graph = _graph()
    modules: set[str] = set()
    test_modules: set[str] = set()
    for path in changed:
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if path.startswith(f"{TESTS}/real/"):
            continue
        if path in (f"{TESTS}/conftest.py", f"{TESTS}/profiles.py"):
            return None
        if path.startswith((f"{TESTS}/", f"{BENCHMARKS}/")) and path.endswith(".py"):
            test_modules.add(name)
        elif path.endswith(".py") and name in graph.modules:
            modules.add(name)
        elif not path.startswith((f"{PRODUCT}/", f"{TESTS}/")) and path.endswith(PAGES):
            continue
        else:
            return None
    affected = (_affected(graph, module) for module in modules)
    return _tests_that_import(root, test_modules.union(*affected))


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(PRODUCT, exclude_type_checking_imports=True, cache_dir=None)


def _affected(graph: grimp.ImportGraph, module: str) -> set[str]:
    """Return a module and those that import it. A package's own file runs before its modules."""
    package = graph.find_descendants(module)
    return {module} | package | graph.find_downstream_modules(module, as_package=bool(package))


def _tests_that_import(root: Path, names: set[str]) -> set[str]:
    """Return the test files that import one of these modules, directly or through others."""
    files = (path for tree in (TESTS, BENCHMARKS) for path in (root / tree).rglob("*.py"))
    imports = {_module(root, path): _imports(path) for path in files}
    chosen = set()
    for path in _test_files(root):
        relative = path.relative_to(root)
        if len(relative.parts) == 2 or _reach(_start(root, path), imports) & names:
            chosen.add(relative.as_posix())
    return chosen


def _start(root: Path, path: Path) -> set[str]:
    """Return a test file's module and those of the conftest files of its folders.

    That of `tests/` is left out: its fixtures serve every test, and a change of it runs all.
    """
    folders = [folder for folder in path.parents if folder.is_relative_to(root / TESTS)]
    shared = (folder / "conftest.py" for folder in folders if folder != root / TESTS)
    return {_module(root, file) for file in (path, *shared) if file.exists()}


def _reach(start: set[str], imports: Mapping[str, set[str]]) -> set[str]:
    """Return these modules and what they import, followed through tests and benchmarks."""
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += imports.get(module, ())
    return reached


@cache
def _imports(path: Path) -> set[str]:
    """Return what a file imports: modules, and names in them, which may be modules too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _test_files(root: Path) -> list[Path]:
    files = (root / TESTS).rglob("test_*.py")
    return [path for path in files if not path.is_relative_to(root / TESTS / "real")]


def _module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _branch_point(root: Path) -> str:
    """Return the commit where the branch left the main one; HEAD where there is no main one."""
    for main in ("origin/main", "main"):
        try:
            return _git(root, "merge-base", "HEAD", main).strip()
        except subprocess.CalledProcessError:
            continue
    return "HEAD"


def _git(root: Path, *arguments: str) -> str:
    run = subprocess.run(
        ("git", *arguments),
        cwd=root,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return run.stdout


if __name__ == "__main__":
    main()
