"""Pages of which the code writes a part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts import script

with_part = script(Path(__file__).resolve().parents[3] / "docs" / "tables.py").with_part


def test_a_part_takes_the_place_of_what_stood_between_its_marks() -> None:
    page = "Before.\n<!-- tells -->\nold\n<!-- /tells -->\nBehind.\n"
    reported = with_part(page, "tells", "| new |")
    assert reported == "Before.\n<!-- tells -->\n| new |\n<!-- /tells -->\nBehind.\n"
    assert with_part(reported, "tells", "| new |") == reported


@pytest.mark.parametrize("page", ["", "no mark", "<!-- tells -->\nno end\n", "<!-- /tells -->\n"])
def test_a_page_without_both_marks_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="a page without <!-- tells -->"):
        with_part(page, "tells", "| new |")
