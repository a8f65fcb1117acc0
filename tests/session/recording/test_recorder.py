"""The session's recorder, and a session on what it wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.history import FULL_DEVICES
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import JournalError, ReadOnlyError, UnreachableError, UsageError
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.recording import recorder as recording
from gpuconsole.session.recording.recorder import FileSink, Recorder, Watched, record_into
from gpuconsole.session.recording.replay_session import open_past, open_replay
from gpuconsole.state.recording.archive import Shelf
from gpuconsole.state.recording.reader import Tape
from gpuconsole.state.recording.writer import Batch
from tests.waiting import until

T0 = 1_790_000_000.0


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = T0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Lab:
    """What is watched, as a test sets it."""

    def __init__(self, devices: int = 2) -> None:
        self.clock = HandClock()
        self.devices = devices
        self.state = HostState.UP
        self.names = ["a"]
        self.jobs: tuple[Job, ...] = ()
        self.error: JournalError | None = None
        self.reported: list[Event] = []

    def snapshot(self) -> FleetSnapshot:
        at = self.clock.at
        cards = tuple(
            Device(f"GPU-{n}", n, "A100", utilization=float(int(at) % 100))
            for n in range(self.devices)
        )
        hosts = (Host(name, self.state, devices=cards, sampled_at=at) for name in self.names)
        return FleetSnapshot(int(at), at, tuple(hosts))

    def known_jobs(self) -> tuple[Job, ...]:
        if self.error is not None:
            raise self.error
        return self.jobs

    def recorder(self, path: Path) -> Recorder:
        watched = Watched("ana", True, self.snapshot, self.known_jobs, lambda: ())
        sink = FileSink(path, watched)
        return Recorder(watched, self.clock, sink, tell=self.reported.append)

    async def pass_seconds(self, recorder: Recorder, count: int) -> None:
        """What `run` does, second by second."""
        for _ in range(count):
            recorder.look()
            self.clock.at += 1


def job(name: str, state: JobState = JobState.QUEUED) -> Job:
    return Job(name, Task(name), "ana", state, T0)


async def test_every_second_is_there(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 90)
    await recorder.cut()
    await lab.pass_seconds(recorder, 90)
    await recorder.close()
    shelf = Shelf(path)
    assert [(span.first, span.last) for span in shelf.spans] == [(T0, T0 + 180)]
    for second in (0, 1, 45, 89, 90, 91, 133, 179):
        (seen,) = shelf.stretch(T0 + second).hosts(T0 + second)
        assert seen.devices[1].utilization == (T0 + second) % 100


async def test_blocks_are_written_each_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)

    async def sleep(seconds: float) -> None:
        lab.clock.at += seconds
        await asyncio.sleep(0)

    monkeypatch.setattr(lab.clock, "sleep", sleep)
    running = asyncio.ensure_future(recorder.run())
    await until(lambda: lab.clock.at >= T0 + 200)
    running.cancel()
    await recorder.close()
    blocks = Tape(path).blocks
    assert len(blocks) >= 3
    assert blocks[0].last - blocks[0].first == recording.BLOCK_S
    assert all(one.last == two.first for one, two in pairwise(blocks))


async def test_jobs_that_change_are_noticed_once(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    old, new = job("a"), job("b")
    lab.jobs = (old, new)
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 10)
    running = replace(old, state=JobState.RUNNING)
    lab.jobs = (running, new)
    await lab.pass_seconds(recorder, 10)
    lab.jobs = (running, new)
    await lab.pass_seconds(recorder, 20)
    await recorder.close()
    stretch = Tape(path).stretch(0)
    assert stretch.log.jobs == [(T0, old), (T0, new), (T0 + 10, running)]
    assert stretch.jobs(T0 + 9) == (old, new)
    assert stretch.jobs(T0 + 10) == (running, new)


async def test_what_changes_all_the_time_is_written_now_and_then(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    first = replace(job("a", JobState.RUNNING), attempts=(Attempt(1, "a"),))
    recorder = lab.recorder(path)
    for second in range(130):
        attempt = Attempt(1, "a", peak_mib=float(second))
        lab.jobs = (replace(first, attempts=(attempt,), revision=second, detail=f"{second} %"),)
        if second == 100:
            lab.jobs = (replace(first, state=JobState.FAILED),)
        await lab.pass_seconds(recorder, 1)
    await recorder.close()
    changes = Tape(path).stretch(0).log.jobs
    assert [at - T0 for at, _ in changes] == [0, 60, 100, 101]
    assert [one.state.value for _, one in changes] == ["running", "running", "failed", "running"]


async def test_a_journal_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 5)
    lab.error = JournalError("Locked", "Somebody else holds it.")
    await lab.pass_seconds(recorder, 5)
    lab.error, lab.jobs = None, (job("a"),)
    await lab.pass_seconds(recorder, 25)
    await recorder.close()
    stretch = Tape(path).stretch(0)
    assert [at for at, _ in stretch.log.jobs] == [T0 + 10]
    assert stretch.hosts(T0 + 7)[0].devices[0].utilization == 7


async def test_a_large_fleet_is_recorded_less_often_but_a_loss_at_once(tmp_path: Path) -> None:
    lab, path = Lab(devices=4 * FULL_DEVICES), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 10)
    lab.state = HostState.DOWN
    await lab.pass_seconds(recorder, 1)
    await recorder.close(short=True)
    frames = Tape(path).stretch(0).frames
    assert [run.times for (run,) in frames.hosts] == [[0, 4000, 8000, 10000]]


async def test_hosts_of_a_large_fleet_may_change_places(tmp_path: Path) -> None:
    lab, path = Lab(devices=4 * FULL_DEVICES), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 2)
    lab.names = ["new", "a"]
    await lab.pass_seconds(recorder, 1)
    await recorder.close(short=True)
    frames = Tape(path).stretch(0).frames
    times = {run.host.name: run.times for (run,) in frames.hosts}
    assert times["new"][0] == 2000
    assert times["a"][:2] != [0, 2000]


async def test_a_clock_set_back_does_not_spoil_a_block(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 40)
    lab.clock.at -= 15
    await lab.pass_seconds(recorder, 5)
    await recorder.close()
    stretch = Tape(path).stretch(0)
    assert stretch.last == T0 + 39
    assert stretch.hosts(stretch.last)


async def test_a_session_of_some_seconds_leaves_no_file(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 5)
    await recorder.close()
    assert not path.exists()


async def test_a_disk_that_is_full_is_told_once_and_tried_again(tmp_path: Path) -> None:
    lab = Lab()

    class Broken:
        calls = 0

        def write(self, batch: Batch) -> None:
            self.calls += 1
            if self.calls < 3:
                raise OSError(28, "No space left on device", "/state/x.gpurec")

        def close(self) -> None:
            pass

    sink = Broken()
    watched = Watched("ana", True, lab.snapshot, lab.known_jobs, lambda: ())
    recorder = Recorder(watched, lab.clock, sink, tell=lab.reported.append)
    for _ in range(4):
        await lab.pass_seconds(recorder, 60)
        await recorder.cut()
    assert [event.message for event in lab.reported] == [
        "Nothing is recorded for now. /state/x.gpurec: No space left on device."
    ]
    assert sink.calls == 4


# --- a whole session --------------------------------------------------------------------------


@asynccontextmanager
async def demo(state: Path, **options: Any) -> AsyncIterator[Any]:
    chosen = DemoOptions(hosts=3, **options)
    async with open_session(None, state, demo=chosen, dispatch=False) as session:
        yield session


async def test_a_session_records_itself_and_can_be_looked_back_at(tmp_path: Path) -> None:
    async with demo(tmp_path) as session:
        began = session.now()
        await until(lambda: session.now() > began + 2.5)
        past = await open_past(session, session.now() - 1.5)
        async with past:
            assert past.read_only
            assert past.simulated
            assert began <= past.now() < session.now() - 1.0
            then = past.snapshot()
            assert [host.name for host in then.hosts] == [
                host.name for host in session.snapshot().hosts
            ]
            assert past.snapshot() is then
            assert past.jobs() == ()
            with pytest.raises(ReadOnlyError):
                await past.queue.cancel("anything")
            with pytest.raises(UnreachableError):
                await past.hosts.engine(then.hosts[0].name)
            # What is newer than the recording is cut and found.
            await until(lambda: session.now() > began + 4)
            await session.recorder.cut()
            landed = await past.reel.seek(session.now(), 1)
            assert landed > then.taken_at + 1


async def test_plots_reach_back_into_what_an_earlier_session_recorded(tmp_path: Path) -> None:
    async with demo(tmp_path) as first:
        began = first.now()
        await until(lambda: first.now() > began + 3)
        await first.recorder.cut()
        uuid = first.snapshot().hosts[0].devices[0].uuid
        known = len(first.history.device(uuid, "utilization", 60.0).times)
        assert known >= 3
    async with demo(tmp_path) as second:
        own = second.history.device(uuid, "utilization", 60.0)
        assert len(own.times) <= 1

        def joined() -> bool:
            return len(second.history.device(uuid, "utilization", 60.0).times) >= known

        await until(joined)
        series = second.history.device(uuid, "utilization", 60.0)
        assert list(series.times) == sorted(series.times)
        assert began - 2 <= series.times[0] <= began + 2
        host = second.history.host(second.snapshot().hosts[0].name, "cpu_percent", 60.0)
        assert len(host.times) >= known
        # What lies within the session alone asks no file.
        await until(lambda: second.now() > second._samples._earlier._began + 1.2)
        assert len(second.history.device(uuid, "utilization", 1.0).times) <= 4


async def test_recording_can_be_switched_off(tmp_path: Path) -> None:
    async with demo(tmp_path) as session:
        session.recorder._sink = None
        with pytest.raises(UsageError, match="enabled"):
            await open_past(session, session.now() - 5)
    assert not (tmp_path / "recording").exists()


async def test_a_file_for_a_colleague(tmp_path: Path) -> None:
    path = tmp_path / "lab.gpurec"
    async with demo(tmp_path / "state") as session:
        made = await record_into(session, path, asyncio.Event(), 2.5)
        with pytest.raises(UsageError, match="there already"):
            await record_into(session, path, asyncio.Event(), 1.0)
        with pytest.raises(UsageError, match="no folder"):
            await record_into(session, tmp_path / "none" / "x", asyncio.Event(), 1.0)
    assert made.size == path.stat().st_size
    assert 2.0 < made.seconds < 6.0
    replayed = await open_replay(path, LabSettings())
    async with replayed:
        assert replayed.simulated
        assert len(replayed.snapshot().hosts) == 3
        assert replayed.now() == replayed.reel.first
        document = json.dumps([one.as_json() for one in replayed.jobs()])
        assert document == "[]"


async def test_a_damaged_file_stops_playing_with_words(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 60)
    await recorder.cut()
    await lab.pass_seconds(recorder, 60)
    await recorder.close()
    second = Tape(path).blocks[1]
    data = bytearray(path.read_bytes())
    data[second.end - 5] ^= 255
    path.write_bytes(data)
    replayed = await open_replay(path, LabSettings())
    async with replayed:
        replayed.reel.play(600.0)
        await until(lambda: not replayed.reel.clock.playing)
        assert "checksum" in replayed.reel.trouble[-1]
        assert replayed.snapshot().hosts


async def test_playing_passes_over_a_time_in_which_nobody_looked(tmp_path: Path) -> None:
    lab, path = Lab(), tmp_path / "x.gpurec"
    recorder = lab.recorder(path)
    await lab.pass_seconds(recorder, 30)
    await recorder.cut()
    recorder._batch = None
    lab.clock.at += 3600
    await lab.pass_seconds(recorder, 30)
    await recorder.close()
    replayed = await open_replay(path, LabSettings())
    async with replayed:
        replayed.reel.play(60.0)
        await until(lambda: not replayed.reel.clock.playing)
        assert replayed.now() == T0 + 3600 + 60
