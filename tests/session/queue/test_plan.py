"""The plan for the queue: made when something changed, aside when it is large."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.jobs import JobState
from gpuconsole.session.queue import plan
from gpuconsole.session.queue.plan import Outlook
from gpuconsole.session.queue.planner import Plan, Situation, placed_by
from tests.session.conftest import Desk, Lab
from tests.session.fakes import FirstFree


class Counting(FirstFree):
    """Remembers on which thread each plan was made."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def plan(self, situation: Situation) -> Plan:
        self.threads.append(threading.get_ident())
        return super().plan(situation)


@pytest.fixture
def desk(lab: Lab) -> Desk:
    return lab.desk()


def outlook_of(desk: Desk, planner: Counting) -> Outlook:
    return Outlook(desk.context, (placed_by(planner),), desk.leases)


async def test_a_plan_holds_until_something_changes(lab: Lab, desk: Desk) -> None:
    planner = Counting()
    view = outlook_of(desk, planner)
    assert view.plan == Plan()
    assert planner.threads == []

    first = lab.submit(desk)
    for _ in range(300):
        assert [choice.job for choice in view.plan.choices] == [first]
    assert await view.renew() is view.plan
    assert len(planner.threads) == 1

    second = lab.submit(desk)
    assert view.plan.waiting.keys() == {second}
    view.avoid = frozenset({("a", "GPU-a-0")})
    assert view.plan.waiting.keys() == {first, second}
    lab.docker.leases["GPU-a-0"] = Lease("GPU-a-0", "t", "t-1", "bob", "theirs", 1.0)
    await desk.leases.refresh()
    assert desk.leases.held_elsewhere("theirs") == 0
    assert desk.leases.held_elsewhere("another") == 1
    assert await view.renew() is not None
    lab.docker.reachable = False
    assert await view.renew() is not None
    assert len(planner.threads) == 5

    await lab.clock.pass_time(plan.STALE_S)
    assert view.plan is not None
    assert len(planner.threads) == 6


async def test_a_large_plan_is_made_aside_and_rests(
    lab: Lab, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SMALL", 0)
    monkeypatch.setattr(plan, "REST", 1e9)
    planner = Counting()
    view = outlook_of(desk, planner)
    lab.submit(desk)
    assert view.plan == Plan()
    assert planner.threads == []

    made = await view.renew()
    assert made is view.plan
    assert len(made.choices) == 1
    assert planner.threads != [threading.get_ident()]
    assert await view.renew() is made

    lab.submit(desk)
    assert await view.renew() is None
    assert view.plan is made
    assert len(planner.threads) == 1


async def test_a_job_held_while_the_plan_was_made_is_left_alone(
    lab: Lab, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = lab.submit(desk)
    made = desk.outlook.plan
    assert [choice.job for choice in made.choices] == [job_id]
    desk.journal.save(desk.job(job_id), replace(desk.job(job_id), state=JobState.HELD))

    async def late() -> Plan:
        return made

    monkeypatch.setattr(desk.outlook, "renew", late)
    await desk.dispatcher.tick()
    assert desk.job(job_id).state is JobState.HELD


async def test_a_queue_that_is_small_again_is_planned_at_once(
    lab: Lab, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = outlook_of(desk, Counting())
    monkeypatch.setattr(plan, "SMALL", 0)
    first = lab.submit(desk)
    assert await view.renew() is not None
    monkeypatch.setattr(plan, "SMALL", 1000)
    second = lab.submit(desk)
    assert await view.renew() is not None
    assert view.plan.waiting.keys() == {second}
    desk.journal.save(desk.job(first), replace(desk.job(first), state=JobState.HELD))
    assert view.plan.waiting == {}


async def test_where_devices_are_shared_jobs_are_watched_while_none_waits(lab: Lab) -> None:
    lab.settings = LabSettings(sharing=True)
    desk = lab.desk()
    planner = Counting()
    view = outlook_of(desk, planner)
    assert view.plan == Plan()
    assert await view.renew() is view.plan
    assert len(planner.threads) == 1
