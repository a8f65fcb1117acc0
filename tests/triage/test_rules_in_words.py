"""The page on triage is made from the rules; this fails when it is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.config import Thresholds
from gpuconsole.triage import RULES
from gpuconsole.triage.rules import described, worded
from tests.scripts import script

PAGE = Path(__file__).resolve().parents[2] / "docs" / "triage.md"
page = script(PAGE.with_name("tables.py")).triage_page


def test_the_page_has_the_tables_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run: python docs/generate.py"
    assert all(f"| `{rule.name}` |" in text for rule in RULES)
    assert all(f"| `{name}` |" in text for name in Thresholds.model_fields)


def test_a_stale_table_is_made_anew() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text.replace("| `heat` | warning |", "| `heat` | harmless |")) == text


def test_a_rule_says_the_thresholds_in_force() -> None:
    limits = Thresholds.model_validate({"disk_free": 12, "disk_for": "5m"})
    words = {rule.name: described(rule, limits) for rule in RULES}
    assert words["disk-full"] == (
        "Less than 12 % of the host's disk is free; critical below a fifth of that. Held for 5m00s."
    )
    assert not any("{" in text for text in words.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [("idle_for", "30m00s"), ("idle_memory", "256 MiB"), ("clock_skew", "5s"), ("failures", "3"),
     ("failures_within", "1h00m"), ("clear_after", "30s"), ("memory_full", "97")],
)  # fmt: skip
def test_thresholds_are_written_as_people_do(name: str, words: str) -> None:
    assert worded(Thresholds(), name) == words
