"""The page about the architecture: its files exist, and its drawing is that of the imports."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts import script

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
_FILE = re.compile(r"`([a-z_]+/[a-z_/]+(?:\.py|/))`")


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    """Return the command that draws as a module."""
    return script(ROOT / "docs" / "rooms.py")


def test_every_file_of_the_page_is_there() -> None:
    named = _FILE.findall(PAGE.read_text("utf-8"))
    assert len(named) > 50
    ours = [name for name in named if not name.startswith("docs/")]
    assert [name for name in ours if not (ROOT / "gpuconsole" / name).exists()] == []


def test_the_drawing_is_that_of_the_imports(rooms: ModuleType) -> None:
    assert rooms.TARGET.read_text("utf-8") == rooms.drawing(rooms.rooms()), (
        "run: python docs/rooms.py"
    )


def test_rooms_stand_below_those_that_import_them(rooms: ModuleType) -> None:
    imports = {
        "face": frozenset({"work", "words"}), "work": frozenset({"words"}), "words": frozenset(),
        "web": frozenset({"words"}),
    }  # fmt: skip
    assert rooms.layers(imports) == [["face"], ["web", "work"], ["words"]]
    # That the face imports words follows from work, so no arrow shows it.
    assert rooms.direct(imports) == [("face", "work"), ("web", "words"), ("work", "words")]
    shown = rooms.drawing(imports)
    assert shown.count("<line") == 3
    assert all(f">{name}</text>" in shown for name in imports)


def test_a_circle_is_no_drawing(rooms: ModuleType) -> None:
    with pytest.raises(ValueError, match="circle"):
        rooms.layers({"a": frozenset({"b"}), "b": frozenset({"a"})})
