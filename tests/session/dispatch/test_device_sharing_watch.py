"""A shared device is watched: memory in every frame, the first job's steps now and then."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import ContainerSpec, Lease
from gpuconsole.core.devices.device_sharing import Share
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.session.dispatch.attempt.observation import Reported
from gpuconsole.session.dispatch.device_sharing import pairs
from gpuconsole.session.dispatch.device_sharing_watch import READ_EVERY_S, Crowding, Pace
from tests.session.conftest import Desk, Lab
from tests.session.fakes import Container, rest

UUID = "GPU-a-0"


def said(steps: int, step_s: float, recent_s: float | None = None) -> Reported:
    return Reported(steps=steps, step_s=step_s, recent_s=step_s if recent_s is None else recent_s)


def test_the_stretch_is_against_the_steps_alone() -> None:
    pace = Pace(1)
    pace.note(said(100, 0.20), "")
    assert (pace.solo_s, pace.stretch) == (0.20, None)
    pace.note(said(150, 0.20, 0.21), "b")
    # Fewer than twenty steps since: some of the latest were made alone.
    pace.note(said(165, 0.20, 0.22), "b")
    assert pace.stretch is None
    pace.note(said(170, 0.20, 0.22), "b")
    assert pace.stretch == pytest.approx(1.1)
    assert pace.slow == 0


def test_one_slow_reading_is_not_enough() -> None:
    pace = Pace(1)
    pace.note(said(100, 0.20), "")
    pace.note(said(110, 0.20), "b")
    for steps, recent, slow in ((130, 0.24, 1), (150, 0.22, 0), (170, 0.24, 1), (190, 0.24, 2)):
        pace.note(said(steps, 0.20, recent), "b")
        assert pace.slow == slow


def test_after_the_other_has_gone_alone_is_measured_anew() -> None:
    pace = Pace(1)
    pace.note(said(100, 0.20), "")
    pace.note(said(110, 0.20), "b")
    pace.note(said(130, 0.20, 0.22), "b")
    pace.note(said(140, 0.20, 0.22), "")
    assert (pace.solo_s, pace.stretch) == (0.20, None)
    # The median of all still holds steps from beside the other.
    pace.note(said(165, 0.21, 0.18), "")
    assert pace.solo_s == 0.18


def test_without_steps_nothing_is_measured() -> None:
    pace = Pace(1)
    pace.note(Reported(), "")
    pace.note(Reported(steps=5), "b")
    assert pace.stretch is None


@dataclass
class Room:
    """One device with two jobs on it, as the watching console knows them."""

    desk: Desk
    lab: Lab
    theirs: dict[str, tuple[Lease, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = replace(self.desk.context, settings=LabSettings(sharing=True))
        self.crowding = Crowding(self.context, self.others)

    def others(self, journal: str) -> Mapping[str, Sequence[Lease]]:
        return self.theirs

    def run(self, name: str, *, shared: bool = False) -> str:
        """Let a job run on the device."""
        journal = self.desk.journal
        found = journal.job(self.lab.submit(self.desk, name, Task(name, share=True)))
        assert found is not None
        container = Container(f"{name:0>64}", ContainerSpec(name, "paddle", ()), 0.0, "running")
        self.lab.docker.containers[name] = container
        attempt = Attempt(1, "a", (UUID,), (0,), name, container.id, self.lab.clock.now(),
                          shared=shared)  # fmt: skip
        self.lab.clock.time += 1.0
        launching = replace(found, estimate_mib=8000.0, attempts=(attempt,),
                            state=JobState.LAUNCHING)  # fmt: skip
        running = journal.save(found, launching)
        journal.save(running, replace(running, state=JobState.RUNNING))
        return found.id

    def uses(self, mib: float) -> None:
        """Let the driver say how much of the device is in use."""
        hosts = self.desk.hosts.snapshots
        host = hosts.hosts[0]
        device = replace(host.devices[0], memory_used_mib=mib)
        made = replace(hosts, hosts=(replace(host, devices=(device,)),))
        self.desk.hosts.snapshots = replace(made, revision=hosts.revision + 1)

    async def report(self, name: str, steps: int, recent_s: float, step_s: float = 0.2) -> None:
        """Let a job's reporter write, and the console look when it is due."""
        text = json.dumps({"steps": steps, "step_s": step_s, "recent_s": recent_s})
        self.lab.docker.containers[name].files = {"1.json": text.encode()}
        self.lab.clock.time += READ_EVERY_S
        self.look()
        await rest()

    def look(self) -> list[tuple[str, str]]:
        return self.crowding.look(self.desk.journal.jobs())

    def details(self) -> dict[str, str]:
        for job in self.crowding.with_details(self.desk.journal.jobs()):
            known = self.desk.job(job.id)
            self.desk.journal.save(known, replace(known, detail=job.detail))
        return {job.task.name: job.detail for job in self.desk.journal.jobs()}


@pytest.fixture
async def room(lab: Lab) -> AsyncIterator[Room]:
    made = Room(lab.desk(), lab)
    yield made
    await made.crowding.close()


async def test_a_full_device_sends_the_later_job_away(room: Room) -> None:
    room.run("first")
    later = room.run("later", shared=True)
    # 92 % of 40960 MiB are 37683.2.
    room.uses(37683.0)
    assert room.look() == []
    room.uses(37684.0)
    ((job, cause),) = room.look()
    assert job == later
    assert cause.startswith("It made room for first (")
    assert "36.8 GiB of 40.0 GiB were in use, above 92%" in cause
    # Nothing has changed: it is not said again.
    assert room.look() == []


async def test_one_job_alone_may_fill_its_device(room: Room) -> None:
    room.run("first")
    room.uses(40000.0)
    assert room.look() == []


async def test_a_slowed_first_job_sends_the_later_away(room: Room) -> None:
    first = room.run("first")
    await room.report("first", 100, 0.20)
    later = room.run("later", shared=True)
    await room.report("first", 110, 0.20)
    await room.report("first", 140, 0.25)
    assert room.look() == []
    await room.report("first", 170, 0.25)
    assert room.look() == [
        (later, f"It made room for first ({first}), with which it shared a device: a step of that"
                " took 1.25 times as long as alone, above 1.15.")
    ]  # fmt: skip


async def test_both_say_what_sharing_costs(room: Room) -> None:
    first = room.run("first")
    await room.report("first", 100, 0.20)
    later = room.run("later", shared=True)
    room.look()
    assert room.details() == {
        "first": f"It shares its device with later ({later}); what that costs is being measured.",
        "later": f"It shares its device with first ({first}); what that costs is being measured.",
    }
    await room.report("first", 110, 0.20)
    await room.report("first", 140, 0.21)
    assert room.details() == {
        "first": f"It shares its device with later ({later}); its steps take 1.05 times as long as"
                 " alone.",
        "later": f"It shares its device with first ({first}); the other's steps take 1.05 times"
                 " as long as alone.",
    }  # fmt: skip
    job = room.desk.job(later)
    room.desk.journal.save(job, replace(job, state=JobState.SUCCEEDED, detail=""))
    room.look()
    assert room.details() == {"first": "", "later": ""}


async def test_what_cannot_be_measured_is_said(room: Room) -> None:
    room.run("first")
    room.run("later", shared=True)
    room.look()
    assert all(
        "cannot be measured: no steps were seen while one ran alone" in detail
        for detail in room.details().values()
    )


async def test_beside_another_consoles_job_only_memory_is_watched(room: Room) -> None:
    mine = room.run("mine", shared=True)
    room.theirs = {"a": (Lease(UUID, "t", "t-1", "bob", "theirs", 1.0, Share(1.0, 2.0)),)}
    room.uses(40000.0)
    ((job, cause),) = room.look()
    assert job == mine
    assert "a job of bob (t)" in cause
    assert room.details()["mine"] == (
        "It shares its device with a job of bob (t); what that costs is measured by the other's"
        " console."
    )


async def test_another_consoles_later_job_is_its_own_business(room: Room) -> None:
    room.run("mine")
    beside = Share(1.0, 2.0, beside=True)
    room.theirs = {"a": (Lease(UUID, "t", "t-1", "bob", "theirs", 1.0, beside),)}
    room.uses(40000.0)
    assert room.look() == []


async def test_one_that_is_being_stopped_is_not_asked_again(room: Room) -> None:
    room.run("first")
    later = room.desk.job(room.run("later", shared=True))
    assert later.attempt is not None
    marked = replace(later.attempt, ended_by="crowded-out")
    room.desk.journal.save(later, replace(later, attempts=(marked,)))
    room.uses(40000.0)
    assert room.look() == []


async def test_an_engine_that_does_not_answer_changes_nothing(room: Room) -> None:
    room.run("first")
    room.lab.docker.silent_at = None
    await room.report("first", 100, 0.2)
    room.lab.docker.silent_at = frozenset()
    later = room.run("later", shared=True)
    await room.report("first", 130, 0.3)
    assert room.look() == []
    assert later in {job.id for job in room.desk.journal.jobs()}


def test_a_pair_of_jobs_that_came_without_saying_so_is_told_apart_by_time() -> None:
    def at(name: str, when: float) -> Job:
        attempt = Attempt(1, "a", (UUID,), (0,), name, created_at=when)
        return Job(name, Task(name), "ada", JobState.RUNNING, 1.0, attempts=(attempt,))

    (pair,) = pairs([at("late", 9.0), at("early", 5.0)], {})
    assert (pair.first.job, pair.later.job) == ("early", "late")


async def test_a_lab_that_shares_nothing_costs_nothing(lab: Lab) -> None:
    room = Room(lab.desk(), lab)
    room.run("first")

    def unasked(journal: str) -> Mapping[str, Sequence[Lease]]:
        raise AssertionError("nobody shares")

    crowding = Crowding(room.desk.context, unasked)
    assert crowding.look(room.desk.journal.jobs()) == []
    assert crowding.with_details(room.desk.journal.jobs()) == []
    # What began to share while the lab allowed it is watched to its end.
    room.run("later", shared=True)
    with pytest.raises(AssertionError, match="nobody shares"):
        crowding.look(room.desk.journal.jobs())
