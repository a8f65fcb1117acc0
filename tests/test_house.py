"""The figures of the source tree: each counts what it says, and none may grow."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import script

TOOL = Path(__file__).parents[1] / "tools" / "house.py"


@pytest.fixture(scope="module")
def house() -> ModuleType:
    """Return the tool as a module."""
    return script(TOOL)


def module_of(house: ModuleType, text: str, path: str = "gpuconsole/room/a.py") -> object:
    return house.Module(path, text, ast.parse(text))


def test_a_function_is_as_long_as_its_lines_without_its_docstring(house: ModuleType) -> None:
    body = "".join(f"    x{n} = {n}\n" for n in range(49))
    fits = module_of(house, f'def f():\n    """Say\n\n    much.\n    """\n{body}')
    over = module_of(house, f"async def f():\n{body}    return 1\n")
    assert house.long_functions([fits]) == []
    assert house.long_functions([over]) == ["gpuconsole/room/a.py:1 f: 51"]


def test_a_folder_is_full_with_more_than_twenty_modules_beside_its_init(house: ModuleType) -> None:
    found = [module_of(house, "", f"gpuconsole/room/m{n}.py") for n in range(20)]
    found.append(module_of(house, "", "gpuconsole/room/__init__.py"))
    assert house.folders_too_full(found) == []
    found.append(module_of(house, "", "gpuconsole/room/more.py"))
    assert house.folders_too_full(found) == ["gpuconsole/room: 21"]


def test_circles_of_imports_are_found_and_chains_are_none(house: ModuleType) -> None:
    chain = {"a": ["b", "c"], "b": ["c"], "c": [], "d": ["outside"]}
    assert house.cycles(chain) == []
    circle = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": ["f"], "f": ["e"]}
    assert sorted(house.cycles(circle)) == [["a", "b", "c"], ["e", "f"]]


def test_a_small_module_with_one_importer_belongs_to_it(house: ModuleType) -> None:
    found = [module_of(house, "x = 1\n" * lines, f"p/{name}.py") for name, lines in (
        ("alone", 59), ("long", 60), ("shared", 5),
    )]  # fmt: skip
    imports = {"p.user": ["p.alone", "p.long", "p.shared"], "p.other": ["p.shared"]}
    assert house.small_and_lonely(found, imports) == ["p/alone.py: 59"]


def test_words_count_in_comments_docstrings_and_names_and_nowhere_else(house: ModuleType) -> None:
    text = (
        '"""Nobody looks."""\n'
        "# begun anew\n"
        'say("told anew")\n'
        "for one in rows:\n"
        "    print(one)\n"
        "def f(kept, fleet):\n"
        "    found = told\n"
    )
    places = [place.split(":", 1)[1] for place in house.bad_words(module_of(house, text))]
    assert sorted(places) == ["1 Nobody", "2 anew", "4 one", "6 kept", "7 found"]


def test_every_use_of_any_counts_and_its_import_does_not(house: ModuleType) -> None:
    text = "from typing import Any\ndef f(x: Any) -> dict[str, Any]: ...\n"
    assert len(house.any_types([module_of(house, text)])) == 2


def test_what_is_recorded_falls_and_never_grows(house: ModuleType) -> None:
    figures = {
        "better": house.Figure(2, (), 0),
        "worse": house.Figure(5, ("a.py:1",), 0),
        "new": house.Figure(7, (), 0),
        "size": house.Figure(100, (), None),
    }
    recorded = {"better": 3, "worse": 4}
    assert house.grown(figures, recorded) == ["worse"]
    assert house.lowered(figures, recorded) == {"better": 2, "worse": 4, "new": 7}


def test_a_figure_that_grew_fails_the_check_and_names_the_place(
    house: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = tmp_path / "house.json"
    record.write_text(json.dumps({"cycles": 0}))
    monkeypatch.setattr(house, "RECORD", record)
    monkeypatch.setattr(house, "FIGURES", {"cycles": lambda: house.Figure(1, ("a b",), 0)})
    assert house.main(["--check"]) == 1
    assert "a b" in capsys.readouterr().err
    assert house.main(["--write"]) == 0
    assert json.loads(record.read_text()) == {"cycles": 0}
    monkeypatch.setattr(house, "FIGURES", {"cycles": lambda: house.Figure(0, (), 0)})
    assert house.main(["--check"]) == 0


def test_every_figure_of_this_tree_is_recorded(house: ModuleType) -> None:
    recorded = json.loads(house.RECORD.read_text("utf-8"))
    assert set(recorded) == set(house.FIGURES) - {"lines of the product", "modules of the product"}


def test_this_tree_has_no_more_circles_than_recorded(house: ModuleType) -> None:
    figure = house.FIGURES["import cycles"]()
    assert figure.value <= json.loads(house.RECORD.read_text("utf-8"))["import cycles"], (
        figure.places
    )
