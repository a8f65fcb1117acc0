"""The page on placement names every term and filter with its figures of now."""

from __future__ import annotations

import re
from pathlib import Path

from gpuconsole.placement.policy import DEFAULT_WEIGHTS, POLICIES

PAGE = (Path(__file__).parents[2] / "docs" / "placement.md").read_text(encoding="utf-8")


def test_the_table_of_terms_is_current() -> None:
    reported: dict[str, float] = {}
    for names, weight in re.findall(r"^\| (`[^|]+`) \| ([\d.]+) \|", PAGE, re.MULTILINE):
        reported |= {name: float(weight) for name in re.findall(r"`(\w+)`", names)}
    assert reported == dict(DEFAULT_WEIGHTS)


def test_every_policy_is_named() -> None:
    assert [name for name in POLICIES if f"`{name}`" not in PAGE] == []
