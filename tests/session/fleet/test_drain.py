"""Drained hosts: marked in every picture, for every console, until somebody ends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.errors import ReadOnlyError, RefusedError, UsageError
from gpuconsole.session.fleet.drain import Drains
from gpuconsole.session.fleet.view import FleetView
from gpuconsole.state import Journal
from tests.session.fakes import START, Console, Docker, FakeHosts, VirtualClock
from tests.session.test_session import Room, opened, room  # noqa: F401 - a fixture


def fleet(tmp_path: Path, *names: str) -> tuple[Drains, FleetView, FakeHosts, Journal]:
    clock = VirtualClock()
    hosts = FakeHosts({name: Docker(clock) for name in names}, Console())
    journal = Journal(tmp_path / "state", clock=clock.now)
    drains = Drains(hosts, journal, clock.now)
    return drains, FleetView(hosts, (drains.marks,)), hosts, journal


async def test_a_picture_is_marked_and_stays_the_same_while_nothing_changes(tmp_path: Path) -> None:
    drains, view, hosts, journal = fleet(tmp_path, "a", "b")
    plain = view.snapshot()
    assert plain is hosts.snapshot()
    await drains.drain("a", "fan\x1b[31m broken", "ada")
    marked = view.snapshot()
    assert [host.drained for host in marked.hosts] == ["drained by ada: fan broken", ""]
    assert marked.revision > plain.revision
    assert view.snapshot() is marked
    # What did not change is the same record: drawing costs what changed.
    hosts.snapshots = replace(hosts.snapshots, revision=hosts.snapshots.revision + 1)
    assert view.snapshot().hosts[0] is marked.hosts[0]
    assert view.snapshot().hosts[1] is plain.hosts[1]
    await drains.undrain("a")
    ended = view.snapshot()
    assert [host.drained for host in ended.hosts] == ["", ""]
    assert ended.revision > marked.revision
    journal.close()


async def test_another_console_of_the_journal_sees_it(tmp_path: Path) -> None:
    drains, view, _, journal = fleet(tmp_path, "a")
    other = Journal(tmp_path / "state", clock=lambda: START)
    assert other.drains() == {}
    await drains.drain("a", "", "ada")
    assert other.drains()["a"].text == "drained by ada"
    assert [event.message for _, event in other.events_after(0)] == ["a is drained by ada"]
    other.undrain("a")
    assert view.snapshot().hosts[0].drained == ""
    for one in (journal, other):
        one.close()


async def test_what_is_not_there_or_not_drained_is_said(tmp_path: Path) -> None:
    drains, _, hosts, journal = fleet(tmp_path, "a")
    with pytest.raises(UsageError, match="no host 'nowhere'"):
        await drains.drain("nowhere", "", "ada")
    with pytest.raises(RefusedError, match="a takes jobs"):
        await drains.undrain("a")
    with pytest.raises(UsageError, match="no host 'nowhere'"):
        await drains.undrain("nowhere")
    by_inventory = replace(hosts.snapshots.hosts[0], drained="drained in the inventory")
    hosts.snapshots = replace(hosts.snapshots, hosts=(by_inventory,), revision=9)
    with pytest.raises(RefusedError, match="has `drain:` there"):
        await drains.undrain("a")
    journal.close()


async def test_a_drained_host_that_left_the_inventory_can_be_given_back(tmp_path: Path) -> None:
    drains, *_, journal = fleet(tmp_path, "a")
    journal.drain("gone", "sold", "ada")
    await drains.undrain("gone")
    assert journal.drains() == {}
    journal.close()


async def test_a_second_drain_keeps_the_reason_unless_it_has_another(tmp_path: Path) -> None:
    drains, *_, journal = fleet(tmp_path, "a")
    assert await drains.drain("a", "fans", "ada") is None
    before = await drains.drain("a", "", "bob")
    assert before is not None
    assert before.text == "drained by ada: fans"
    assert journal.drains()["a"] == before
    assert await drains.drain("a", "new fans", "bob") == before
    assert journal.drains()["a"].text == "drained by bob: new fans"
    journal.close()


async def test_a_drained_host_takes_no_new_job_and_keeps_what_runs(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        first = await session.queue.submit(room.task("first"))
        await room.until(lambda: session.job(first.id).state is JobState.RUNNING)
        await session.drains.drain("a", "update", session.user)
        second = await session.queue.submit(room.task("second"))
        room.docker.finish(0)
        await room.until(lambda: session.job(first.id).state is JobState.SUCCEEDED)
        await room.clock.pass_time(30)
        assert session.job(second.id).state is JobState.QUEUED
        assert "drained" in session.why_now(second.id).reason
        await session.drains.undrain("a")
        await room.until(lambda: session.job(second.id).state is JobState.RUNNING)
    async with opened(room, read_only=True, dispatch=False) as looking:
        with pytest.raises(ReadOnlyError):
            await looking.drains.drain("a", "", "ada")
