"""`gpuconsole incidents`: what is wrong, from a terminal, and what a person says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.cli.views.incidents import short_id
from tests.cli.command_line import Lab, Run


@pytest.fixture
def down(lab: Lab) -> Lab:
    """A lab with one host, which refuses, and is reported at once."""
    inventory = Path(lab[1])
    text = inventory.read_text()
    inventory.write_text(text + "lab: {triage: {limits: {unreachable_for: 0}}}\n")
    return lab


@pytest.fixture
def noted(run: Run, down: Lab) -> Lab:
    """The same, seen once."""
    assert run("incidents", *down).code == 0
    return down


def states(run: Run, lab: Lab, *more: str) -> list[str]:
    answer = run("incidents", *more, *lab, "--json")
    assert answer.code == 0
    return [one["state"] for one in answer.document["incidents"]]


def test_what_is_wrong_is_listed_and_noted(run: Run, down: Lab) -> None:
    answer = run("incidents", *down, "--json")
    assert answer.code == 0
    (one,) = answer.document["incidents"]
    assert one["id"] == "unreachable:gone"
    assert (one["severity"], one["state"], one["host"]) == ("critical", "open", "gone")
    assert one["evidence"][0]["source"] == "link"
    assert one["since"].endswith("Z")
    assert one["seen_before"] == {"count": 0, "last": []}
    again = run("incidents", *down, "--json").document["incidents"][0]
    assert again["since"] == one["since"]
    table = run("incidents", *down).out
    assert "unreachable:gone" in table
    assert "critical" in table


def test_one_incident_in_full(run: Run, noted: Lab) -> None:
    answer = run("incidents", "unreach", *noted)
    assert answer.code == 0
    for words in ("critical: host unreachable, gone", "never here", "high:", "link:",
                  "drain gone: No new job starts on gone.", "dismiss"):  # fmt: skip
        assert words in answer.out
    document = run("incidents", "unreachable:gone", *noted, "--json").document["incident"]
    assert [one["kind"] for one in document["actions"]] == [
        "drain", "open-host", "ticket", "snooze", "resolve",
    ]  # fmt: skip


def test_what_is_said_holds_for_every_console(run: Run, noted: Lab) -> None:
    state = noted[2:]
    assert "is acknowledged" in run("incidents", "unreach", "--ack", *state).out
    assert states(run, noted) == ["acknowledged"]
    assert "is open" in run("incidents", "unreach", "--reopen", *state).out
    snoozed = run("incidents", "unreach", "--snooze", "2h", *state, "--json").document["incident"]
    assert snoozed["snoozed_until"] > snoozed["since"]
    assert states(run, noted) == ["snoozed"]
    assert "is resolved" in run("incidents", "unreach", "--resolve", *state).out
    assert states(run, noted) == []
    assert states(run, noted, "--all") == ["resolved"]
    assert "Nothing is wrong." in run("incidents", *noted).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x", "--ack"), "No such incident"),
        (("--ack",), "Which incident?"),
        (("x", "--ack", "--resolve"), "Only one thing"),
        (("x", "--snooze", "soon"), "'soon' is no time."),
        (("unreach", "--snooze", "90d"), "up to 30 days"),
        (("x",), "No such incident"),
    ],
)
def test_wrong_usage_says_what_to_do(
    run: Run, noted: Lab, words: tuple[str, ...], says: str
) -> None:  # fmt: skip
    answer = run("incidents", *words, *noted)
    assert answer.code == 2
    assert says in answer.err
    assert answer.out == ""


def test_read_only_says_nothing(run: Run, noted: Lab) -> None:
    refused = run("incidents", "unreach", "--ack", "--read-only", *noted[2:], "--json")
    assert refused.code == 2
    assert refused.document["error"]["title"] == "Read-only"
    assert states(run, noted, "--read-only") == ["open"]


def test_ids_are_as_short_as_they_can_be() -> None:
    ids = ["heat:GPU-1234567890", "heat:GPU-1234569999", "disk-full:rtx-01", "heat:GPU-1234"]
    assert [short_id(one, ids) for one in ids] == [
        "heat:GPU-1234567", "heat:GPU-1234569", "disk-full:rtx-01", "heat:GPU-1234",
    ]  # fmt: skip
