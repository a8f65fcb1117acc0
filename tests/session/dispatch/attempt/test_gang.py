"""Jobs over two hosts: all or nothing, one end for all, whatever happens in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Lease
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import UsageError
from gpuconsole.placement.launch_command import meeting_port
from gpuconsole.session.dispatch.attempt.container_spec import attempt_key, require_gang_network
from gpuconsole.session.export.render import rendered
from gpuconsole.session.logs.follow import log_file
from gpuconsole.session.queue.commands import retry
from gpuconsole.state import Journal
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import Container, Docker

GANG = Task("train", script="/p/train.py", project="/p", devices=2, hosts=2)
ALLOWED = LabSettings(gang_network="host")


def gang_lab(state: Path) -> Lab:
    lab = make_lab(state, hosts=("a", "b"))
    lab.settings = ALLOWED
    return lab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    made = gang_lab(tmp_path / "state")
    yield made
    await made.close()


async def running(lab: Lab, desk: Desk, task: Task = GANG) -> str:
    """Return a gang that runs on both hosts."""
    job_id = lab.submit(desk, task=task)
    if desk.task is None:
        desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    return job_id


def nothing_left(lab: Lab) -> bool:
    return not any(docker.containers or docker.leases for docker in lab.dockers.values())


async def test_a_gang_is_started_on_both_hosts_and_ends_as_one(lab: Lab) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    one, two = lab.dockers["a"].only(), lab.dockers["b"].only()
    assert [part.container_id for part in attempt.parts] == [one.id, two.id]
    assert set(lab.dockers["a"].leases) == {"GPU-a-0"}
    assert set(lab.dockers["b"].leases) == {"GPU-b-0"}
    master = f"10.0.0.97:{meeting_port(attempt_key(job_id, 1), ())}"
    for rank, container in enumerate((one, two)):
        command = " ".join(container.spec.command)
        assert f"--master {master} --nnodes 2 --rank {rank} --host 10.0.0.{97 + rank}" in command
        assert container.spec.network == "host"
        assert container.spec.env["NCCL_SOCKET_IFNAME"] == "eth0"
        assert container.bundles == [b"the code"]

    lab.dockers["b"].finish(0, b"two\n")
    await lab.clock.pass_time(60)
    assert desk.job(job_id).state is JobState.RUNNING, "one that ended well waits for the other"
    lab.dockers["a"].finish(0, b"one\n")
    await lab.clock.until(lambda: desk.job(job_id).state.ended and nothing_left(lab))
    job = desk.job(job_id)
    assert (job.state, job.cause) == (JobState.SUCCEEDED, "")
    assert log_file(lab.state, job_id, 1).read_bytes() == b"one\n"
    assert log_file(lab.state, job_id, 1, rank=1).read_bytes() == b"two\n"
    assert job.as_json()["hosts"] == ["a", "b"]
    assert job.as_json()["devices"] == ["GPU-a-0", "GPU-b-0"]


async def test_a_device_taken_on_one_host_gives_all_back(lab: Lab) -> None:
    theirs = Lease("GPU-b-0", "other", "other-1", "bob", "bob's journal", 1.0)
    lab.dockers["b"].leases["GPU-b-0"] = theirs
    desk = lab.desk()
    job_id = lab.submit(desk, task=GANG)
    desk.start()
    await lab.clock.until(lambda: "bob" in desk.job(job_id).detail)
    assert desk.job(job_id).state is JobState.QUEUED
    assert not lab.dockers["a"].leases
    await lab.clock.pass_time(40)
    assert not lab.dockers["a"].history
    assert not lab.dockers["b"].history
    assert lab.dockers["b"].leases == {"GPU-b-0": theirs}

    del lab.dockers["b"].leases["GPU-b-0"]
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)


async def test_a_port_that_is_taken_is_passed_over(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk, task=GANG)
    port = meeting_port(attempt_key(job_id, 1), ())
    lab.dockers["a"].busy_ports = frozenset({port})
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    free = meeting_port(attempt_key(job_id, 1), {port})
    assert free != port
    for docker in lab.dockers.values():
        assert f"10.0.0.97:{free}" in docker.only().spec.command


@pytest.mark.parametrize("first", ["a", "b"])
async def test_when_one_part_fails_the_other_is_stopped_and_the_first_is_named(
    lab: Lab, first: str
) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    lab.dockers[first].finish(1, b"ValueError: no\n")
    await lab.clock.until(lambda: desk.job(job_id).state.ended and nothing_left(lab))
    job = desk.job(job_id)
    rank = "ab".index(first)
    assert job.state is JobState.FAILED
    assert job.cause == f"{first} (rank {rank}) ended first. Exit code 1. ValueError: no"
    assert job.attempt is not None
    assert job.attempt.exit_code == 1
    codes = {part.host: part.exit_code for part in job.attempt.parts[1:]}
    assert codes == {"b": 1 if first == "b" else 143}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (250, b"terminate called: 'gloo::TimeoutException'\n"),
        (
            1,
            b"RuntimeError: [/paddle/third_party/gloo/gloo/transport/tcp/pair.cc:584] "
            b"TIMEOUT self_rank = 0 pair_rank = 1 peer_str = [10.0.0.98]:40612\n",
        ),
    ],
)
async def test_who_speaks_of_a_lost_peer_did_not_fail_first(
    lab: Lab, code: int, words: bytes
) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    # A launcher looks at its processes now and then: the cause may end after its effect.
    lab.dockers["a"].finish(code, words)
    lab.clock.time += 1.0
    lab.dockers["b"].finish(1, b"KeyError: 'mask'\n")
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).cause == "b (rank 1) ended first. Exit code 1. KeyError: 'mask'"


async def test_a_part_that_was_stopped_after_its_own_error_failed_first(lab: Lab) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    # Its process has failed, its launcher has not looked yet and is stopped with the rest.
    lab.dockers["b"].write(b"Traceback (most recent call last):\nKeyError: 'mask'\n")
    lab.dockers["a"].finish(1, b"RuntimeError: Connection closed by peer [10.0.0.98]\n")
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).cause.startswith("b (rank 1) ended first. ")


async def test_a_host_that_cannot_start_its_part_ends_all(lab: Lab) -> None:
    lab.dockers["b"].start_fails = "unknown device GPU-b-0"
    desk = lab.desk()
    job_id = lab.submit(desk, task=GANG)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state.ended and nothing_left(lab))
    assert desk.job(job_id).state is JobState.FAILED
    assert "unknown device GPU-b-0" in desk.job(job_id).cause
    assert "b (rank 1)" in desk.job(job_id).cause


async def test_a_gang_with_a_host_out_of_sight_is_unknown_and_comes_back(lab: Lab) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    lab.dockers["b"].reachable = False
    lab.dockers["b"].notify()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    await lab.clock.pass_time(600)
    assert lab.dockers["a"].running, "nothing is done to the rest while one may run on"
    lab.dockers["b"].reachable = True
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    for docker in lab.dockers.values():
        docker.finish(0)
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.SUCCEEDED)
    assert [docker.starts for docker in lab.dockers.values()] == [1, 1]


@pytest.mark.parametrize("wanted", ["retry", "cancel"])
async def test_a_host_that_left_the_inventory_is_left_behind(lab: Lab, wanted: str) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    both = desk.hosts.snapshots
    lab.dockers["b"].reachable = False
    lab.dockers["b"].notify()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    desk.hosts.snapshots = replace(both, revision=50, hosts=both.hosts[:1])
    await lab.clock.pass_time(60)
    assert lab.dockers["a"].running, "nobody has said that it is wanted elsewhere"
    job = desk.job(job_id)
    if wanted == "cancel":
        desk.journal.save(job, replace(job, cancel_requested=True))
        await lab.clock.until(lambda: desk.job(job_id).state.ended)
        assert desk.job(job_id).cause == "Cancelled; b was taken out of the inventory."
    else:
        retry(desk.journal, job, desk.context.bundle(job_id), lab.clock.now(), ("a",))
        await lab.clock.until(lambda: desk.job(job_id).state is JobState.QUEUED)
        assert desk.job(job_id).detail == "b was taken out of the inventory."
    await lab.clock.until(lambda: not lab.dockers["a"].containers)
    assert not lab.dockers["a"].leases


async def test_a_part_that_cannot_be_started_and_says_no_more_ends_all(lab: Lab) -> None:
    lab.dockers["b"].start_breaks = True
    desk = lab.desk()
    job_id = lab.submit(desk, task=GANG)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state.ended and nothing_left(lab))
    assert desk.job(job_id).state is JobState.FAILED
    assert "Container cannot start" in desk.job(job_id).cause


async def test_cancelling_stops_what_can_be_reached_at_once(lab: Lab) -> None:
    desk = lab.desk()
    job_id = await running(lab, desk)
    lab.dockers["b"].reachable = False
    lab.dockers["b"].notify()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    job = desk.job(job_id)
    desk.journal.save(job, replace(job, cancel_requested=True))
    await lab.clock.until(lambda: not lab.dockers["a"].running)
    assert desk.job(job_id).state is JobState.UNKNOWN
    lab.dockers["b"].reachable = True
    await lab.clock.until(lambda: desk.job(job_id).state.ended and nothing_left(lab))
    assert desk.job(job_id).state is JobState.CANCELLED


@pytest.mark.parametrize("lost_at", ["claim", "prepare", "create", "put", "put done"])
async def test_a_host_lost_before_the_start_takes_nothing_with_it(lab: Lab, lost_at: str) -> None:
    desk = lab.desk()
    gone = lab.dockers["b"]

    def lose(docker: Docker, point: str) -> None:
        if point == lost_at and docker is gone:
            gone.reachable = False

    desk.hosts.listen(lose)
    job_id = lab.submit(desk, task=GANG)
    desk.start()
    await lab.clock.until(lambda: "out of sight before" in desk.job(job_id).detail)
    assert desk.job(job_id).state is JobState.QUEUED
    assert not lab.dockers["a"].containers
    assert not lab.dockers["a"].leases
    desk.hosts.forget()
    gone.reachable = True
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    assert [docker.starts for docker in lab.dockers.values()] == [1, 1]


async def test_a_line_for_each_host_is_shown_before_and_after_the_start(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk, task=GANG)
    lines = rendered(desk.context, desk.job(job_id), "docker").splitlines()
    assert lines[::2] == ["# a (rank 0)", "# b (rank 1)"]
    assert "--nnodes 2 --rank 1 --host b" in lines[3]
    assert "--network host" in lines[1]
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lines = rendered(desk.context, desk.job(job_id), "docker").splitlines()
    assert lines[::2] == ["# a (rank 0)", "# b (rank 1)"]
    assert "--nnodes 2 --rank 1 --host 10.0.0.98" in lines[3]
    three = replace(GANG, devices=6, hosts=3)
    unplaced = replace(desk.job(job_id), id="other", task=three, attempts=())
    lines = rendered(desk.context, unplaced, "docker").splitlines()
    assert lines[::2] == ["# a (rank 0)", "# b (rank 1)", "# host-3 (rank 2)"]
    assert "--devices 0,1 train.py" in lines[1]


def test_several_hosts_need_the_labs_word() -> None:
    require_gang_network(GANG, ALLOWED)
    require_gang_network(replace(GANG, hosts=1), LabSettings())
    with pytest.raises(UsageError) as refused:
        require_gang_network(GANG, LabSettings())
    assert "gang_network: host" in refused.value.hint
    with pytest.raises(UsageError, match="network: none"):
        require_gang_network(replace(GANG, network="none"), ALLOWED)


async def test_a_lab_that_took_its_word_back_starts_none(lab: Lab) -> None:
    lab.settings = LabSettings()
    desk = lab.desk()
    job_id = lab.submit(desk, task=GANG)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert "keeps containers out of the hosts' network" in desk.job(job_id).cause
    assert nothing_left(lab)


Ending = Callable[[Lab, Desk, str], None]


def runs_well(lab: Lab, desk: Desk, job_id: str) -> None:
    if desk.job(job_id).state is JobState.RUNNING:
        for docker in lab.dockers.values():
            if docker.running:
                docker.finish(0)


def runs_badly(lab: Lab, desk: Desk, job_id: str) -> None:
    if desk.job(job_id).state is JobState.RUNNING and lab.dockers["b"].running:
        lab.dockers["b"].finish(1)


def is_cancelled(lab: Lab, desk: Desk, job_id: str) -> None:
    job = desk.job(job_id)
    if job.state is JobState.RUNNING and not job.cancel_requested:
        Journal.save(desk.journal, job, replace(job, cancel_requested=True))


async def run_with_a_death(state: Path, ending: Ending, dies_at: int | None) -> Job:
    """Run a gang on a console that dies at a point, then on its heir; the job as it ended.

    Checks that each part ran once at most, that all did or none, and that nothing is left.
    """
    lab = gang_lab(state)

    def prints(container: Container) -> None:
        container.log = b"all of it\n"

    for docker in lab.dockers.values():
        docker.on_start = prints
    desk = lab.desk(dies_at=dies_at)
    job_id = lab.submit(desk, task=GANG)

    began = 0

    def over() -> bool:
        nonlocal began
        if desk.console.dead:
            return True
        if not began and desk.job(job_id).state is JobState.RUNNING:
            began = desk.console.points
        ending(lab, desk, job_id)
        return desk.job(job_id).state.ended and nothing_left(lab)

    desk.start()
    await lab.clock.until(over)
    if desk.console.dead:
        await desk.kill()
        desk = lab.desk()
        desk.start()
        await lab.clock.until(over)
    job = desk.job(job_id)
    where = f"{ending.__name__}, died at {dies_at}: {lab.desks[0].console.calls[-1]}"
    assert [docker.starts for docker in lab.dockers.values()] == [1, 1], where
    for docker in lab.dockers.values():
        masters = {one.spec.command[4] for one in docker.history if one.starts}
        assert masters == {lab.dockers["a"].history[-1].spec.command[4]}, where
    assert len(job.attempts) == 1, where
    for rank in (0, 1):
        assert log_file(state, job_id, 1, rank).read_bytes() == b"all of it\n", where
    await lab.close()
    return replace(job, detail=f"{began} {lab.desks[0].console.points}")


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (runs_well, JobState.SUCCEEDED),
        (runs_badly, JobState.FAILED),
        (is_cancelled, JobState.CANCELLED),
    ],
)
async def test_a_console_killed_at_any_point_starts_each_part_once(
    tmp_path: Path, ending: Ending, state: JobState
) -> None:
    alive = await run_with_a_death(tmp_path / "alive", ending, None)
    assert alive.state is state
    began, points = map(int, alive.detail.split())
    assert began > 30
    assert points > 60
    # Until it runs, what dies is the same whatever comes then.
    for point in range(0 if ending is runs_well else began, points):
        job = await run_with_a_death(tmp_path / str(point), ending, point)
        assert job.state is state, (point, job.cause)
