"""Forwards: a port here for a port of a job's container, and what becomes of them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import ReadOnlyError, RefusedError, UsageError
from gpuconsole.session.ports.forwards import HOME, MOST_CONNECTIONS
from gpuconsole.session.session import Session
from tests.session.test_session import Room, opened


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


async def running(room: Room, session: Session) -> Job:
    job = await session.queue.submit(room.task())
    await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
    return job


async def ready(room: Room, session: Session) -> tuple[Job, int]:
    """Return a running job, and the port here of a forward to its port 8040."""
    job = await running(room, session)
    made = await session.forwards.open(session.job(job.id), 8040)
    return job, made.info.local_port


async def test_bytes_go_both_ways_and_the_end_of_one_is_not_the_end_of_the_other(
    room: Room,
) -> None:
    async with opened(room) as session:
        _, port = await ready(room, session)
        reader, writer = await asyncio.open_connection(HOME, port)
        writer.write(b"x" * 1000)
        assert await reader.readexactly(1000) == b"x" * 1000
        assert session.forwards.at(port).info.connections == 1
        writer.write_eof()
        assert await reader.read() == b"over"
        writer.close()
        await room.until(lambda: room.docker.streams[0].closed)
        assert not session.forwards.at(port).info.connections


async def test_the_same_number_where_it_is_free_else_another(room: Room) -> None:
    async with opened(room) as session:
        job = session.job((await running(room, session)).id)
        with socket.socket() as probe:
            probe.bind((HOME, 0))
            number = probe.getsockname()[1]
        first = await session.forwards.open(job, number)
        second = await session.forwards.open(job, number)
        assert first.info.local_port == number != second.info.local_port
        assert first.info.url == f"http://127.0.0.1:{number}/"
        with pytest.raises(UsageError, match="already") as said:
            await session.forwards.open(job, 8040, number)
        offered = int(said.value.hint.rpartition(" ")[2].rstrip("."))
        assert (await session.forwards.open(job, 8040, offered)).info.local_port == offered


@pytest.mark.parametrize(("port", "local"), [(0, 0), (65536, 0), (-1, 0), (8040, 65536)])
async def test_what_is_no_port_is_refused(room: Room, port: int, local: int) -> None:
    async with opened(room) as session:
        job = session.job((await running(room, session)).id)
        with pytest.raises(UsageError, match="no port"):
            await session.forwards.open(job, port, local)
        assert not session.forwards.open_now()


async def test_a_port_on_which_nothing_listens_is_named_and_may_listen_later(room: Room) -> None:
    room.docker.listening.clear()
    async with opened(room) as session:
        _, port = await ready(room, session)
        reader, writer = await asyncio.open_connection(HOME, port)
        assert await reader.read() == b""
        writer.close()
        assert session.forwards.at(port).info.trouble == "Port 8040: Connection refused."
        room.docker.listening.add("8040")
        reader, writer = await asyncio.open_connection(HOME, port)
        writer.write(b"now")
        assert await reader.readexactly(3) == b"now"
        assert not session.forwards.at(port).info.trouble
        writer.close()


async def test_a_host_out_of_sight_ends_connections_and_leaves_the_forward(room: Room) -> None:
    async with opened(room) as session:
        job, port = await ready(room, session)
        room.docker.reachable = False
        await room.until(lambda: session.job(job.id).state is JobState.UNKNOWN)
        reader, _ = await asyncio.open_connection(HOME, port)
        assert await reader.read() == b""
        assert "unknown" in session.forwards.at(port).info.trouble


async def test_it_ends_with_its_job_and_says_so(room: Room) -> None:
    async with opened(room) as session:
        _, port = await ready(room, session)
        made = session.forwards.at(port)
        reader, _ = await asyncio.open_connection(HOME, port)
        await room.until(lambda: made.info.connections)
        room.docker.finish(0)
        await room.until(made.ended.is_set)
        assert made.cause == "The job has ended: succeeded."
        assert await reader.read() == b""
        assert not session.forwards.open_now()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, port)


async def test_closing_ends_what_is_open_and_the_session_closes_all(room: Room) -> None:
    async with opened(room) as session:
        job, port = await ready(room, session)
        other = (await session.forwards.open(session.job(job.id), 8040)).info.local_port
        links = [await asyncio.open_connection(HOME, number) for number in (port, port, other)]
        for _, writer in links:
            writer.write(b"a")
        assert [await reader.read(1) for reader, _ in links] == [b"a"] * 3
        closed = await session.close_forward(port)
        assert closed.local_port == port
        assert [await links[at][0].read() for at in (0, 1)] == [b"", b""]
        with pytest.raises(UsageError, match="No forward"):
            await session.close_forward(port)
        assert [one.info.local_port for one in session.forwards.open_now()] == [other]
    assert await links[2][0].read() == b""
    assert all(stream.closed for stream in room.docker.streams)
    for number in (port, other):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOME, number)


async def test_more_connections_than_may_be_wait_for_their_turn(room: Room) -> None:
    async with opened(room) as session:
        _, port = await ready(room, session)
        links = [await asyncio.open_connection(HOME, port) for _ in range(MOST_CONNECTIONS + 1)]
        for _, writer in links:
            writer.write(b"a")
        assert [await reader.read(1) for reader, _ in links[:-1]] == [b"a"] * MOST_CONNECTIONS
        assert len(room.docker.streams) == MOST_CONNECTIONS
        links[0][1].write_eof()
        assert await links[-1][0].read(1) == b"a"


async def test_a_job_that_does_not_run_has_none(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        job = await session.queue.submit(room.task())
        with pytest.raises(RefusedError, match="queued") as said:
            await session.forward(job.id, 8040)
        assert "why" in said.value.hint
    async with opened(room, read_only=True) as session:
        with pytest.raises(ReadOnlyError):
            await session.forward(job.id, 8040)
