"""The product without a face: submit, wait, logs, cancel, retry, why, fetch, render."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.estimate import Estimate, Memory, Report, ScriptFault, Verdict
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import (
    JournalError,
    ReadOnlyError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.placement import Candidate, Place
from gpuconsole.preflight import Calibration
from gpuconsole.session.estimate.preflight_runner import Preflights
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.session import Context, Session
from gpuconsole.session.submit.validate import Packed
from gpuconsole.state import Journal
from tests.session.fakes import Console, Docker, FakeHosts, VirtualClock

FITS = Memory(total_mib=900.0, high_mib=1000.0)


def report_of(
    memory: Memory | None = FITS,
    verdict: str = "fits",
    errors: tuple[ScriptFault, ...] = (),
    *,
    room: float = 33000.0,
) -> Report:
    """Return a report about a device that has `room` to spare, MiB, where the job fits."""
    estimate = Estimate("t.py", 8, None, "gpu", "static", 1.0, memory, errors=errors)
    left = room if verdict == "fits" else -1.0
    return Report(
        estimate,
        (Verdict("A100", "a", "gpu", verdict, left, 4, None, limit_mib=34000.0),),  # type: ignore[arg-type]
    )


class Answers(Preflights):
    """Preflight that says what the test wants."""

    def __init__(self, room: Room) -> None:
        super().__init__(AsyncReader())
        self._room = room

    async def report(
        self,
        task: Task,
        snapshot: FleetSnapshot,
        settings: LabSettings,
        tier: str = "",
        *,
        empty: bool = False,
        remembered: Mapping[str, str] = MappingProxyType({}),
        calibration: Calibration | None = None,
        images: frozenset[str] | None = None,
    ) -> Report:
        return self._room.report


class Room:
    """A session on a lab in memory."""

    def __init__(self, tmp_path: Path) -> None:
        self.clock = VirtualClock()
        self.docker = Docker(self.clock)
        self.state = tmp_path / "state"
        self.script = tmp_path / "project" / "train.py"
        self.script.parent.mkdir()
        self.script.write_text("print(1)\n")
        self.report = report_of()
        self.settings = LabSettings()
        self.skipped: tuple[str, ...] = ()
        self.open: list[Session] = []

    def session(self, *, dispatch: bool = True, read_only: bool = False) -> Session:
        def pack(task: Task, target: Path, limit: float) -> Packed:
            script = Path(task.script)
            target.write_bytes(script.read_bytes() if task.script else b"folder")
            return Packed(script.name, self.skipped)

        return Session(
            Context(
                hosts=FakeHosts({"a": self.docker}, Console()),
                journal=Journal(self.state, clock=self.clock.now, read_only=read_only),
                settings=self.settings,
                user="ada",
                pack=pack,
                default_image=lambda host: "paddle",
                clock=self.clock,
                preflights=Answers(self),
                read_only=read_only,
                dispatch=dispatch,
            )
        )

    def task(self, name: str = "train", **changes: object) -> Task:
        return Task(name=name, script=str(self.script), **changes)  # type: ignore[arg-type]

    async def until(self, condition: Callable[[], object]) -> None:
        await self.clock.until(condition)

    async def done(self, awaitable: object) -> object:
        """Let time pass until an awaitable is done."""
        task = asyncio.ensure_future(awaitable)  # type: ignore[call-overload]
        await self.clock.until(task.done)
        return task.result()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@contextlib.asynccontextmanager
async def opened(room: Room, **options: bool) -> AsyncIterator[Session]:
    async with room.session(**options) as session:
        yield session


async def test_a_submitted_job_runs_to_its_end_and_its_log_is_read(room: Room) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        assert job.state is JobState.QUEUED
        assert job.estimate_mib == 1000.0
        assert job.estimate is not None
        assert job.task.project == str(room.script.parent)
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        assert room.docker.only().spec.command == ("python", "train.py")
        assert room.docker.only().spec.env["GPUCONSOLE_ESTIMATE_MIB"] == "1000"

        lines: list[str] = []

        async def read() -> None:
            lines.extend([line async for line in session.logs(job.id, follow=True)])

        reading = asyncio.ensure_future(read())
        room.docker.write(b"loss 1.0\n\x1b[31mred\x1b[0m\nhalf")
        room.docker.finish(0, b" a line")
        ended = await room.done(session.wait("train"))
        assert isinstance(ended, Job)
        assert ended.state is JobState.SUCCEEDED
        await room.until(reading.done)
        assert lines == ["loss 1.0", "red", "half a line"]
        assert session.why_now(job.id).state == "succeeded"
        assert session.log_path(job.id).read_bytes().startswith(b"loss 1.0")


async def test_events_reach_every_session_of_the_journal(room: Room) -> None:
    async with opened(room) as session, opened(room, dispatch=False) as other:
        heard: list[Event] = []
        unsubscribe = other.subscribe(heard.append)
        await room.clock.pass_time(2)
        await session.queue.submit(room.task())
        await room.until(lambda: any("running" in event.message for event in heard))
        assert [event.message for event in heard] == [
            "train: queued",
            "train: launching",
            "train: running",
        ]
        room.docker.reachable = False
        room.docker.notify()
        await room.until(lambda: any(event.kind == "host" for event in heard))
        unsubscribe()
        count = len(heard)
        room.docker.reachable = True
        await room.clock.pass_time(10)
        assert len(heard) == count


async def test_what_will_not_fit_is_refused_unless_forced(room: Room) -> None:
    room.report = report_of(verdict="will-not-fit")
    async with opened(room, dispatch=False) as session:
        with pytest.raises(RefusedError, match="1000 MiB are needed") as refused:
            await session.queue.submit(room.task())
        assert "A batch of 4 would fit" in refused.value.hint
        assert session.jobs() == ()
        assert not list((room.state / "bundles").glob("*"))
        assert (await session.queue.submit(room.task(), force=True)).state is JobState.QUEUED


async def test_a_script_that_will_fail_is_refused_with_its_line(room: Room) -> None:
    room.report = report_of(errors=(ScriptFault("t.py", 12, "3 columns meet 4 rows"),))
    async with opened(room, dispatch=False) as session:
        with pytest.raises(RefusedError, match=r"t\.py:12: 3 columns meet 4 rows"):
            await session.queue.submit(room.task())


async def test_an_unknown_estimate_is_allowed_and_told(room: Room) -> None:
    room.report = report_of(memory=None, verdict="unknown")
    room.skipped = ("data: leads outside",)
    async with opened(room, dispatch=False) as session:
        heard: list[Event] = []
        session.subscribe(heard.append)
        await room.clock.pass_time(1)
        assert (await session.queue.submit(room.task())).estimate_mib is None
        await room.clock.pass_time(1)
        assert [event.severity for event in heard] == ["information", "warning", "warning"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"script": ""}, "names no script"),
        ({"script": "/nowhere/x.py"}, "is not a file"),
        ({"batch_size": 0}, "positive"),
        ({"devices": 0}, "asks for 0"),
        ({"after": ("nothing",)}, "No such job"),
    ],
)
async def test_bad_tasks_are_refused(room: Room, changes: dict[str, object], words: str) -> None:
    values: dict[str, object] = {"script": str(room.script)}
    async with opened(room, dispatch=False) as session:
        with pytest.raises(UsageError, match=words):
            await session.queue.submit(Task("x", **values | changes))  # type: ignore[arg-type]


async def test_a_journal_that_cannot_be_written_leaves_no_bundle(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(room, dispatch=False) as session:

        def full(_: object) -> None:
            raise JournalError("Disk is full", "No space.")

        monkeypatch.setattr(session._journal, "add_all", full)
        with pytest.raises(JournalError):
            await session.queue.submit(room.task())
        assert not list((room.state / "bundles").iterdir())


async def test_trouble_that_no_journal_can_hold_is_told_here(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(room) as session:
        heard: list[Event] = []
        session.subscribe(heard.append)
        job = await session.queue.submit(room.task())
        await room.clock.pass_time(0.5)

        def full(*_: object, **__: object) -> None:
            raise JournalError("Disk is full", "Nothing could be added.")

        with monkeypatch.context() as patched:
            for name in ("save", "tell"):
                patched.setattr(session._journal, name, full)
            await room.clock.pass_time(30)
            assert session.job(job.id).state is JobState.QUEUED
            assert [event.message for event in heard].count("Nothing could be added.") == 1
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)


async def test_a_command_that_asks_once_waits_for_hosts_and_leases(room: Room) -> None:
    room.docker.leases["GPU-a-0"] = Lease("GPU-a-0", "x", "x-1", "bob", "bob's journal", 1.0)
    async with opened(room, dispatch=False) as session:
        job = await session.queue.submit(room.task())
        assert isinstance(session.hosts, FakeHosts)
        session.hosts.connecting = True
        looking = asyncio.ensure_future(session.look_around())
        await room.clock.pass_time(2)
        assert not looking.done()
        session.hosts.connecting = False
        await room.until(looking.done)
        assert [blocker["user"] for blocker in session.why_now(job.id).blockers] == ["bob"]


async def test_queued_jobs_are_cancelled_held_released_and_reordered(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        first = await session.queue.submit(room.task("one"), hold=True)
        second = await session.queue.submit(room.task("two"))
        assert session.job("one").state is JobState.HELD
        assert (await session.queue.hold("one")).state is JobState.QUEUED
        assert (await session.queue.hold("one")).state is JobState.HELD
        assert session.why_now("one").options
        assert (await session.queue.hold("one")).state is JobState.QUEUED
        assert (await session.queue.set_priority(second.id, 7)).task.priority == 7
        with pytest.raises(UsageError, match="no priority"):
            await session.queue.set_priority(second.id, 10**30)
        cancelled = await session.queue.cancel(first.id)
        assert cancelled.state is JobState.CANCELLED
        assert "ada" in cancelled.cause
        with pytest.raises(RefusedError, match="ended"):
            await session.queue.cancel(first.id)
        with pytest.raises(RefusedError):
            await session.queue.hold(first.id)
        with pytest.raises(RefusedError):
            await session.queue.retry(second.id)


async def test_of_several_that_are_cancelled_one_that_has_ended_stays(room: Room) -> None:
    async with opened(room) as session:
        first, second = [await session.queue.submit(room.task(name)) for name in ("x", "y")]
        await session.queue.hold(second.id)
        await room.done(session.queue.cancel(first.id))
        ended = session.job(first.id)
        both = await session.queue.cancel_all([first.id, second.id])
        assert both[0] == ended
        assert both[1].state is JobState.CANCELLED
        with pytest.raises(RefusedError, match="is over"):
            await session.queue.cancel_all([first.id])


async def test_cancel_waits_for_the_end_even_without_another_dispatcher(room: Room) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
    async with opened(room, dispatch=False) as session:
        done = await room.done(session.queue.cancel(job.id))
        assert isinstance(done, Job)
        assert done.state is JobState.CANCELLED
        assert not room.docker.leases


async def test_a_retry_is_a_new_attempt_with_its_own_container_and_log(room: Room) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        room.docker.finish(3, b"first\n")
        await room.done(session.wait(job.id))
        await session.queue.retry(job.id)
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        room.docker.finish(0, b"second\n")
        ended = await room.done(session.wait(job.id))
        assert isinstance(ended, Job)
        assert [attempt.number for attempt in ended.attempts] == [1, 2]
        assert ended.attempts[0].cause.startswith("Exit code 3")
        assert (ended.state, ended.cause) == (JobState.SUCCEEDED, "")
        assert session.log_path(job.id, 1).read_bytes() == b"first\n"
        assert session.log_path(job.id).read_bytes() == b"second\n"
        (room.state / "bundles" / f"{job.id}.tar.gz").unlink()
        with pytest.raises(UsageError, match="was removed"):
            await session.queue.retry(job.id)


async def test_jobs_are_found_by_id_prefix_and_name(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        one = await session.queue.submit(room.task("same"))
        two = await session.queue.submit(room.task("same"))
        three = await session.queue.submit(room.task("other"))
        assert session.job(one.id) == one
        assert session.job("other") == three
        with pytest.raises(UsageError, match=two.id):
            session.job("same")
        with pytest.raises(UsageError, match="Which job"):
            session.job(one.id[:4])
        for nothing in ("", "zzz"):
            with pytest.raises(UsageError, match="No such job"):
                session.job(nothing)


async def test_why_names_who_holds_the_device(room: Room) -> None:
    async with opened(room) as session:
        running = await session.queue.submit(room.task("first"))
        await room.until(lambda: session.job(running.id).state is JobState.RUNNING)
        waiting = await session.queue.submit(room.task("second"))
        why = session.why_now(waiting.id)
        assert why.state == "queued"
        assert [blocker["job"] for blocker in why.blockers] == [running.id]
        document = why.as_json()
        assert set(document) == {"state", "reason", "blockers", "estimated_start", "options"}
        assert "runs on a" in session.why_now(running.id).reason


async def test_a_job_after_another_waits_for_its_success(room: Room) -> None:
    async with opened(room) as session:
        first = await session.queue.submit(room.task("first"))
        second = await session.queue.submit(room.task("second", after=("first",)))
        assert second.task.after == (first.id,)
        await room.until(lambda: session.job(first.id).state is JobState.RUNNING)
        assert "comes after job" in session.why_now(second.id).reason
        room.docker.finish(1)
        await room.done(session.wait(first.id))
        await room.clock.pass_time(5)
        assert session.job(second.id).state is JobState.QUEUED
        assert "failed" in session.why_now(second.id).reason


async def test_results_are_fetched_into_a_folder_of_the_job(room: Room, tmp_path: Path) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        with pytest.raises(RefusedError, match="has not run"):
            await session.fetch_results(job.id, tmp_path)
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        folder = (await session.fetch_results(job.id, tmp_path / "out")).folder
        assert folder == tmp_path / "out" / job.id
        assert (folder / "model.pdparams").read_bytes() == b"model"
        with pytest.raises(UsageError, match="not empty"):
            await session.fetch_results(job.id, tmp_path / "out")
        room.docker.reachable = False
        with pytest.raises(UnreachableError):
            await session.fetch_results(job.id, tmp_path / "elsewhere")


async def test_the_docker_line_is_what_was_run(room: Room) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        before = session.render(job.id)
        assert before.startswith("docker run")
        assert before.endswith("paddle python train.py")
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        after = session.render(job.id)
        assert room.docker.only().spec.name in after
        assert "GPU-a-0" in after
        assert "--user 1000:1000" in after
        with pytest.raises(UsageError, match="Unknown target"):
            session.render(job.id, "nomad")
        task = room.task()
        assert "device=0" in session.render_task(task)
        host = session.snapshot().hosts[0]
        on = Candidate((Place(host.name, host.devices[:1]),), 1.0, ())
        line = session.render_task(task, on=on)
        assert "GPU-a-0" in line
        assert line.endswith("paddle python train.py")


async def test_read_only_looks_and_refuses(room: Room) -> None:
    async with opened(room, dispatch=False) as writer:
        job = await writer.queue.submit(room.task())
        async with opened(room, read_only=True) as session:
            assert session.job(job.id) == job
            assert session.why_now(job.id).state == "queued"
            for action in (
                session.queue.submit(room.task()),
                session.queue.cancel(job.id),
                session.queue.retry(job.id),
                session.queue.hold(job.id),
                session.queue.set_priority(job.id, 1),
                session.prune(),
            ):
                with pytest.raises(ReadOnlyError):
                    await action
            await room.clock.pass_time(30)
            assert session.job(job.id).state is JobState.QUEUED
            assert not session.dispatching


async def test_a_closed_session_leaves_no_task_and_the_role_free(room: Room) -> None:
    before = asyncio.all_tasks()
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        assert session.dispatching
        assert session.dispatcher.startswith("ada@")
    assert asyncio.all_tasks() == before
    async with opened(room, dispatch=False) as session:
        assert session.dispatcher == ""
        assert session.job(job.id).state is JobState.RUNNING


async def test_prune_asks_every_host_and_survives_one_that_is_away(room: Room) -> None:
    async with opened(room) as session:
        assert list(await session.prune()) == ["a"]
        room.docker.reachable = False
        assert await session.prune() == {}


async def test_prune_removes_files_of_jobs_that_ended_long_ago(room: Room) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        room.docker.finish(0, b"x")
        await room.done(session.wait(job.id))
        bundle = room.state / "bundles" / f"{job.id}.tar.gz"
        await session.prune()
        assert bundle.exists()
        room.clock.time += 91 * 86400
        await session.prune()
        assert not bundle.exists()
        assert not session.log_path(job.id).exists()
        assert session.job(job.id).state is JobState.SUCCEEDED


async def test_wait_dispatches_when_nobody_else_does(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        job = await session.queue.submit(room.task())
        await room.clock.pass_time(10)
        assert session.job(job.id).state is JobState.QUEUED
        room.docker.on_start = lambda container: None
        waiting = asyncio.ensure_future(session.wait(job.id))
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        room.docker.finish(0)
        await room.until(waiting.done)
        assert waiting.result().state is JobState.SUCCEEDED


async def test_why_says_when_no_console_starts_jobs(room: Room) -> None:
    async with opened(room, dispatch=False) as session:
        job = await session.queue.submit(room.task())
        why = session.why_now(job.id)
        assert "no console is open" in why.reason
        assert "gpuconsole dispatch" in why.options[0]


async def test_waiting_for_a_held_job_ends_at_once_and_says_how_to_release_it(room: Room) -> None:
    async with opened(room) as session:
        job = await session.queue.submit(room.task(), hold=True)
        with pytest.raises(RefusedError, match="is held") as caught:
            await room.done(session.wait(job.id))
        assert caught.value.exit_code == 1
        assert caught.value.hint == f"`gpuconsole release {job.id}` releases it."


async def test_cancelling_a_job_that_got_no_container_waits_for_no_host(room: Room) -> None:
    room.docker.pull_blocks = True
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        await room.until(lambda: "43 %" in session.job(job.id).detail)
        room.docker.reachable = room.docker.pull_blocks = False
        room.docker.notify()
        await room.until(lambda: session.job(job.id).state is JobState.QUEUED)
        assert "went out of sight before it could start" in session.job(job.id).detail
        ended = await room.done(session.queue.cancel(job.id))
        assert isinstance(ended, Job)
        assert ended.state is JobState.CANCELLED


async def test_answers_are_remembered_for_a_script_and_kept_with_the_job(room: Room) -> None:
    async with room.session() as session:
        script = room.task().script
        assert session.estimates.assume(script, {"width": "32"}) == {"width": "32"}
        assert session.estimates.assumptions(script) == {"width": "32"}
        with pytest.raises(UsageError):
            session.estimates.assume(script, {"width": "[3"})
        job = await session.queue.submit(room.task())
        assert job.task.assumptions == {"width": "32"}
        assert session.estimates.assume(script, {"width": ""}) == {}
