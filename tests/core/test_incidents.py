"""Incidents: where they stand, in what order, and which filters they match."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.core.filters import parse
from gpuconsole.core.incidents import (
    HARMFUL,
    WRITING,
    Incident,
    IncidentState,
    Severity,
    matches,
    without_mark,
    worst_first,
)

NOW = 1000.0
HOT = Incident("heat", "GPU-1", Severity.WARNING, "slowed by heat", "rtx-01", 100.0, 900.0,
               "GPU-1", 3, ("ana-42",))  # fmt: skip
OPEN, SEEN, LATER, OVER = IncidentState


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, OPEN),
        ({"marked": "acknowledged"}, SEEN),
        ({"marked": "snoozed", "until": NOW + 1}, LATER),
        ({"marked": "snoozed", "until": NOW}, OPEN),
        ({"marked": "snoozed"}, OPEN),
        ({"marked": "resolved"}, OVER),
        ({"ended_at": 500.0}, OVER),
        ({"ended_at": 500.0, "marked": "acknowledged"}, OVER),
    ],
)
def test_where_it_stands(more: dict[str, Any], state: IncidentState) -> None:
    incident = replace(HOT, **more)
    assert incident.state(NOW) is state
    assert incident.as_json(NOW)["state"] == state.value


def test_an_id_names_rule_and_subject_alone() -> None:
    assert HOT.id == replace(HOT, since=5.0, title="x", jobs=()).id == "heat:GPU-1"
    assert HOT.where == "rtx-01 gpu 3"
    assert replace(HOT, index=None).where == "rtx-01"


def test_the_worst_open_one_comes_first_and_the_newest_of_equals() -> None:
    critical = replace(HOT, subject="c", severity=Severity.CRITICAL)
    newer = replace(HOT, subject="n", since=200.0)
    seen = replace(critical, subject="s", marked="acknowledged")
    over = replace(critical, subject="o", ended_at=950.0)
    ordered = worst_first((over, seen, HOT, newer, critical), NOW)
    assert [one.subject for one in ordered] == ["c", "n", "GPU-1", "s", "o"]


def test_taking_a_mark_back_leaves_nothing_of_it() -> None:
    marked = replace(HOT, marked="snoozed", marked_by="bo", marked_at=1.0, until=2.0)
    assert without_mark(marked) == HOT


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True), ("heat", True), ("rtx-01", True), ("GPU-1", True), ("disk", False),
        ("!disk", True), ("severity:warn", True), ("severity:critical", False),
        ("severity:critical|warning", True), ("rule:heat", True), ("rule:xid", False),
        ("host:rtx-01", True), ("host:rtx", False), ("job:ana", True), ("job:bo", False),
        ("state:open", True), ("state:resolved", False), ("rack:r1", False), ("util>5", False),
        ("heat !severity:warning", False), ('"by heat"', True),
    ],
)  # fmt: skip
def test_filters(text: str, holds: bool) -> None:
    assert matches(parse(text), HOT, NOW) is holds


def test_what_could_harm_writes() -> None:
    assert HARMFUL < WRITING
