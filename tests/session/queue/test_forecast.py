"""Changes as people type them, and a live queue that is run forward without being touched."""

from __future__ import annotations

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.errors import UsageError
from gpuconsole.session.queue import forecast
from gpuconsole.session.queue.forecast import Change, parse_change
from gpuconsole.state import Journal
from tests.session.test_session import Room, opened, room  # noqa: F401


@pytest.mark.parametrize(
    ("typed", "change"),
    [
        ("drain a100-01", Change("drain", "a100-01")),
        ("  add 4 RTX_4090 ", Change("add", "RTX_4090", 4)),
        ("add 4x RTX 4090", Change("add", "RTX 4090", 4)),
        ("priority train 10", Change("priority", "train", 10)),
        ("priority train[lr=1e-3, seed=0] -5", Change("priority", "train[lr=1e-3, seed=0]", -5)),
    ],
)
def test_a_change_is_read_and_can_be_written_again(typed: str, change: Change) -> None:
    assert parse_change(typed) == change
    assert parse_change(change.text) == change


@pytest.mark.parametrize(
    "typed",
    ["", "drain", "drain a b", "add RTX_4090", "add 0 T4", "add 99999999 T4", "priority train",
     "priority 10", "explode a", "priority train 99999"],
)  # fmt: skip
def test_what_is_not_a_change_is_refused_with_the_forms(typed: str) -> None:
    with pytest.raises(UsageError):
        parse_change(typed)


async def test_looking_ahead_changes_nothing(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        running = await session.queue.submit(room.task("first", run_time_s=600.0))
        await room.until(lambda: session.job(running.id).state is JobState.RUNNING)
        one = await session.queue.submit(room.task("second", run_time_s=300.0))
        await room.clock.pass_time(5)  # equal jobs go by age
        two = await session.queue.submit(room.task("third", run_time_s=300.0))
        known = await session.foresight.renew()
        assert known[one.id].starts_at == pytest.approx(session.now() + 600, abs=30)
        assert known[two.id].starts_at == pytest.approx(session.now() + 900, abs=30)
        assert session.why_now(one.id).estimated_start == known[one.id].starts_at

        raised = await session.foresight.what_if(Change("priority", "third", 5))
        assert {moved.name for moved in raised.moved} == {"second", "third"}
        more = await session.foresight.what_if(Change("add", "RTX_4090", 8))
        assert more.mean_after_s == pytest.approx(0.0, abs=1.0)
        gone = await session.foresight.what_if(Change("drain", "a"))
        assert [moved.after for moved in gone.moved] == [None, None]
        assert gone.seen
        assert (gone.untold_before, gone.untold_after) == (0, 2)
        for change in (Change("drain", "x"), Change("add", "Abacus", 1), Change("priority", "x")):
            with pytest.raises(UsageError):
                await session.foresight.what_if(change)
        assert session.job(two.id).task.priority == 0
        assert [job.state for job in session.jobs()].count(JobState.QUEUED) == 2


async def test_a_job_that_waits_for_labelled_hosts_would_start_on_new_ones(
    room: Room,  # noqa: F811
) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task("labelled", labels={"pool": "train"}), hold=True)
        await session.queue.release(job.id)
        found = await session.foresight.what_if(Change("add", "RTX_4090", 8))
        assert [moved.job for moved in found.moved] == [job.id]
        assert found.moved[0].before is None
        assert found.moved[0].after is not None
        assert found.labels == ("pool=train",)


async def test_looking_far_ahead_rests_afterwards(
    room: Room,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "FELT_S", -1.0)
    monkeypatch.setattr(forecast, "REST", 1e9)
    async with opened(room) as session:
        running = await session.queue.submit(room.task("first", run_time_s=600.0))
        await room.until(lambda: session.job(running.id).state is JobState.RUNNING)
        one = await session.queue.submit(room.task("second", run_time_s=300.0))
        known = await session.foresight.renew()
        assert list(known) == [one.id]
        await session.queue.submit(room.task("third", run_time_s=300.0))
        assert await session.foresight.renew() is known
        session.foresight._rest_until = 0.0
        assert len(await session.foresight.renew()) == 2


async def test_reasons_of_many_jobs_cost_one_look_at_the_journal(
    room: Room,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(room) as session:
        running = await session.queue.submit(room.task("first", run_time_s=600.0))
        await room.until(lambda: session.job(running.id).state is JobState.RUNNING)
        for number in range(5):
            await session.queue.submit(room.task(f"waiting-{number}"))
        await session.look_around()
        looks = []
        asked = Journal.role
        monkeypatch.setattr(Journal, "role", lambda self: (looks.append(1), asked(self))[1])
        found = session.explain(session.jobs())
        assert len(looks) == 1
        assert found == {job.id: session.why_now(job.id) for job in session.jobs()}
        assert "runs on a" in found[running.id].reason
