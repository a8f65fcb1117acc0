"""Hosts that cannot start jobs: no job is lost to them, and they are left alone for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.devices.host_faults import PAUSES_S, FaultStreak, pause_s
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import Blame, EngineError, RefusedError
from gpuconsole.session.dispatch.attempt.launch import PULL_PAUSES_S
from gpuconsole.session.fleet.host_faults import (
    FORGET_S,
    PATIENCE_S,
    TRIES,
    HostFaults,
    next_streak,
    verdict,
)
from gpuconsole.session.logs.follow import log_file
from gpuconsole.session.queue.forecast import Change, Foresight
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.planner import Situation
from gpuconsole.session.queue.why import why_of
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import START, Container, FakeEngine, VirtualClock

HOOK = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed:"
    " runc create failed: unable to start container process: error during container init: error"
    " running hook #0: error running hook: exit status 1, stdout: , stderr: Auto-detected mode as"
    " 'legacy' nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
)
FULL = "mkdir /var/lib/docker/overlay2/1a-init: no space left on device"
NO_REGISTRY = 'Get "https://reg.lab/v2/": dial tcp: lookup reg.lab on 10.0.0.1:53: no such host'
NO_FOLDER = 'invalid mount config for type "bind": bind source path does not exist: /data'


def made_of(state: Path, *hosts: str, devices: int = 1) -> Lab:
    lab = make_lab(state, hosts=hosts, devices=devices)
    lab.settings = LabSettings(set_aside_after=3)
    lab.planner = Placer(lab.settings)
    return lab


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Lab]:
    made = made_of(tmp_path / "state", "a", "b")
    yield made
    await made.close()


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Lab]:
    made = made_of(tmp_path / "state", "a")
    yield made
    await made.close()


def short(lab: Lab) -> None:
    """Let every job end well as soon as it has started."""
    for docker in lab.dockers.values():

        def end(container: Container, docker=docker) -> None:  # type: ignore[no-untyped-def]
            docker.end(container, 0)

        docker.on_start = end


def aside(desk: Desk, host: str = "a") -> FaultStreak | None:
    found = desk.context.hosts.snapshot().host(host)
    assert found is not None
    return found.aside


BROKEN = {
    "claim": FULL,
    "inspect": "Internal Server Error: containerd is not running",
    "prepare": FULL,
    "create": FULL,
    "put": FULL,
    "start": HOOK,
}


@pytest.mark.parametrize("point", BROKEN)
async def test_a_job_that_a_host_cannot_start_goes_elsewhere_and_keeps_its_place(
    two: Lab, point: str
) -> None:
    if point == "start":
        two.dockers["a"].start_fails = BROKEN[point]
    else:
        two.dockers["a"].refuses = {point: BROKEN[point]}
    desk = two.desk()
    job_id = two.submit(desk)
    before = desk.job(job_id)
    desk.start()
    await two.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING, within=10)
    job = desk.job(job_id)
    assert [(each.number, each.host, each.at_fault) for each in job.attempts] == [
        (1, "a", "a"),
        (2, "b", ""),
    ]
    first = job.attempts[0]
    assert first.ended_by == "host-fault"
    assert first.ended_at is not None
    assert BROKEN[point][:40] in first.cause
    assert job.queued_at == before.queued_at, "its place in the queue is its own still"
    await two.clock.until(lambda: not two.dockers["a"].leases)
    assert two.dockers["a"].starts == 0
    assert two.dockers["b"].starts == 1
    if point != "inspect":
        await two.clock.until(lambda: not two.dockers["a"].containers)


async def test_a_sweep_is_not_lost_to_a_broken_host(two: Lab) -> None:
    short(two)
    broken = two.dockers["a"]
    broken.start_fails = HOOK
    desk = two.desk()
    jobs = [two.submit(desk, f"train-{number}") for number in range(8)]
    number = desk.journal.last_event()
    desk.start()
    await two.clock.until(lambda: all(desk.job(job).state.ended for job in jobs), within=60)
    assert {desk.job(job).state for job in jobs} == {JobState.SUCCEEDED}
    assert broken.starts == 0
    assert two.dockers["b"].starts == len(jobs)
    tried = [job for job in jobs if any(one.at_fault for one in desk.job(job).attempts)]
    assert len(tried) == 3, "as many as set it aside, and no more"
    streak = aside(desk)
    assert streak is not None
    assert (streak.count, streak.closed, streak.title) == (3, True, "The GPU runtime failed")
    assert "nvml error: driver not loaded" in streak.message
    reported = [event.message for _, event in desk.journal.events_after(number)]
    assert [one for one in reported if one.startswith("a: set aside until ")]


async def test_a_host_that_is_repaired_comes_back_with_one_trial(tmp_path: Path) -> None:
    lab = made_of(tmp_path / "state", "a", devices=4)
    docker = lab.dockers["a"]
    docker.start_fails = HOOK
    desk = lab.desk()
    jobs = [lab.submit(desk, f"train-{number}") for number in range(4)]
    desk.start()
    await lab.clock.until(lambda: aside(desk) is not None)
    tries = len(docker.history)
    # The trial fails: one job was let through, and the next pause is longer.
    assert tries == 4, "all were on their way when the third fault set it aside"
    await lab.clock.until(lambda: len(docker.history) > tries, within=PAUSES_S[0] + 5)
    await lab.clock.pass_time(5)
    assert len(docker.history) == tries + 1
    streak = aside(desk)
    assert streak is not None
    assert streak.closed
    assert (streak.pauses, streak.until - streak.last_at) == (2, PAUSES_S[1])
    docker.start_fails = ""

    def slowly(_: Container) -> None:
        assert len([one for one in docker.history if one.state == "running"]) == 1

    docker.on_start = slowly
    await lab.clock.until(lambda: docker.running, within=400)
    docker.on_start = lambda container: None
    await lab.clock.until(lambda: docker.starts == 4, within=60)
    assert aside(desk) is None
    assert {desk.job(job).state for job in jobs} == {JobState.RUNNING}
    assert max(container.starts for container in docker.history) == 1
    await lab.close()


async def test_a_dispatcher_that_takes_over_knows_who_is_set_aside(two: Lab) -> None:
    short(two)
    two.dockers["a"].start_fails = HOOK
    desk = two.desk()
    first = [two.submit(desk, f"train-{number}") for number in range(6)]
    desk.start()
    await two.clock.until(lambda: all(desk.job(job).state.ended for job in first), within=60)
    await desk.kill()
    tries = len(two.dockers["a"].history)
    heir = two.desk()
    more = [two.submit(heir, f"more-{number}") for number in range(3)]
    heir.start()
    await two.clock.until(lambda: all(heir.job(job).state.ended for job in more), within=60)
    assert len(two.dockers["a"].history) == tries


async def test_a_person_ends_a_pause(one: Lab) -> None:
    one.docker.start_fails = HOOK
    desk = one.desk()
    jobs = [one.submit(desk, f"train-{number}") for number in range(3)]
    desk.start()
    await one.clock.until(lambda: aside(desk) is not None)
    one.docker.start_fails = ""
    await desk.drains.undrain("a")
    assert aside(desk) is None
    await one.clock.until(lambda: one.docker.running, within=pause_s(1) + 5)
    assert any(desk.job(job).state is JobState.RUNNING for job in jobs)


async def test_a_fault_that_follows_a_job_fails_it_with_the_hosts(two: Lab) -> None:
    for docker in two.dockers.values():
        docker.start_fails = HOOK
    desk = two.desk()
    job_id = two.submit(desk)
    desk.start()
    await two.clock.until(lambda: desk.job(job_id).state.ended)
    job = desk.job(job_id)
    assert job.state is JobState.FAILED
    assert job.cause.startswith("No host could start it. a: The GPU runtime failed")
    assert " b: The GPU runtime failed" in job.cause
    assert [one.at_fault for one in job.attempts] == ["a", "b"]


async def test_where_no_job_can_start_they_wait_and_none_fails(two: Lab) -> None:
    for docker in two.dockers.values():
        docker.start_fails = HOOK
    desk = two.desk()
    jobs = [two.submit(desk, f"train-{number}") for number in range(6)]
    desk.start()
    await two.clock.pass_time(3600)
    assert {desk.job(job).state for job in jobs} == {JobState.QUEUED}
    tries = sum(len(docker.history) for docker in two.dockers.values())
    assert tries < 25, "with pauses, not in a circle"
    short(two)
    for docker in two.dockers.values():
        docker.start_fails = ""
    await two.clock.until(lambda: all(desk.job(job).state.ended for job in jobs), within=4000)
    assert {desk.job(job).state for job in jobs} == {JobState.SUCCEEDED}


async def test_jobs_that_start_nowhere_do_not_keep_the_others_from_starting(
    two: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep of an image that no engine can start, by words that no rule knows, comes first."""
    start = FakeEngine.start

    async def refused(self: FakeEngine, container: str) -> None:
        found = self._docker.find(container)
        assert found is not None
        self._docker.start_fails = "unable to apply caps" if found.spec.image == "bad" else ""
        await start(self, container)

    monkeypatch.setattr(FakeEngine, "start", refused)
    short(two)
    for docker in two.dockers.values():
        docker.images.add("bad")
    desk = two.desk()
    bad = Task("bad", script="/p/train.py", project="/p", image="bad")
    for _ in range(8):
        two.submit(desk, task=bad)
    desk.start()
    await two.clock.until(lambda: aside(desk, "a") is not None and aside(desk, "b") is not None)
    good = [two.submit(desk, f"good-{number}") for number in range(3)]
    await two.clock.until(lambda: all(desk.job(job).state.ended for job in good))
    assert {desk.job(job).state for job in good} == {JobState.SUCCEEDED}


async def test_faults_far_apart_are_not_in_a_row(one: Lab) -> None:
    desk = one.desk()
    epoch = desk.journal.take_role("me")
    assert epoch is not None
    faults = HostFaults(desk.context, lambda job: ("a",))
    for pause, count in ((0.0, 1), (60.0, 2), (FORGET_S, 1), (60.0, 2), (60.0, 3), (FORGET_S, 4)):
        one.clock.time += pause
        faults.note(epoch, faulty("a", at=one.clock.now()), "a", EngineError("t", "m"))
        streak = desk.journal.streaks()["a", ""]
        assert (streak.count, streak.set_aside) == (count, count >= 3)


async def test_on_the_only_host_a_job_waits_and_says_why(one: Lab) -> None:
    one.docker.refuses = {"claim": FULL}
    desk = one.desk()
    job_id = one.submit(desk)
    desk.start()
    await one.clock.pass_time(600)
    job = desk.job(job_id)
    assert job.state is JobState.QUEUED
    assert len(job.attempts) < 10
    reason = desk.outlook.plan.waiting[job_id].reason
    assert "set aside until" in reason
    assert "The host's disk is full" in reason
    one.docker.refuses = {}
    await one.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING, within=2000)


async def test_why_names_the_hosts_that_could_not_start_it(two: Lab) -> None:
    two.dockers["a"].start_fails = two.dockers["b"].start_fails = HOOK
    desk = two.desk()
    jobs = [two.submit(desk, f"train-{number}") for number in range(3)]
    desk.start()

    def why(job_id: str) -> str:
        job, now = desk.job(job_id), two.clock.now()
        placer = Placer(two.settings)
        (prospect,) = placer.prospects([job], desk.journal.jobs(), desk.fleet.snapshot(), now)
        waiting = desk.outlook.plan.waiting
        return why_of(job, waiting, prospect=prospect, now=now).reason

    await two.clock.until(
        lambda: any({one.at_fault for one in desk.job(job).attempts} == {"a", "b"} for job in jobs)
    )
    await two.clock.pass_time(2)
    job_id = next(
        job for job in jobs if {one.at_fault for one in desk.job(job).attempts} == {"a", "b"}
    )
    assert desk.job(job_id).state is JobState.QUEUED
    reason = why(job_id)
    for host in ("a", "b"):
        assert f"It could not start on {host} (The GPU runtime failed: {host}, while" in reason
    assert reason.count("It could not start on") == 2


async def test_a_forecast_waits_for_the_end_of_a_pause(one: Lab) -> None:
    one.docker.start_fails = HOOK
    desk = one.desk()
    jobs = [one.submit(desk, f"train-{number}") for number in range(2)]
    desk.start()
    await one.clock.until(lambda: aside(desk) is not None, within=120)
    await one.clock.until(lambda: all(desk.job(job).state is JobState.QUEUED for job in jobs))
    placer = Placer(one.settings)
    foresight = Foresight(desk.context, placer, desk.leases)
    known = await foresight.renew()
    streak = aside(desk)
    assert streak is not None
    first, second = sorted(known[job].starts_at for job in jobs)
    assert first == pytest.approx(streak.until, abs=1)
    assert second > first, "the first one holds the device then"
    gone = await foresight.what_if(Change("drain", "a"))
    assert gone.untold_after == 2, "what if a person drains it: no pause ends that"
    rejected = placer.decide(
        desk.job(jobs[0]).task, None, Situation([], desk.context.hosts.snapshot(), one.clock.now())
    )
    (refused,) = rejected.rejections
    assert refused.filter == "aside"
    assert "set aside until" in refused.reason
    assert rejected.waiting is not None
    assert rejected.waiting.estimated_start == streak.until


async def test_a_person_s_drain_goes_before_a_pause(tmp_path: Path) -> None:
    lab = made_of(tmp_path / "state", "a", "b")
    desk = lab.desk()
    epoch = desk.journal.take_role("me")
    assert epoch is not None
    now = lab.clock.now()
    faulty_a = FaultStreak("a", count=3, until=now + 30, title="No GPU runtime", pauses=1)
    desk.journal.save_streak(faulty_a, "a: set aside", epoch=epoch)
    plain = desk.hosts.snapshot()
    seen = desk.fleet.snapshot()
    assert seen.revision > plain.revision
    assert seen.hosts[0].drained.startswith("set aside until ")
    assert seen.hosts[1] is plain.hosts[1]
    assert desk.fleet.snapshot() is seen
    await desk.drains.drain("a", "new fans", "ada")
    assert desk.fleet.snapshot().hosts[0].drained == "drained by ada: new fans"
    assert desk.fleet.snapshot().hosts[0].aside is None
    await desk.drains.undrain("a")
    assert desk.fleet.snapshot().hosts[0].faults == ()
    # The pause ends with time alone; then a trial is waited for.
    desk.journal.save_streak(faulty_a, epoch=epoch)
    lab.clock.time += 31
    half_open = desk.fleet.snapshot().hosts[0]
    assert (half_open.drained, half_open.aside is not None) == ("", True)
    desk.journal.end_streak("a", "", epoch=epoch)
    assert desk.fleet.snapshot().hosts[0].faults == ()
    with pytest.raises(RefusedError, match="takes jobs"):
        await desk.drains.undrain("a")
    desk.journal.close()


async def test_what_a_task_asks_of_the_only_host_in_vain_fails_it(one: Lab) -> None:
    one.docker.refuses = {"create": NO_FOLDER}
    desk = one.desk()
    job_id = one.submit(desk)
    desk.start()
    await one.clock.until(lambda: desk.job(job_id).state.ended, within=10)
    assert desk.job(job_id).state is JobState.FAILED
    assert "bind source path does not exist: /data" in desk.job(job_id).cause
    assert aside(desk) is None
    assert not desk.journal.streaks()


async def test_a_registry_that_is_out_of_reach_sets_aside_its_image_alone(one: Lab) -> None:
    one.docker.registry = NO_REGISTRY
    short(one)
    desk = one.desk()
    task = Task("far", script="/p/train.py", image="reg.lab/far:1")
    far = one.submit(desk, task=task)
    desk.start()
    await one.clock.until(lambda: "trying again in" in desk.job(far).detail)
    assert "no such host" in desk.job(far).detail
    await one.clock.until(lambda: desk.job(far).state is JobState.QUEUED, within=90)
    assert one.docker.pulls == len(PULL_PAUSES_S) + 1
    assert set(desk.journal.streaks()) == {("a", "reg.lab/far:1")}
    near = one.submit(desk)
    await one.clock.until(lambda: desk.job(near).state is JobState.SUCCEEDED, within=10)
    one.docker.images.add("reg.lab/far:1")
    await one.clock.until(lambda: desk.job(far).state is JobState.SUCCEEDED, within=200)
    assert not desk.journal.streaks()


async def test_a_gang_that_one_host_cannot_start_is_tried_again(tmp_path: Path) -> None:
    lab = made_of(tmp_path / "state", "a", "b", "c")
    lab.settings = LabSettings(gang_network="host")
    lab.dockers["b"].start_fails = HOOK

    def say(container: Container) -> None:
        container.log += b"rank 0 waits\n"

    lab.dockers["a"].on_start = say
    desk = lab.desk()
    gang = Task("train", script="/p/train.py", project="/p", devices=2, hosts=2)
    job_id = lab.submit(desk, task=gang)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING, within=60)
    first, second = desk.job(job_id).attempts
    assert (first.ended_by, first.at_fault) == ("gang", "b")
    assert [part.host for part in second.parts] == ["a", "c"]
    await lab.clock.until(lambda: not lab.dockers["b"].containers)
    await lab.clock.until(lambda: len(lab.dockers["a"].containers) == 1)
    assert log_file(lab.state, job_id, 1).read_bytes() == b"rank 0 waits\n", "of what had started"
    await lab.close()


@pytest.mark.parametrize("dies_at", range(0, 60, 3))
async def test_a_console_that_dies_in_the_middle_costs_the_job_nothing(
    two: Lab, dies_at: int
) -> None:
    two.dockers["a"].start_fails = HOOK
    desk = two.desk(dies_at=dies_at)
    job_id = two.submit(two.desk())
    desk.start()
    await two.clock.pass_time(30)
    await desk.kill()
    heir = two.desk()
    heir.start()
    await two.clock.until(lambda: heir.job(job_id).state is JobState.RUNNING, within=200)
    assert two.dockers["a"].starts == 0
    assert two.dockers["b"].starts == 1


# -- pure ------------------------------------------------------------------------------------------


def faulty(*hosts: str, at: float = START) -> Job:
    attempts = tuple(
        Attempt(
            number=number,
            host=host,
            ended_at=at + number,
            ended_by="host-fault",
            at_fault=host,
            cause="The GPU runtime failed: it did",
        )
        for number, host in enumerate(hosts, start=1)
    )
    return Job("j", Task("t"), "ada", JobState.LAUNCHING, START, attempts=attempts)


IMAGES = dict.fromkeys("abcd", "img")


def test_three_hosts_are_enough_and_excused_ones_do_not_count() -> None:
    now = START + 10

    def said(job: Job, **streaks: FaultStreak) -> str:
        known = {(one.host, one.image): one for one in streaks.values()}
        return verdict(job, Blame.HOST, known, IMAGES, frozenset("abcd"), now)

    assert said(faulty("a", "b")) == ""
    assert said(faulty("a", "b", "a")) == ""
    assert said(faulty("a", "b", "c")).startswith("No host could start it. a: ")
    others = FaultStreak("a", count=2, jobs=("j", "k"))
    assert said(faulty("a", "b", "c"), a=others) == ""
    assert said(faulty("a", "b", "c"), a=replace(others, jobs=("j",)))
    assert said(faulty("a", "b", "c"), a=FaultStreak("a", "img", jobs=("j",))) == ""
    # What was before a retry does not count.
    assert said(replace(faulty("a", "b", "c"), queued_at=START + 2.5)) == ""


def test_patience_ends_after_many_tries_over_a_long_time() -> None:
    job = faulty(*["a"] * TRIES)
    only, late = frozenset("a"), START + 1 + PATIENCE_S
    assert verdict(job, Blame.HOST, {}, IMAGES, only, late - 10) == ""
    assert verdict(job, Blame.HOST, {}, IMAGES, only, late) != ""
    assert verdict(faulty("a"), Blame.HOST, {}, IMAGES, only, late) == ""
    assert verdict(faulty("a"), Blame.PLACE, {}, IMAGES, only, START) != ""


def test_pauses_grow_to_half_an_hour() -> None:
    assert [pause_s(number) for number in range(8)] == [
        *(30.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 1800.0)
    ]


def test_a_streak_counts_jobs_once_and_cleans_what_it_quotes() -> None:
    streak = FaultStreak("a", since=1.0)
    for number, job in enumerate(["x", "y", "x"]):
        error = EngineError("Docker refused", f"a: \x1b[31mno {number}", "look")
        streak = next_streak(replace(streak, trial="x"), job, error, 10.0 + number)
    assert (streak.count, streak.jobs, streak.since, streak.last_at) == (3, ("y", "x"), 1.0, 12.0)
    assert (streak.message, streak.trial) == ("a: no 2", "")


def test_words_name_the_end_of_the_pause_or_the_trial() -> None:
    clock = VirtualClock()
    streak = FaultStreak("a", count=3, until=clock.now() + 30, title="No GPU runtime", trial="j7")
    assert streak.words(clock.now()).startswith("set aside until ")
    assert "j7" in streak.words(clock.now() + 31)
