"""Write docs/reliability.md from what ran: `python docs/reliability.py RESULTS.xml ...`.

The rows are the tests marked `fault`; the results are JUnit files of pytest (`--junitxml`). A test
that a run did not have keeps what the page says of it.
"""

from __future__ import annotations

import ast
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
_HEAD = """# What is broken on purpose

Each row is a fault that a test causes with real parts (sshd, Docker engines, SQLite, a stand-in
NVML driver, Paddle on the CPU), what the console promises then, the test that holds the promise,
and what its last recorded run gave. `make real` runs them all; `make reliability` runs them alone
and writes this page; `GPUCONSOLE_MATRIX_JOBS` says how many short jobs it takes, 40 where it is not
set, and `GPUCONSOLE_RANDOM_SESSIONS` how many sessions, 25. No fault was tried on a host
with a real GPU.

| fault | promise | test | last run |
| --- | --- | --- | --- |
"""
_TAIL = """
## Random input

`python -m benchmarks.fuzz --seconds N` damages what hosts, engines, files and scripts say, and
holds that every reader accepts or refuses it: no traceback, no more than 2 s of processor time for
an input, no more than 256 MiB beside what it started with. The run of 2026-11-22 read 202,739
inputs (engine 348, scripts 137, results 2,031, journal rows 2,594, logs 1,380, task files 14,394,
inventories and settings 21,232, frames 28,181, tools 28,918, reports 50,023, notebooks 53,501);
none broke anything, the slowest took 1.13 s. The first runs, before anything was corrected, broke
three readers: results (25 of 591 inputs), what an engine says of itself (22 of 245) and rows of the
journal (3 of 330). A few of each are read with every `make test`.
"""
_ROW = re.compile(r"^\| (?P<fault>.*?) \| .* \| `(?P<test>[^`]+)` \| (?P<last>.*) \|$", re.M)


@dataclass(frozen=True, slots=True)
class Row:
    """A fault, what is promised, and the test (`file::function`) that holds it."""

    fault: str
    promise: str
    test: str


def rows() -> list[Row]:
    """Return the rows as the tests are marked, in the order of files and lines."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if ".mark.fault(" in text:
            found += list(_rows_of(path.relative_to(ROOT / "tests"), ast.parse(text)))
    return found


def _rows_of(path: Path, tree: ast.Module) -> Iterator[Row]:
    for node in tree.body:
        for mark in getattr(node, "decorator_list", ()):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
                fault, promise = (ast.literal_eval(argument) for argument in mark.args)
                yield Row(fault, promise, f"{path}::{getattr(node, 'name', '')}")


def last_runs(page: str) -> dict[tuple[str, str], str]:
    """Return what a page says of the last run of each fault and test."""
    return {(row["fault"], row["test"]): row["last"] for row in _ROW.finditer(page)}


def ran(results: Sequence[Path], day: str) -> dict[str, str]:
    """Return how the tests of JUnit files ended, with their figures, by `file::function`."""
    cases: dict[str, list[ElementTree.Element]] = {}
    for path in results:
        for case in ElementTree.parse(path).iter("testcase"):
            name = case.get("name", "").partition("[")[0]
            file = case.get("classname", "").removeprefix("tests.").replace(".", "/")
            cases.setdefault(f"{file}.py::{name}", []).append(case)
    return {test: f"{_ended(found)} ({day})" for test, found in cases.items()}


def _ended(cases: Sequence[ElementTree.Element]) -> str:
    bad = sum(case.find(word) is not None for case in cases for word in ("failure", "error"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    figures = [
        found.get("value", "")
        for case in cases
        for found in case.iter("property")
        if found.get("name") == "figure"
    ]
    passed = len(cases) - bad - skipped
    ended = [f"{passed} passed"] if passed else []
    ended += [f"{bad} FAILED"] if bad else []
    ended += [f"{skipped} skipped"] if skipped else []
    return "; ".join([", ".join(ended), *dict.fromkeys(figures)])


def page(marked: Sequence[Row], last: Mapping[tuple[str, str], str]) -> str:
    """Return the page."""
    lines = [
        f"| {row.fault} | {row.promise} | `{row.test}` | "
        f"{last.get((row.fault, row.test), 'not recorded yet')} |"
        for row in marked
    ]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def main(arguments: Sequence[str]) -> None:
    """Write the page."""
    last = last_runs(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    now = ran([Path(name) for name in arguments], date.today().isoformat())
    marked = rows()
    last |= {(row.fault, row.test): now[row.test] for row in marked if row.test in now}
    PAGE.write_text(page(marked, last), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
