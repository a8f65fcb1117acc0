"""A journal that is lost under a running dispatcher: it stops, says so, touches no container."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.events import Event
from gpuconsole.core.jobs import JobState, Task
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.state import JournalLostError
from tests.session.conftest import Lab
from tests.state.test_journal_guard import checkpoint, halve, remove, scribble


@pytest.mark.parametrize("harm", [remove, halve, scribble])
async def test_the_dispatcher_stops_and_leaves_what_runs_alone(
    lab: Lab, harm: Callable[[Path], None]
) -> None:
    desk = lab.desk()
    running, waiting = lab.submit(desk), lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(running).state is JobState.RUNNING)
    container = lab.docker.only()
    checkpoint(lab.state / "journal.sqlite")
    harm(lab.state / "journal.sqlite")
    await lab.clock.until(lambda: not desk.dispatcher.active, within=2.0)
    assert desk.journal.lost is not None
    # The device is free now, and a job waits for it; the end of the first is nobody's to write.
    lab.docker.finish(0, b"done\n")
    await lab.clock.pass_time(60)
    assert lab.docker.only() is container
    assert lab.docker.starts == 1
    assert set(lab.docker.leases) == {"GPU-a-0"}
    assert [desk.job(running).state, desk.job(waiting).state] == ["running", "queued"]
    assert not desk.dispatcher.active


async def test_a_launch_in_flight_starts_nothing(lab: Lab) -> None:
    desk = lab.desk()
    lab.submit(desk)
    lab.docker.on_put = lambda container: remove(lab.state / "journal.sqlite")
    desk.start()
    await lab.clock.until(lambda: desk.journal.lost is not None)
    await lab.clock.pass_time(60)
    assert lab.docker.starts == 0


async def until(condition: Callable[[], bool]) -> None:
    async def look() -> None:
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)

    await asyncio.wait_for(look(), 60)


async def test_a_session_says_so_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\nlayer = paddle.nn.Linear(4, 4)\n")
    state = tmp_path / "state"
    reported: list[Event] = []
    async with open_session(None, state, demo=DemoOptions(speed=1.0)) as session:
        session.subscribe(reported.append)
        job = await session.queue.submit(Task("demo", script=str(script)))
        waiting = asyncio.ensure_future(session.wait(job.id))
        await until(lambda: session.dispatching)
        remove(state / "journal.sqlite")
        with pytest.raises(JournalLostError):
            await asyncio.wait_for(waiting, 60)
        await until(lambda: not session.dispatching)
        await until(lambda: any(event.subject == "journal" for event in reported))
        (said,) = [event for event in reported if event.subject == "journal"]
        assert said.severity == "error"
        assert "journal.sqlite was there and is not any more" in said.message
        assert "gpuconsole journal restore" in said.message
        assert session.lost is not None
        assert [one.id for one in session.jobs()] == [job.id]
        with pytest.raises(JournalLostError):
            await session.queue.submit(Task("late", script=str(script)))
    assert not (state / "journal.sqlite").exists()
