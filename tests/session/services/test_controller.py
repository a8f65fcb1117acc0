"""A service on a lab in memory: restarted, checked, scaled, cancelled, and never preempted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.services import SERVICE, HealthCheck, Service
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.ports.forwards import HOME
from gpuconsole.session.ports.service_port import LAST_RESORT_S, ServicePort
from gpuconsole.session.session import Session
from tests.session.test_session import Room, opened


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def task(room: Room, **changes: object) -> Task:
    made = Service(8040, check=HealthCheck("tcp", start_s=20.0), **changes)  # type: ignore[arg-type]
    return room.task("ocr", kind=SERVICE, service=made)


async def well(room: Room, session: Session, job: Job) -> Job:
    await room.until(lambda: session.job(job.id).is_healthy)
    return session.job(job.id)


async def test_its_replicas_carry_its_name_and_one_becomes_healthy(room: Room) -> None:
    async with opened(room) as session:
        jobs = await session.queue.serve(task(room, replicas=2))
        assert [job.task.name for job in jobs] == ["ocr[1]", "ocr[2]"]
        assert {job.task.sweep for job in jobs} == {"ocr"}
        found = await well(room, session, jobs[0])
        assert found.state_word == "healthy"
        assert "It is healthy." in session.why_now(found.id).reason
        with pytest.raises(UsageError, match="is a service"):
            session.job("ocr")


async def test_an_end_of_its_own_is_followed_by_a_pause_and_another_try(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await well(room, session, job)
        room.docker.finish(1)
        await room.until(lambda: session.job(job.id).state_word == "backing off")
        waiting = session.job(job.id)
        assert waiting.replica is not None
        assert waiting.replica.restart_at is not None
        assert waiting.replica.restart_at - room.clock.now() == pytest.approx(2.0, abs=1.0)
        again = await well(room, session, job)
        assert again.attempt is not None
        assert (again.attempt.number, again.health.restarts) == (2, 1)
        assert room.clock.now() >= waiting.replica.restart_at


@pytest.mark.parametrize(
    ("restart", "code", "state"),
    [
        ("never", 1, JobState.FAILED),
        ("never", 0, JobState.SUCCEEDED),
        ("on-failure", 0, JobState.SUCCEEDED),
    ],
)
async def test_by_its_policy_it_stays_ended(
    room: Room, restart: str, code: int, state: JobState
) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room, restart=restart))
        await well(room, session, job)
        room.docker.finish(code)
        await room.until(lambda: session.job(job.id).state.ended)
        await room.clock.pass_time(30.0)
        assert session.job(job.id).state is state
        assert len(session.jobs()) == 1


async def test_one_on_which_nothing_listens_is_unhealthy_and_restarted(room: Room) -> None:
    room.docker.listening.clear()
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        assert session.job(job.id).state_word == "starting"
        await room.until(lambda: session.job(job.id).state_word == "unhealthy")
        reason = session.why_now(job.id).reason
        assert "It has never been healthy" in reason
        assert "Port 8040: Connection refused." in reason
        await room.until(lambda: session.job(job.id).state_word == "backing off")
        found = session.job(job.id)
        assert found.attempt is not None
        assert found.attempt.ended_by == "unhealthy"
        assert "Connection refused" in found.detail


async def test_a_dispatcher_that_comes_after_knows_how_it_is(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await well(room, session, job)
    async with opened(room) as session:
        assert session.job(job.id).is_healthy
        assert session.job(job.id).task.service == task(room).service


async def test_connections_go_to_a_healthy_replica_and_to_none_without(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await well(room, session, job)
        made = await session.forward("ocr")
        assert (made.job, made.port) == ("ocr", 8040)
        reader, writer = await asyncio.open_connection(HOME, made.local_port)
        writer.write(b"asked")
        assert await reader.readexactly(5) == b"asked"
        writer.close()
        room.docker.finish(1)
        await room.until(lambda: not session.job(job.id).is_healthy)
        room.docker.listening.clear()
        reader, writer = await asyncio.open_connection(HOME, made.local_port)
        closed = asyncio.ensure_future(reader.read())
        await room.until(closed.done)
        assert closed.result() == b""
        assert "no healthy replica" in session.forwards.at(made.local_port).info.trouble


async def test_while_none_is_healthy_for_long_one_that_was_is_asked(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await well(room, session, job)
        made = await session.forward("ocr")
        # Its checks fail, as those of a busy host do, and it still serves.
        replica = session.job(job.id).replica
        assert replica is not None
        ill = replace(session.job(job.id), replica=replace(replica, health="unhealthy"))
        far = ServicePort(session._context, job.user, "ocr", made.port)
        with mock.patch.object(far, "_replicas", return_value=[ill]):
            begun = room.clock.now()
            link = asyncio.ensure_future(far.connected())
            await room.until(link.done)
            assert room.clock.now() - begun >= LAST_RESORT_S
            await link.result().stream.close()


async def test_more_are_queued_and_those_too_many_leave(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await well(room, session, job)
        await session.scale("ocr", 3)
        await room.until(lambda: len(session.jobs()) == 3)
        assert [one.task.name for one in session.jobs()] == ["ocr[1]", "ocr[2]", "ocr[3]"]
        await session.scale("ocr", 1)
        await room.until(lambda: sum(not one.state.ended for one in session.jobs()) == 1)
        assert session.job(job.id).is_healthy
        with pytest.raises(UsageError, match="from 1 to 64"):
            await session.scale("ocr", 0)


async def test_cancelled_as_a_whole_it_stays_so(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await well(room, session, job)
        await room.done(session.cancel(job.id))
        await room.clock.pass_time(30.0)
        assert [one.state for one in session.jobs()] == [JobState.CANCELLED]
        with pytest.raises(RefusedError, match="no replica that runs or waits"):
            await session.scale("ocr", 2)


async def test_it_is_preempted_only_where_its_task_lets_it(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        found = await well(room, session, job)
        assert not found.task.resumable
        with pytest.raises(RefusedError, match="replica of the service ocr"):
            await session.preempt(job.id)
        assert replace(found.task, service=Service(1, preemptible=True)).resumable


@pytest.mark.parametrize(
    "changes",
    [{"hosts": 2}, {"auto_batch": True}, {"service": None}],
    ids=lambda it: next(iter(it)),
)
async def test_what_cannot_be_kept_running_is_refused(
    room: Room, changes: dict[str, object]
) -> None:
    room.settings = room.settings.model_copy(update={"gang_network": "host"})
    async with opened(room) as session:
        with pytest.raises(UsageError):
            await session.queue.serve(replace(task(room), **changes))  # type: ignore[arg-type]
        assert not session.jobs()


async def test_it_is_rendered_as_a_container_and_not_as_a_job_of_another_engine(room: Room) -> None:
    async with opened(room) as session:
        (job,) = await session.queue.serve(task(room))
        await well(room, session, job)
        assert "docker run" in session.render(job.id)
        for target in ("kubernetes", "slurm"):
            with pytest.raises(UsageError, match="not kept running"):
                session.render(job.id, target)


async def test_of_a_held_service_more_replicas_are_held(room: Room) -> None:
    async with opened(room) as session:
        await session.queue.serve(task(room), hold=True)
        await session.scale("ocr", 2)
        await room.until(lambda: len(session.jobs()) == 2)
        assert [one.state for one in session.jobs()] == [JobState.HELD] * 2
