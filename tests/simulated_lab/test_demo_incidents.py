"""The demo's troubles: what is wrong, affected and what can be done, from the first look on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.incidents import IncidentState, Severity, worst_first
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.simulated_lab import SimulatedHosts
from gpuconsole.simulated_lab.incidents import noted_before
from tests.waiting import until

START = 1_700_000_000.0
KINDS = {"unreachable", "heat", "idle-memory", "low-load", "disk-full"}


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize("seed", [1, 7, 23])
def test_the_named_hosts_have_a_past(seed: int) -> None:
    hosts = SimulatedHosts(6, seed, clock=lambda: START)
    found = tuple(noted_before(hosts.snapshot()))
    stand = [one for one in found if one.ended_at is None]
    assert {one.rule for one in stand} == KINDS
    assert len(stand) == len(KINDS)
    assert all(one.since < START and one.evidence for one in found)
    assert worst_first(tuple(stand), START)[0].severity is Severity.CRITICAL
    over = [one for one in found if one.ended_at is not None]
    assert {one.rule for one in over} == {"heat", "unreachable"}
    assert all(one.ended_at is not None and one.since < one.ended_at < START for one in over)


def test_a_larger_lab_begins_with_no_more_of_them() -> None:
    hosts = SimulatedHosts(60, 7, clock=lambda: START)
    assert sum(one.ended_at is None for one in noted_before(hosts.snapshot())) == len(KINDS)


async def test_the_demo_shows_them_at_once_and_they_stand_while_it_is_watched(
    tmp_path: Path,
) -> None:
    demo = DemoOptions()
    async with open_session(None, tmp_path / "state", demo=demo) as session:
        opened_at = session.now()
        first = {one.rule for one in session.triage.incidents() if one.ended_at is None}
        assert first == KINDS
        await until(lambda: (session.triage.looked_at or 0.0) >= opened_at)
        now = session.now()
        stand = [one for one in session.triage.incidents() if one.state(now) is IncidentState.OPEN]
        assert {one.rule for one in stand} == KINDS
        forgotten = next(one for one in stand if one.rule == "idle-memory")
        assert "642 MiB" in forgotten.title
        assert now - forgotten.since > 2 * 86400
        assert session.triage.actions(stand[0])
    async with open_session(None, tmp_path / "state", demo=demo) as again:
        assert len([one for one in again.triage.incidents() if one.ended_at is None]) == len(KINDS)


async def test_what_is_said_in_a_demo_stays_said(tmp_path: Path) -> None:
    async with open_session(None, tmp_path / "state", demo=DemoOptions()) as session:
        await session.triage.resolve("heat")
    async with open_session(None, tmp_path / "state", demo=DemoOptions()) as session:
        heat = next(
            one for one in session.triage.incidents() if one.rule == "heat" and not one.ended_at
        )
        assert heat.state(session.now()) is IncidentState.RESOLVED


async def test_who_only_looks_sees_the_same(tmp_path: Path) -> None:
    demo = DemoOptions()
    async with open_session(None, tmp_path / "state", demo=demo, read_only=True) as session:
        await session.triage.look()
        assert {one.rule for one in session.triage.incidents()} == KINDS
        forgotten = session.triage.incident("idle-memory")
        assert session.now() - forgotten.since > 2 * 86400
    assert not (tmp_path / "state").exists()


async def test_nobody_outside_is_told_of_made_up_troubles(tmp_path: Path) -> None:
    settings = tmp_path / "config" / "gpuconsole" / "config.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("triage: {bell: true, webhook: 'https://h.example/x'}\n")
    async with open_session(None, tmp_path / "state", demo=DemoOptions()) as session:
        assert session.settings.triage.bell
        assert session.settings.triage.webhook == ""
