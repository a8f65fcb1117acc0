"""docs/reliability.md names the tests that are marked, and what their last run gave."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import script

SCRIPT = Path(__file__).parent.parent / "docs" / "reliability.py"
LEAST = 50
"""Faults that must be tried."""


@pytest.fixture(scope="module")
def reliability() -> ModuleType:
    return script(SCRIPT)


def test_the_page_has_every_marked_test_and_its_last_run(reliability: ModuleType) -> None:
    text = reliability.PAGE.read_text(encoding="utf-8")
    marked, last = reliability.rows(), reliability.last_runs(text)
    assert text == reliability.page(marked, last), "run: python docs/reliability.py"
    assert len({row.fault for row in marked}) >= LEAST
    for found in last.values():
        assert "FAILED" not in found
        assert "not recorded" not in found


def test_results_become_last_runs(reliability: ModuleType, tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    results.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.real.test_a" name="test_x[one]"><properties>
          <property name="figure" value="20 jobs, 0 lost"/></properties></testcase>
        <testcase classname="tests.real.test_a" name="test_x[two]"><failure/></testcase>
        <testcase classname="tests.session.test_b" name="test_y"><skipped/></testcase>
        </testsuite></testsuites>"""
    )
    ran = reliability.ran([results], "2030-01-31")
    assert ran == {
        "real/test_a.py::test_x": "1 passed, 1 FAILED; 20 jobs, 0 lost (2030-01-31)",
        "session/test_b.py::test_y": "1 skipped (2030-01-31)",
    }
    row = reliability.Row("a fault", "a promise", "real/test_a.py::test_x")
    page = reliability.page([row], {("a fault", row.test): ran[row.test]})
    assert reliability.last_runs(page) == {("a fault", row.test): ran[row.test]}
