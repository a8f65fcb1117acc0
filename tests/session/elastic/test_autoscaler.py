"""Hosts of a lab in memory that sleep, wake when a job waits, and sleep again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.devices.host_power import Elastic, Verb
from gpuconsole.core.fleet import DeviceProcess, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.placement.elastic import wake as waking_rules
from gpuconsole.session.elastic.autoscaler import Waking
from gpuconsole.session.elastic.power_state import power_overlay, with_power
from gpuconsole.session.fleet.view import FleetView
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.planner import Situation, Why, placed_by, planned
from gpuconsole.state.files.host_power import ElasticNotes
from tests.session.conftest import Desk, Lab
from tests.session.fakes import Docker, rest


@dataclass
class Switch:
    """Switches the hosts of a desk."""

    desk: Desk
    hosts: dict[str, Elastic]
    calls: list[tuple[str, Verb]] = field(default_factory=list)
    fault: str = ""
    slow: bool = False
    """Whether a host that is woken comes up only when the test says so."""

    async def switch(self, host: str, verb: Verb) -> str:
        self.calls.append((host, verb))
        if self.fault:
            return self.fault
        if not (self.slow and verb == "wake"):
            show(self.desk, host, HostState.UP if verb == "wake" else HostState.DOWN)
        return ""


def show(desk: Desk, name: str, state: HostState) -> None:
    desk.hosts._dockers[name].reachable = state is HostState.UP
    change(desk, name, state=state, error="connection refused" if state is HostState.DOWN else "")


def change(desk: Desk, name: str, **fields: object) -> None:
    before = desk.hosts.snapshots
    hosts = tuple(
        replace(host, **fields) if host.name == name else host  # type: ignore[arg-type]
        for host in before.hosts
    )
    desk.hosts.snapshots = replace(before, hosts=hosts, revision=before.revision + 1)


class Rig:
    """A console that wakes the hosts of a lab; the others are always up."""

    def __init__(self, lab: Lab, elastic: dict[str, Elastic], *more: str) -> None:
        self.lab = lab
        lab.dockers = {name: Docker(lab.clock) for name in (*elastic, *more)}
        self.desk = lab.desk()
        self.switch = Switch(self.desk, elastic)
        notes = ElasticNotes(lab.state)
        self.hosts = FleetView(self.desk.hosts, (power_overlay(elastic, notes),))
        self.notes = notes
        placer = Placer(lab.settings, user="ada")
        self.steps = (placed_by(placer), with_power(elastic, notes))
        context = replace(self.desk.context, hosts=self.hosts, power=self.switch)
        self.waking = Waking(context, placer, self.desk.leases, self.desk.hosts, notes)
        for name in elastic:
            engine = self.desk.hosts._engines[name]
            engine.running = self.running  # type: ignore[attr-defined]
        self.containers: tuple[str, ...] = ()

    async def running(self) -> tuple[str, ...]:
        return self.containers

    async def pass_time(self, seconds: float, step: float = 2.0) -> None:
        for _ in range(max(1, round(seconds / step))):
            self.lab.clock.time += step
            self.waking.look()
            await self.settle()

    async def settle(self) -> None:
        """Let everything that was begun come to rest, threads too."""
        while True:
            tasks = [*self.waking._doing.values()]
            tasks += [self.waking._looking] if self.waking._looking is not None else []
            if all(task.done() for task in tasks):
                break
            await asyncio.wait(tasks)
        self.waking._rest_until = 0.0
        await rest()

    def queue(self, **fields: object) -> Job:
        task = Task("train", script="/p/t.py", image="paddle", **fields)  # type: ignore[arg-type]
        job_id = f"job-{len(self.desk.journal.jobs())}"
        job = Job(job_id, task, "ada", JobState.QUEUED, self.lab.clock.now(),
                  queued_at=self.lab.clock.now(), estimate_mib=1000.0)  # fmt: skip
        self.desk.journal.add(job)
        return job

    def why(self, job: Job) -> Why:
        jobs, seen = self.desk.journal.jobs(), self.hosts.snapshot()
        situation = Situation(jobs, seen, self.lab.clock.now())
        return planned(situation, self.steps).waiting[job.id]

    def host(self, name: str) -> Host:
        found = self.hosts.snapshot().host(name)
        assert found is not None
        return found

    def reported(self) -> str:
        return "\n".join(event.message for _, event in self.desk.journal.events_after(0))


LIMITS = Elastic(wakes_per_hour=2, idle_s=60.0, wake_s=120.0, timeout_s=300.0)


@pytest.fixture
async def rig(lab: Lab) -> Rig:
    made = Rig(lab, {"a": LIMITS})
    # It is seen awake, so that what it has is known, and sleeps.
    await made.pass_time(2)
    show(made.desk, "a", HostState.DOWN)
    await made.pass_time(2)
    made.switch.calls.clear()
    return made


async def test_a_sleeping_host_says_so_and_is_no_loss(rig: Rig) -> None:
    found = rig.host("a")
    assert (found.state, found.power) == (HostState.DOWN, "asleep")
    assert found.error == "It sleeps, and is woken when a job needs it."


async def test_a_waiting_job_wakes_it_and_says_so(rig: Rig) -> None:
    rig.switch.slow = True
    job = rig.queue()
    await rig.pass_time(4)
    assert rig.switch.calls == [("a", "wake")]
    assert rig.host("a").power == "waking"
    why = rig.why(job)
    assert why.reason.startswith("Waking a: 2m00s typically.")
    assert why.estimated_start is not None
    await rig.pass_time(40)
    show(rig.desk, "a", HostState.UP)
    await rig.pass_time(2)
    assert rig.host("a").power == ""
    past = rig.notes.all()["a"]
    assert past.phase == "awake"
    assert 38 <= past.took[0] <= 46
    # Once is enough.
    assert rig.switch.calls == [("a", "wake")]
    assert "It is being woken for 1 waiting job." in rig.reported()


async def test_a_job_that_it_could_not_hold_lets_it_sleep(rig: Rig) -> None:
    rig.queue(devices=4)
    rig.queue(backend="npu")
    rig.queue(labels={"room": "2"})
    await rig.pass_time(20)
    assert rig.switch.calls == []


async def test_a_command_that_fails_is_shown_and_rested_from(rig: Rig) -> None:
    rig.switch.fault = "wakeonlan ended with 1: \\x1b[31mno such card"
    rig.queue()
    await rig.pass_time(30)
    assert rig.switch.calls == [("a", "wake")]
    found = rig.host("a")
    assert found.power == "asleep"
    assert "It did not wake: wakeonlan ended with 1" in found.error
    await rig.pass_time(40)
    assert len(rig.switch.calls) == 2
    # Two within an hour are its limit.
    await rig.pass_time(600, step=10)
    assert len(rig.switch.calls) == 2
    await rig.pass_time(3600, step=60)
    assert len(rig.switch.calls) > 2


async def test_a_host_that_does_not_come_up_has_not_woken(rig: Rig) -> None:
    rig.switch.slow = True
    rig.queue()
    await rig.pass_time(340, step=10)
    assert "it was not up 5m00s after its wake command" in rig.reported()
    assert rig.host("a").power == "asleep"


async def test_what_nobody_uses_is_put_to_sleep(rig: Rig) -> None:
    show(rig.desk, "a", HostState.UP)
    await rig.pass_time(50)
    assert rig.switch.calls == []
    await rig.pass_time(20)
    assert rig.switch.calls == [("a", "sleep")]
    assert rig.host("a").power == "asleep"
    # The claim kept others away meanwhile; it goes with the next time it is awake.
    docker = rig.lab.dockers["a"]
    assert all(lease.job.startswith("sleep-") for lease in docker.leases.values())
    show(rig.desk, "a", HostState.UP)
    await rig.pass_time(4)
    assert docker.leases == {}


async def test_no_job_is_placed_before_the_claim_is_given_back(rig: Rig) -> None:
    show(rig.desk, "a", HostState.UP)
    await rig.pass_time(70)
    assert rig.host("a").power == "asleep"
    docker = rig.lab.dockers["a"]
    show(rig.desk, "a", HostState.UP)
    docker.silent_at = None
    await rig.pass_time(20)
    # Its engine is not there yet: neither is the host.
    assert (rig.host("a").power, rig.host("a").drained) == ("waking", "it has just woken")
    assert docker.leases
    docker.silent_at = frozenset()
    await rig.pass_time(4)
    assert (rig.host("a").power, rig.host("a").drained) == ("", "")
    assert docker.leases == {}


async def test_no_host_sleeps_under_somebody(rig: Rig) -> None:
    show(rig.desk, "a", HostState.UP)
    host = rig.host("a")
    used = replace(host.devices[0], processes=(DeviceProcess(7, "eve"),))
    change(rig.desk, "a", devices=(used,))
    await rig.pass_time(100, step=10)
    change(rig.desk, "a", devices=(replace(host.devices[0], utilization=5.0),))
    await rig.pass_time(100, step=10)
    change(rig.desk, "a", devices=host.devices)
    lease = Lease(host.devices[0].uuid, "theirs", "theirs-1", "eve", "other journal", 1.0)
    rig.lab.dockers["a"].leases[lease.uuid] = lease
    await rig.pass_time(100, step=10)
    assert rig.switch.calls == []
    assert "stays awake" not in rig.reported()
    rig.lab.dockers["a"].leases.clear()
    rig.containers = ("web",)
    await rig.pass_time(200, step=10)
    assert rig.switch.calls == []
    assert "containers run there: web" in rig.reported()
    assert rig.lab.dockers["a"].leases == {}
    rig.containers = ()
    await rig.pass_time(200, step=10)
    assert rig.switch.calls == [("a", "sleep")]


async def test_a_sleep_command_that_fails_leaves_it_usable(rig: Rig) -> None:
    show(rig.desk, "a", HostState.UP)
    rig.switch.fault = "it hung"
    await rig.pass_time(80, step=10)
    assert rig.lab.dockers["a"].leases == {}
    found = rig.host("a")
    assert (found.power, found.drained) == ("", "")
    assert "its sleep command failed: it hung" in rig.reported()


async def test_after_its_time_awake_it_takes_no_new_jobs(lab: Lab) -> None:
    rig = Rig(lab, {"a": replace(LIMITS, max_awake_s=100.0, idle_s=1e6)})
    used = replace(rig.host("a").devices[0], utilization=5.0)
    idle = rig.host("a").devices
    change(rig.desk, "a", devices=(used,))
    await rig.pass_time(120, step=10)
    assert "awake for as long as it may" in rig.host("a").drained
    assert rig.switch.calls == []
    change(rig.desk, "a", devices=idle)
    await rig.pass_time(20)
    assert rig.switch.calls == [("a", "sleep")]


async def test_a_host_that_went_away_with_a_job_does_not_sleep(lab: Lab) -> None:
    rig = Rig(lab, {"a": LIMITS})
    await rig.pass_time(2)
    job = rig.queue()
    attempt = Attempt(1, "a", ("GPU-a-0",), (0,), starting_at=1.0)
    moved = replace(job, state=JobState.LAUNCHING, attempts=(attempt,))
    rig.desk.journal.save(job, moved)
    show(rig.desk, "a", HostState.DOWN)
    await rig.pass_time(10)
    assert rig.host("a").power == ""
    assert rig.host("a").error == "connection refused"


async def test_the_lab_s_price_is_a_limit(lab: Lab) -> None:
    lab.settings = LabSettings(elastic_price=5.0)
    rig = Rig(lab, {"a": LIMITS, "b": LIMITS})
    for name, price in (("a", 4.0), ("b", 3.0)):
        change(rig.desk, name, price_per_hour=price)
    await rig.pass_time(2)
    for name in "ab":
        show(rig.desk, name, HostState.DOWN)
    await rig.pass_time(2)
    rig.switch.calls.clear()
    rig.queue()
    rig.queue()
    await rig.pass_time(10)
    assert rig.switch.calls == [("b", "wake")]


async def test_the_price_that_keeps_a_host_asleep_is_told(lab: Lab) -> None:
    lab.settings = LabSettings(elastic_price=3.5)
    rig = Rig(lab, {"a": LIMITS, "b": LIMITS})
    for name in "ab":
        change(rig.desk, name, price_per_hour=3.0)
    await rig.pass_time(2)
    for name in "ab":
        show(rig.desk, name, HostState.DOWN)
    await rig.pass_time(2)
    rig.switch.calls.clear()
    rig.switch.slow = True
    first, second = rig.queue(), rig.queue()
    await rig.pass_time(6)
    assert rig.switch.calls == [("a", "wake")]
    assert rig.why(first).reason.startswith("Waking a: 2m00s typically.")
    waits = rig.why(second).reason
    reported = "b sleeps; were it awake, this job could start. It would cost more in an hour than"
    assert waits.startswith(reported)
    rig.desk.journal.save(second, replace(second, state=JobState.CANCELLED))
    await rig.pass_time(4)
    assert rig.notes.all()["b"].wanted == ()


async def test_the_limit_that_keeps_a_host_asleep_is_told_until_it_is_woken(rig: Rig) -> None:
    rig.switch.fault = "no route"
    job = rig.queue()
    await rig.pass_time(4)
    assert rig.switch.calls == [("a", "wake")]
    why = rig.why(job)
    assert why.reason.startswith("a sleeps; were it awake, this job could start. It did not wake;")
    rig.switch.fault = ""
    rig.switch.slow = True
    await rig.pass_time(70)
    assert rig.why(job).reason.startswith("Waking a: ")


async def test_both_the_limit_and_the_price_are_told(lab: Lab) -> None:
    lab.settings = LabSettings(elastic_price=1.0)
    rig = Rig(lab, {"a": replace(LIMITS, wakes_per_hour=1)})
    change(rig.desk, "a", price_per_hour=3.0)
    await rig.pass_time(2)
    show(rig.desk, "a", HostState.DOWN)
    rig.notes.keep("a", replace(rig.notes.all()["a"], wakes=(rig.lab.clock.now(),)))
    await rig.pass_time(2)
    job = rig.queue()
    await rig.pass_time(4)
    reason = rig.why(job).reason
    assert "this job could start. It was woken once within an hour, its limit;" in reason
    assert "It would cost more in an hour than `elastic_price` leaves." in reason
    show(rig.desk, "a", HostState.UP)
    assert "sleeps" not in rig.why(job).reason, "it has come up by itself"


async def test_a_host_that_was_not_tried_is_not_called_too_dear(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking_rules, "MOST_TRIED", 1)
    rig = Rig(lab, {"a": LIMITS, "b": LIMITS})
    await rig.pass_time(2)
    for name in "ab":
        show(rig.desk, name, HostState.DOWN)
    await rig.pass_time(2)
    rig.switch.slow = True
    rig.queue()
    rig.queue()
    rig.lab.clock.time += 2.0
    rig.waking.look()
    await rig.settle()
    assert [past.phase for past in rig.notes.all().values()] == ["waking", "asleep"]
    assert rig.notes.all()["b"].wanted == ()


async def test_another_console_goes_on_where_this_one_ended(rig: Rig, lab: Lab) -> None:
    rig.switch.slow = True
    rig.queue()
    await rig.pass_time(4)
    heir = FleetView(rig.desk.hosts, (power_overlay(rig.switch.hosts, ElasticNotes(lab.state)),))
    found = heir.snapshot().host("a")
    assert found is not None
    assert found.power == "waking"


async def test_a_spoilt_note_is_no_trouble(rig: Rig, lab: Lab) -> None:
    for spoilt in ("", "[", "[1]", '{"a": {"phase": 7}}', '{"a": {"devices": [{}]}}'):
        (lab.state / "elastic.json").write_text(spoilt)
        assert rig.host("a").state is HostState.DOWN
        await rig.pass_time(4)
        assert rig.host("a").power == "asleep"
