"""What is measured of running attempts: use, energy, gaps, shares, also over a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.core.devices.device_use import DeviceUse
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.session.report.model import Query
from gpuconsole.session.report.use_meter import LONGEST_GAP_S, WRITE_EVERY_S, UseMeter
from gpuconsole.session.session import Session
from tests.session.test_session import Room, opened, room  # noqa: F401

START = 1_000.0


class Bench:
    """A meter over jobs and frames that a test sets."""

    def __init__(self) -> None:
        self.time = START
        self.held: list[Job] = []
        self.devices: tuple[Device, ...] = (Device("G0", 0, "A100"), Device("G1", 1, "A100"))
        self.state = HostState.UP
        self.stored: dict[tuple[str, int, str, str], DeviceUse] = {}
        self.writes = 0
        self.epoch = 1
        self.meter = UseMeter(self)  # type: ignore[arg-type]

    # What the meter takes of a context, its journal, its hosts and its clock.
    @property
    def settings(self) -> Any:
        from gpuconsole.config import LabSettings

        return LabSettings()

    @property
    def journal(self) -> Bench:
        return self

    @property
    def clock(self) -> Bench:
        return self

    @property
    def hosts(self) -> Bench:
        return self

    def now(self) -> float:
        return self.time

    def jobs(self) -> tuple[Job, ...]:
        return tuple(self.held)

    def snapshot(self) -> FleetSnapshot:
        host = Host("h", self.state, devices=self.devices, sampled_at=self.time)
        return FleetSnapshot(1, self.time, (host,))

    def measured_use(self, job_id: str) -> tuple[DeviceUse, ...]:
        return tuple(use for key, use in self.stored.items() if key[0] == job_id)

    def measure_use(self, uses: list[DeviceUse], *, epoch: int | None = None) -> None:
        self.writes += 1
        self.stored |= {(use.job, use.attempt, use.host, use.model): use for use in uses}

    # What a test does.
    def job(self, name: str, *uuids: str) -> Job:
        attempt = Attempt(1, "h", uuids, container_id=f"c-{name}", created_at=self.time)
        return Job(name, Task(name), "ada", JobState.RUNNING, self.time, attempts=(attempt,))

    def passes(self, seconds: int, **changes: Any) -> None:
        self.devices = tuple(replace(device, **changes) for device in self.devices)
        for _ in range(seconds):
            self.time += 1.0
            self.meter.look(self.epoch)

    def ends(self) -> dict[str, DeviceUse]:
        """End all jobs, and return what is written of them."""
        self.held = []
        self.passes(1)
        return {use.job: use for use in self.stored.values()}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_sums_are_of_device_seconds_with_use_and_power(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0", "G1")]
    bench.passes(1, utilization=50.0, power_w=200.0)
    bench.passes(100)
    use = bench.ends()["a"]
    assert (use.devices, use.model) == (2, "A100")
    assert use.use_known_s == pytest.approx(200.0)
    assert use.used_s == pytest.approx(100.0)
    assert use.energy_j == pytest.approx(40_000.0)
    assert use.busy_at == START + 101


def test_use_that_cannot_be_read_counts_as_no_time_at_all(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0", "G1")]
    bench.passes(10, utilization=None, power_w=200.0)
    bench.passes(10, utilization=0.0, power_w=None)
    use = bench.ends()["a"]
    assert (use.use_known_s, use.used_s) == (20.0, 0.0)
    assert (use.energy_known_s, use.energy_j) == (0.0, 0.0)
    assert use.busy_at is None


def test_a_device_on_which_strangers_work_is_unknown(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0", "G1")]
    own, foreign = DeviceProcess(1, container_id="c-a"), DeviceProcess(2, user="eve")
    bench.devices = (
        replace(bench.devices[0], processes=(own,)),
        replace(bench.devices[1], processes=(own, foreign)),
    )
    bench.passes(11, utilization=100.0, power_w=100.0)
    use = bench.ends()["a"]
    assert use.use_known_s == pytest.approx(10.0)
    assert use.energy_j == pytest.approx(1000.0)
    assert use.seen_at == 0.0


def test_two_jobs_on_a_device_have_a_half_each(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0"), bench.job("b", "G0")]
    processes = (DeviceProcess(1, container_id="c-a"), DeviceProcess(2, container_id="c-b"))
    bench.devices = tuple(replace(device, processes=processes) for device in bench.devices)
    bench.passes(11, utilization=80.0, power_w=300.0)
    uses = bench.ends()
    for use in uses.values():
        assert use.use_known_s == pytest.approx(5.0)
        assert use.used_s == pytest.approx(4.0)
        assert use.energy_j == pytest.approx(1500.0)
    assert set(uses) == {"a", "b"}


def test_a_gap_is_not_measured(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0")]
    bench.passes(11, utilization=100.0)
    bench.state = HostState.DOWN
    bench.passes(20)
    bench.time += LONGEST_GAP_S
    bench.state = HostState.UP
    bench.passes(11)
    assert bench.ends()["a"].use_known_s == pytest.approx(20.0)


def test_a_slow_tool_measures_by_its_own_samples(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0")]
    bench.passes(1, utilization=100.0, sampled_at=START)
    bench.passes(30)
    bench.passes(30, sampled_at=START + 30.0)
    assert bench.ends()["a"].use_known_s == pytest.approx(30.0)


def test_what_was_measured_is_written_now_and_then_and_goes_on_elsewhere(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0")]
    bench.passes(int(WRITE_EVERY_S) * 3, utilization=100.0)
    assert bench.writes == 3
    written = bench.stored["a", 1, "h", "A100"].use_known_s
    # Another console takes over: what this one wrote last counts.
    bench.meter = UseMeter(bench)  # type: ignore[arg-type]
    bench.epoch = 2
    bench.passes(31)
    assert bench.ends()["a"].use_known_s == pytest.approx(written + 30.0)


def test_an_attempt_with_a_number_given_again_begins_at_nothing(bench: Bench) -> None:
    bench.held = [bench.job("a", "G0")]
    bench.passes(21, utilization=100.0)
    bench.ends()
    bench.held = [bench.job("a", "G0")]
    bench.passes(6)
    assert bench.ends()["a"].use_known_s == pytest.approx(5.0)


def frame(room: Room, session: Session, **changes: Any) -> None:  # noqa: F811
    hosts: Any = session.hosts
    (host,) = hosts.snapshots.hosts
    devices = tuple(replace(device, **changes) for device in host.devices)
    fresh = replace(host, devices=devices, sampled_at=room.clock.now())
    revision = hosts.snapshots.revision + 1
    hosts.snapshots = replace(hosts.snapshots, hosts=(fresh,), revision=revision)


async def test_a_job_that_ran_is_in_the_report(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        began = session.now() - 1
        job = await session.queue.submit(room.task(account="vision"))
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        for _ in range(60):
            frame(room, session, utilization=50.0, power_w=300.0)
            await room.clock.pass_time(1.0)
        room.docker.finish(0)
        await room.until(lambda: session.job(job.id).state is JobState.SUCCEEDED)
        await room.clock.pass_time(2.0)
        made = await session.usage_report(
            Query(began, session.now() + 1, ("user", "account", "model"))
        )
    (row,) = made.rows
    assert row.words == ("ada", "vision", "A100")
    assert row.sums.use == pytest.approx(50.0)
    assert row.sums.use_known_s == pytest.approx(59.0, abs=3.0)
    assert row.sums.energy_j == pytest.approx(300.0 * row.sums.energy_known_s)
    assert made.idle == ()
    # The same journal, by a console that dispatches nothing.
    async with opened(room, dispatch=False, read_only=True) as session:
        again = await session.usage_report(Query(began, session.now() + 1))
    assert again.total == made.total


async def test_what_a_short_session_measured_is_written_as_it_closes(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        job = await session.queue.submit(room.task())
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        for _ in range(20):
            frame(room, session, utilization=100.0)
            await room.clock.pass_time(1.0)
    async with opened(room, dispatch=False, read_only=True) as session:
        made = await session.usage_report(Query(session.now() - 100.0, session.now()))
    assert made.total.use_known_s == pytest.approx(19.0, abs=3.0)


async def test_names_of_users_and_projects_are_made_safe(room: Room) -> None:  # noqa: F811
    async with opened(room) as session:
        job = await session.queue.submit(room.task(account="\x1b[31mred\u202e"))
        await room.until(lambda: session.job(job.id).state is JobState.RUNNING)
        await room.clock.pass_time(10.0)
        made = await session.usage_report(Query(0.0, session.now() + 1, ("account",)))
    assert made.rows[0].words == ("red",)


async def test_an_empty_journal_has_an_empty_report(room: Room) -> None:  # noqa: F811
    async with opened(room, dispatch=False, read_only=True) as session:
        made = await session.usage_report(Query(0.0, session.now()))
    assert (made.rows, made.total.held_s, made.idle) == ((), 0.0, ())
