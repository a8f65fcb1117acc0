"""The page on placement names every term and filter with its figures of now."""

from __future__ import annotations

import re
from pathlib import Path

from gpuconsole.placement.policy import DEFAULT_WEIGHTS, POLICIES

PAGE = (Path(__file__).parents[2] / "docs" / "placement.md").read_text(encoding="utf-8")


def test_the_table_of_terms_is_current() -> None:
    told: dict[str, float] = {}
    for names, weight in re.findall(r"^\| (`[^|]+`) \| ([\d.]+) \|", PAGE, re.MULTILINE):
        told |= {name: float(weight) for name in re.findall(r"`(\w+)`", names)}
    assert told == dict(DEFAULT_WEIGHTS)


def test_every_policy_is_named() -> None:
    assert [name for name in POLICIES if f"`{name}`" not in PAGE] == []
