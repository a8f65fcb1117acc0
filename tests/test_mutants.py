"""The count of changes that tests notice: one without tests, or not tried, is not noticed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import script

TOOL = Path(__file__).parents[1] / "tools" / "mutants.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """Return the tool as a module."""
    return script(TOOL)


def test_what_no_test_noticed_is_listed(
    tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    became = {"a": "killed", "b": "survived", "c": "no tests", "d": "timeout"}
    assert tool.report(["a", "b", "c", "d", "e"], became, 900) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == ["b", "c", "e"]
    assert lines[-1] == "2 of 5 noticed (40%; goal 85%), of 900 changes"


def test_the_goal_itself_is_enough(tool: ModuleType) -> None:
    names = [str(number) for number in range(20)]
    became = {name: "killed" if int(name) < 17 else "survived" for name in names}
    assert tool.report(names, became, 900) == 0
    assert tool.report(names, became | {"0": "survived"}, 900) == 1
