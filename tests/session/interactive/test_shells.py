"""Sessions: queued as jobs, looked at, warned and ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.engines.terminals import PROGRAM, SESSION
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import ReadOnlyError, RefusedError, UsageError
from gpuconsole.session.dispatch.attempt.container_spec import workspace_folder
from gpuconsole.session.interactive.attached import AttachedTerminal
from gpuconsole.session.session import Session
from tests.session.fakes import START, FakeTerminal
from tests.session.test_session import Room, opened


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def used(session: Session, percent: float | None) -> None:
    """Let every device be used so much."""
    hosts: Any = session.hosts
    shown = hosts.snapshots
    hosts.snapshots = replace(
        shown,
        hosts=tuple(
            replace(host, devices=tuple(replace(one, utilization=percent) for one in host.devices))
            for host in shown.hosts
        ),
    )


def kept(room: Room) -> FakeTerminal:
    assert room.docker.terminal is not None
    return room.docker.terminal


async def running(room: Room, session: Session, **more: Any) -> Job:
    job = await session.shell(**more)
    await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
    return session.job(job.id)


async def attached(room: Room, session: Session, job: Job, **more: Any) -> AttachedTerminal:
    found = await room.done(session.attach(job.id, 100, 30, **more))
    assert isinstance(found, AttachedTerminal)
    return found


async def test_it_is_a_job_with_a_lease_that_ends_with_its_shell(room: Room) -> None:
    async with opened(room) as session:
        job = await running(room, session, name="work", image="paddle", env={"A": "1"})
        assert (job.task.kind, job.task.name, job.task.script) == (SESSION, "work", "")
        spec = room.docker.only().spec
        assert spec.command[0] == "/bin/sh"
        assert PROGRAM in spec.command
        assert (spec.env["HOME"], spec.env["A"]) == ("/workspace", "1")
        assert spec.python_path == ""
        assert len(room.docker.leases) == 1
        # Without a figure it waits for an empty device, and has all of it.
        assert job.estimate_mib is None
        room.docker.finish(0)
        await room.until(lambda: session.job(job.id).state is JobState.SUCCEEDED)
        await room.until(lambda: not room.docker.leases)


async def test_memory_is_what_it_is_placed_by(room: Room) -> None:
    async with opened(room) as session:
        assert (await session.shell(memory_mib=2048.0)).estimate_mib == 2048.0
        second = await session.shell()
        assert second.task.name == "shell-2"


async def test_one_looks_types_and_leaves(room: Room) -> None:
    async with opened(room) as session:
        job = await running(room, session)
        terminal = await attached(room, session, job)
        (look,) = kept(room).looks
        assert look.hello == {"columns": 100, "rows": 30, "user": "ada", "watch": False}
        await terminal.write(b"ls\n")
        said = await terminal.read()
        assert said is not None
        assert said.data == b"ls\n"
        await terminal.resize(120, 40)
        assert kept(room).sizes == ["120 40"]
        look.tell(b"N", b"bob types now; you watch.")
        said = await terminal.read()
        assert said is not None
        assert b"gpuconsole: bob types now; you watch." in said.data
        look.tell(b"E", b"3")
        assert await terminal.read() is None
        assert (await terminal.exit_code(), terminal.lost) == (3, False)
        await terminal.close()
        assert look.closed


async def test_a_way_that_breaks_is_no_end_of_the_shell(room: Room) -> None:
    async with opened(room) as session:
        job = await running(room, session)
        terminal = await attached(room, session, job, watch=True)
        (look,) = kept(room).looks
        assert look.hello["watch"] is True
        look.said.put_nowait(b"")
        assert await terminal.read() is None
        assert (await terminal.exit_code(), terminal.lost) == (None, True)
        assert session.job(job.id).state is JobState.RUNNING


@pytest.mark.parametrize("said", [b"O\xff\xff\xff\xff", b"E\0\0\0\1x"])
async def test_what_is_no_terminal_of_ours_ends_the_look(room: Room, said: bytes) -> None:
    async with opened(room) as session:
        terminal = await attached(room, session, await running(room, session))
        kept(room).looks[0].said.put_nowait(said)
        assert await terminal.read() is None
        assert await terminal.exit_code() is None


async def test_a_terminal_that_begins_late_is_waited_for(room: Room) -> None:
    late, room.docker.terminal = kept(room), None
    async with opened(room) as session:
        job = await running(room, session)

        def begins() -> bool:
            room.docker.terminal = late if room.clock.now() > START + 5 else None
            return bool(late.looks)

        import asyncio

        attaching = asyncio.ensure_future(session.attach(job.id))
        await room.until(begins)
        await room.until(attaching.done)
        await (await attaching).close()


async def test_a_job_that_is_none_and_one_that_does_not_run_are_refused(room: Room) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        with pytest.raises(RefusedError, match="no shell"):
            await room.done(session.attach(job.id))
        waiting = await session.shell()
        with pytest.raises(RefusedError, match="queued"):
            await room.done(session.attach(waiting.id))
    async with opened(room, read_only=True) as session:
        with pytest.raises(ReadOnlyError):
            await session.shell()
        with pytest.raises(ReadOnlyError):
            await session.attach(waiting.id)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"project": "/no/such/folder"}, "not a folder"),
        ({"workspace": "../up"}, "is none"),
        ({"workspace": "mine", "project": "/tmp"}, "Name one of them"),
        ({"idle_stop_s": 5.0}, "60 s at least"),
        ({"until": START - 1.0}, "time to come"),
        ({"devices": 0}, "one device or more"),
        ({"memory_mib": 0.0}, "some of its device"),
        ({"labels": {"slurm": "slurm-1"}}, "No host is called"),
    ],
)
async def test_what_cannot_be_is_refused(room: Room, wrong: Mapping[str, Any], said: str) -> None:
    async with opened(room, dispatch=False) as session:
        with pytest.raises(UsageError) as error:
            await session.shell(**wrong)
        assert said in f"{error.value.message} {error.value.hint}"
        assert not session.jobs()


async def test_a_workspace_is_mounted_and_found_again(room: Room) -> None:
    async with opened(room) as session:
        job = await running(room, session, workspace="mine")
        mounts = {mount.target: mount for mount in room.docker.only().spec.mounts}
        assert workspace_folder("ada", "mine") in mounts["/workspace"].source
        assert not mounts["/workspace"].read_only
        assert job.task.labels == {}
        room.docker.finish(0)
        await room.until(lambda: session.job(job.id).state.ended)
        assert (await session.shell(workspace="mine")).task.labels == {"host": "a"}
        assert (await session.shell(workspace="other")).task.labels == {}


async def test_what_is_not_used_is_warned_and_ended(room: Room) -> None:
    async with opened(room) as session:
        used(session, 0.0)
        job = await running(room, session, idle_stop_s=1200.0)
        begun = room.clock.now()
        await room.clock.until(lambda: kept(room).notices, within=1300.0)
        assert 899 <= room.clock.now() - begun <= 935
        assert "Nothing is typed" in kept(room).notices[0]
        assert "it ends in" in kept(room).notices[0]
        await room.clock.until(lambda: session.job(job.id).state.ended, within=600.0)
        ended = session.job(job.id)
        assert ended.state_word == "ended idle"
        assert ended.cause.startswith("Ended idle: for 2")
        assert 1199 <= room.clock.now() - begun <= 1300
        assert kept(room).notices[1:] == []


async def test_what_is_typed_after_the_warning_begins_the_time_anew(room: Room) -> None:
    async with opened(room) as session:
        used(session, 0.0)
        job = await running(room, session, idle_stop_s=600.0)
        await room.clock.until(lambda: kept(room).notices, within=700.0)
        kept(room).typed_at = room.clock.now()
        await room.clock.pass_time(400.0)
        assert session.job(job.id).state is JobState.RUNNING
        await room.clock.until(lambda: len(kept(room).notices) == 2, within=300.0)
        await room.clock.until(lambda: session.job(job.id).state.ended, within=300.0)


@pytest.mark.parametrize("percent", [3.0, None])
async def test_a_device_that_works_or_does_not_tell_is_used(
    room: Room, percent: float | None
) -> None:
    async with opened(room) as session:
        used(session, percent)
        job = await running(room, session, idle_stop_s=600.0)
        await room.clock.pass_time(700.0)
        assert session.job(job.id).state is JobState.RUNNING
        assert not kept(room).notices
        used(session, 0.0)
        await room.clock.until(lambda: session.job(job.id).state.ended, within=800.0)


async def test_a_terminal_that_is_silent_is_used(room: Room) -> None:
    async with opened(room) as session:
        used(session, 0.0)
        kept(room).silent = True
        job = await running(room, session, idle_stop_s=600.0)
        await room.clock.pass_time(700.0)
        assert session.job(job.id).state is JobState.RUNNING


async def test_it_ends_at_the_time_until_which_it_was_wanted(room: Room) -> None:
    async with opened(room) as session:
        until = room.clock.now() + 900.0
        job = await running(room, session, until=until)
        await room.clock.until(lambda: kept(room).notices, within=1000.0)
        assert kept(room).notices[0].startswith("This session ends in ")
        assert room.clock.now() < until
        await room.clock.until(lambda: session.job(job.id).state.ended, within=1000.0)
        ended = session.job(job.id)
        assert ended.state_word == "time limit"
        assert "the time until which it was wanted" in ended.cause
        assert until - 2 <= room.clock.now() <= until + 60


async def test_images_are_named_where_a_session_failed(room: Room) -> None:
    async with opened(room) as session:
        good = await running(room, session, image="paddle")
        room.docker.finish(0)
        await room.until(lambda: session.job(good.id).state.ended)
        room.docker.images.add("bare")
        bad = await running(room, session, image="bare")
        room.docker.finish(127)
        await room.until(lambda: session.job(bad.id).state.ended)
        assert session.job(bad.id).state is JobState.FAILED
        assert session.shells.images_for(session.job(bad.id)) == ("paddle",)
        assert session.shells.images_for(session.job(good.id)) == ()
