"""Triage at work: incidents in the journal, shared by consoles, marked by people, posted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Engine
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.incidents import Incident, IncidentState
from gpuconsole.errors import JournalError, ReadOnlyError, UnreachableError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.fleet.leases import LeaseBoard
from gpuconsole.session.fleet.silent_engines import Silences
from gpuconsole.session.triage.service import RENEW_EVERY_S, Triage
from gpuconsole.state import Journal
from tests.session.fakes import VirtualClock

LIMITS = LabSettings().triage.limits
OPENS, ENDS = LIMITS.unreachable_for + 4, LIMITS.clear_after + 6


@dataclass
class Pictures:
    """A fleet of one host that a test switches off and on; each look is a new record."""

    clock: VirtualClock
    down: bool = False
    devices: tuple[Device, ...] = ()
    name: str = "a"

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def engine(self, host: str) -> Engine:
        raise UnreachableError("Away", f"{host} is away.")

    def snapshot(self) -> FleetSnapshot:
        now = self.clock.now()
        state = HostState.DOWN if self.down else HostState.UP
        error = "No route to host." if self.down else ""
        one = Host(self.name, state, devices=self.devices, sampled_at=now, error=error)
        return FleetSnapshot(int(now), now, (one,))


@dataclass
class Desk:
    """One console's triage, and what it reported."""

    clock: VirtualClock
    fleet: Pictures
    journal: Journal
    triage: Triage
    reported: list[Event] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def look(self, seconds: float, step: float = 2.0) -> None:
        for _ in range(int(seconds / step)):
            self.clock.time += step
            await self.triage.look()

    def only(self) -> Incident:
        (incident,) = self.triage.incidents()
        return incident

    @property
    def state(self) -> IncidentState:
        return self.only().state(self.clock.now())


Make = Callable[..., Desk]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    clock, fleet, desks = VirtualClock(), None, []

    def desk(*, read_only: bool = False, **triage: Any) -> Desk:
        nonlocal fleet
        fleet = fleet or Pictures(clock)
        journal = Journal(tmp_path / "state", clock=clock.now, read_only=read_only)
        settings = LabSettings.model_validate({"triage": triage})
        context = Context(
            hosts=fleet, journal=journal, settings=settings, user="ana",
            pack=lambda *a, **k: None, default_image=lambda host: "paddle",  # type: ignore[arg-type,return-value]
            clock=clock, read_only=read_only,
        )  # fmt: skip
        reported: list[Event] = []
        made = Triage(context, LeaseBoard(fleet, clock, Silences(clock)), reported.append)
        desks.append(Desk(clock, fleet, journal, made, reported))
        return desks[-1]

    yield desk
    for each in desks:
        each.journal.close()


async def test_an_incident_is_noted_told_and_ended(make: Make) -> None:
    desk = make()
    await desk.look(10)
    assert desk.triage.incidents() == ()
    assert desk.triage.looked_at == desk.clock.now()
    desk.fleet.down = True
    await desk.look(OPENS)
    incident = desk.only()
    assert (incident.id, desk.state) == ("unreachable:a", IncidentState.OPEN)
    (event,) = [event for _, event in desk.journal.events_after(0)]
    assert (event.kind, event.subject, event.severity) == ("incident", "a", "error")
    assert event.message == "a: host unreachable"
    desk.fleet.down = False
    await desk.look(ENDS)
    assert desk.state is IncidentState.RESOLVED
    assert desk.only().ended_at is not None


async def test_the_same_tuple_while_nothing_changed(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    assert desk.triage.incidents() is desk.triage.incidents()


async def test_history_says_when_it_was_seen_before(make: Make) -> None:
    desk = make()
    begun = []
    for _ in range(3):
        desk.fleet.down = True
        await desk.look(OPENS)
        begun.append(desk.triage.incidents()[-1].since)
        desk.fleet.down = False
        await desk.look(ENDS)
    last = desk.triage.incidents()[-1]
    assert last.times_before == 2
    assert last.before == (begun[1], begun[0])


async def test_what_a_person_says_survives_the_console(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    marked = await desk.triage.acknowledge("unreachable")
    assert marked.marked_by == "ana"
    assert desk.state is IncidentState.ACKNOWLEDGED
    again = make()
    await again.look(4)
    assert again.state is IncidentState.ACKNOWLEDGED
    assert again.only().since == desk.only().since
    await again.triage.reopen("unreachable:a")
    assert desk.state is IncidentState.OPEN


async def test_a_snoozed_incident_comes_back_by_itself(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    await desk.triage.snooze("unreachable:a", 60.0)
    assert desk.state is IncidentState.SNOOZED
    await desk.look(62)
    assert desk.state is IncidentState.OPEN


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 31 * 86400.0])
async def test_a_snooze_without_a_sensible_time_is_refused(make: Make, seconds: float) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    with pytest.raises(UsageError, match="30 days"):
        await desk.triage.snooze("unreachable:a", seconds)


async def test_no_fault_stays_closed_until_it_has_gone_and_comes_back(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    await desk.triage.resolve("unreachable:a")
    await desk.look(200)
    assert desk.state is IncidentState.RESOLVED
    desk.fleet.down = False
    await desk.look(ENDS)
    desk.fleet.down = True
    await desk.look(OPENS)
    old, new = desk.triage.incidents()
    assert old.ended_at is not None
    assert new.state(desk.clock.now()) is IncidentState.OPEN
    assert new.marked == ""


async def test_two_consoles_make_one_incident_of_it(make: Make) -> None:
    one, two = make(), make()
    one.fleet.down = True
    for _ in range(20):
        await one.look(2)
        await two.triage.look()
    assert len(one.triage.incidents()) == len(two.triage.incidents()) == 1
    assert len(one.journal.events_after(0)) == 1
    one.fleet.down = False
    for _ in range(40):
        await one.look(2)
        await two.triage.look()
    assert [one.state, two.state] == [IncidentState.RESOLVED] * 2
    assert len(one.journal.incidents()) == 1


async def test_a_console_that_comes_later_ends_what_a_dead_one_opened(make: Make) -> None:
    first = make()
    first.fleet.down = True
    await first.look(OPENS)
    first.fleet.down = False
    second = make()
    await second.look(ENDS)
    assert second.state is IncidentState.RESOLVED


async def test_what_another_console_opens_meanwhile_is_ended_by_this_one(make: Make) -> None:
    late, early = make(), make()
    await late.look(4)
    early.fleet.down = True
    await early.look(OPENS)
    early.fleet.down = False
    await late.look(ENDS)
    assert late.state is IncidentState.RESOLVED


async def test_read_only_sees_and_writes_nothing(make: Make) -> None:
    make().journal.close()
    desk = make(read_only=True)
    desk.fleet.down = True
    await desk.look(OPENS)
    assert desk.state is IncidentState.OPEN
    assert desk.journal.incidents() == ()
    assert [event.message for event in desk.reported] == ["a: host unreachable"]
    for say in (desk.triage.acknowledge, desk.triage.resolve, desk.triage.reopen):
        with pytest.raises(ReadOnlyError):
            await say("unreachable:a")
    with pytest.raises(ReadOnlyError):
        await desk.triage.snooze("unreachable:a", 60.0)
    desk.fleet.down = False
    await desk.look(ENDS)
    assert desk.triage.incidents() == ()


async def test_without_the_journal_it_is_shown_and_noted_once_it_is_back(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make()

    def full(incident: Incident) -> bool:
        raise JournalError("Disk is full", "Nothing could be added.")

    with monkeypatch.context() as broken:
        broken.setattr(desk.journal, "open_incident", full)
        broken.setattr(desk.journal, "incidents", lambda: full(None))  # type: ignore[arg-type]
        desk.fleet.down = True
        await desk.look(OPENS)
        assert desk.state is IncidentState.OPEN
    await desk.look(4)
    assert [one.id for one in desk.journal.incidents()] == ["unreachable:a"]


async def test_the_journal_hears_now_and_then_that_it_still_stands(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    (before,) = desk.journal.incidents()
    await desk.look(RENEW_EVERY_S + 4)
    (after,) = desk.journal.incidents()
    assert after.last_seen > before.last_seen
    assert after.since == before.since


async def test_a_recorder_sees_few_changes_of_what_merely_stands(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    seen = []
    for _ in range(60):
        await desk.look(2)
        if not seen or desk.triage.incidents() != seen[-1]:
            seen.append(desk.triage.incidents())
    assert len(seen) <= 9
    assert desk.clock.now() - desk.only().last_seen < 30


async def test_references(make: Make) -> None:
    desk = make()
    desk.fleet.devices = (Device("GPU-1", 0, "A100", lost=True), Device("GPU-2", 1, "A100", xid=79))
    await desk.look(10)
    triage = desk.triage
    assert triage.incident("xid").id == "xid:GPU-2/79"
    assert triage.incident("gpu-lost:GPU-1").actions
    with pytest.raises(UsageError, match="No such incident"):
        triage.incident("nothing")
    with pytest.raises(UsageError, match="No such incident"):
        triage.incident("")
    desk.fleet.down = True
    await desk.look(2)
    desk.fleet.devices = (*desk.fleet.devices, Device("GPU-3", 2, "A100", lost=True))
    desk.fleet.down = False
    await desk.look(10)
    with pytest.raises(UsageError, match="begins 2 ids"):
        triage.incident("gpu-lost")
    assert "GPU-1" in triage.ticket(triage.incident("gpu-lost:GPU-1"))


async def test_marking_what_has_gone_by_itself_is_told(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    await desk.look(OPENS)
    incident = desk.only()
    desk.journal.close_incident(replace(incident, ended_at=desk.clock.now()))
    with pytest.raises(UsageError, match="ended by itself"):
        await desk.triage.acknowledge(incident.id)


async def test_it_runs_every_two_seconds_until_it_is_closed(make: Make) -> None:
    desk = make()
    desk.fleet.down = True
    running = asyncio.ensure_future(desk.triage.run())
    await desk.clock.until(lambda: desk.triage.incidents(), within=60.0)
    await cancel_all([running])
    assert running.cancelled()


class Posts:
    """A webhook that keeps what it is given."""

    def __init__(self, url: str, reported: Callable[[str], None]) -> None:
        self.documents: list[Any] = []

    def post(self, document: Any) -> None:
        self.documents.append(document)


async def test_opening_and_end_are_posted_by_one_console_only(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuconsole.session.triage.service.Webhook", Posts)
    one, two = make(webhook="http://h/"), make(webhook="http://h/")
    one.fleet.down = True
    for down in (True, False):
        one.fleet.down = down
        for _ in range(25):
            await one.look(2)
            await two.triage.look()
    posts = [
        document
        for desk in (one, two)
        for document in desk.triage._webhook.documents  # type: ignore[attr-defined]
    ]
    assert [post["event"] for post in posts] == ["opened", "ended"]
    assert posts[0]["incident"]["id"] == "unreachable:a"
    assert posts[0]["incident"]["severity"] == "critical"
    assert posts[1]["incident"]["ended_at"]


async def test_what_is_less_severe_than_asked_for_is_not_posted(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuconsole.session.triage.service.Webhook", Posts)
    desk = make(webhook="http://h/", notify="critical")
    desk.fleet.devices = (Device("GPU-1", 0, "A100", ecc_uncorrected=3),)
    await desk.look(20)
    assert desk.only().rule == "memory-errors"
    assert desk.triage._webhook.documents == []  # type: ignore[attr-defined]
