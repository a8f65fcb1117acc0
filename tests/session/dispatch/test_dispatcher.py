"""Jobs run to their ends, whatever happens to consoles, hosts and engines meanwhile."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.containers import ContainerSpec, Lease, LogTail
from gpuconsole.core.engines.device_requests import DEVICES_LABEL
from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.errors import LeaseTakenError
from gpuconsole.session.dispatch import dispatcher
from gpuconsole.session.dispatch.cleanup import prune_hosts
from gpuconsole.session.logs import follow
from gpuconsole.session.logs.copies import PARALLEL_COPIES
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.state import Journal
from tests.session.conftest import Desk, Lab, make_lab
from tests.session.fakes import Container, FakeEngine


def states(desk: Desk) -> list[JobState]:
    return [job.state for job in desk.journal.jobs()]


async def test_a_job_runs_to_success_and_leaves_nothing_behind(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    running = desk.job(job_id)
    container = lab.docker.only()
    assert running.attempt is not None
    assert running.attempt.container_id == container.id
    assert running.attempt.placement_reasons == ("first",)
    assert set(lab.docker.leases) == {"GPU-a-0"}
    assert container.bundles == [b"the code"]
    assert container.spec.command == ("python", "train.py")

    lab.docker.write(b"step 1\n")
    lab.docker.finish(0, b"done\n")
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    await lab.clock.until(lambda: not lab.docker.containers)
    job = desk.job(job_id)
    assert (job.state, job.cause) == (JobState.SUCCEEDED, "")
    assert job.attempt is not None
    assert job.attempt.exit_code == 0
    assert job.ended_at is not None
    assert log_file(lab.state, job_id, 1).read_bytes() == b"step 1\ndone\n"
    assert not lab.docker.leases
    assert lab.docker.starts == 1


async def test_the_container_is_confined(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk, task=Task("x", script="/p/t.py", env={"A": "1"}))
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    spec = lab.docker.only().spec
    assert spec.user == "1000:1000"
    assert spec.network == "none"
    assert spec.device_uuids == ("GPU-a-0",)
    assert spec.memory_limit_mib == 65536.0
    assert spec.env["A"] == "1"
    assert spec.env["GPUCONSOLE_RESULTS"] == "/results"
    assert [(mount.target, mount.read_only) for mount in spec.mounts] == [("/results", False)]
    assert spec.labels["gpuconsole.job"] == job_id
    assert spec.labels["gpuconsole.journal"] == desk.journal.id
    assert spec.name.endswith(spec.labels["gpuconsole.nonce"])


async def test_root_is_refused_with_a_remedy(lab: Lab) -> None:
    lab.docker.uid = 0
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).state is JobState.FAILED
    assert "root" in desk.job(job_id).cause
    assert not lab.docker.leases


async def test_jobs_wait_for_each_other(lab: Lab) -> None:
    desk = lab.desk()
    first, second = lab.submit(desk, "one"), lab.submit(desk, "two")
    desk.start()
    await lab.clock.until(lambda: desk.job(first).state is JobState.RUNNING)
    await lab.clock.pass_time(30)
    assert desk.job(second).state is JobState.QUEUED
    assert desk.outlook.plan.waiting[second].reason == "No device is free."
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(second).state is JobState.RUNNING)
    assert desk.outlook.plan.waiting == {}


async def test_a_device_that_becomes_free_is_given_away_before_the_next_tick(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "TICK_S", 500.0)
    desk = lab.desk()
    first, second = lab.submit(desk, "one"), lab.submit(desk, "two")
    desk.start()
    await lab.clock.until(lambda: desk.job(first).state is JobState.RUNNING)
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(second).state is JobState.RUNNING, within=10.0)


@pytest.mark.parametrize(
    ("code", "log", "state", "words"),
    [
        (1, b"ValueError: no\n", JobState.FAILED, "Exit code 1. ValueError: no"),
        (
            1,
            b"Out of memory error on GPU 0. Cannot allocate 2.000000GB memory on GPU 0, "
            b"available memory is only 512.000000MB.\n",
            JobState.OOM,
            "2.0 GiB requested, 512 MiB available",
        ),
    ],
)
async def test_failures_are_named(
    lab: Lab, code: int, log: bytes, state: JobState, words: str
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.finish(code, log)
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).state is state
    assert words in desk.job(job_id).cause


async def test_an_image_that_cannot_be_had_fails_with_its_name_and_host(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk, task=Task("x", script="/p/t.py", image="nowhere:1"))
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    job = desk.job(job_id)
    assert job.state is JobState.FAILED
    assert "nowhere:1 cannot be had on a" in job.cause
    assert not lab.docker.containers
    assert not lab.docker.leases


async def test_a_container_that_no_host_could_start_ends_the_job_with_the_reason(lab: Lab) -> None:
    lab.docker.start_fails = 'exec: "trane": executable file not found in $PATH'
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert "executable file not found" in desk.job(job_id).cause
    await lab.clock.until(lambda: not lab.docker.containers)
    assert not lab.docker.leases


async def test_a_device_that_another_console_took_puts_the_job_back(lab: Lab) -> None:
    theirs = Lease("GPU-a-0", "other", "other-1", "bob", "bob's journal", 1.0)
    lab.docker.leases["GPU-a-0"] = theirs
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: "bob" in desk.job(job_id).detail)
    assert desk.job(job_id).state is JobState.QUEUED
    await lab.clock.pass_time(40)
    assert lab.docker.leases == {"GPU-a-0": theirs}, "another's lease is left alone"
    assert lab.docker.starts == 0

    del lab.docker.leases["GPU-a-0"]
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    assert attempt.number == 1, "tries that never started are not counted"


async def test_the_board_shows_others_leases_and_not_our_own(lab: Lab) -> None:
    desk = lab.desk()
    (device,) = desk.hosts.snapshot().hosts[0].devices
    uuid = device.uuid
    lab.docker.leases[uuid] = Lease(uuid, "mine", "m-1", "ada", desk.journal.id, 1.0)
    await desk.leases.refresh()
    assert desk.leases.others(desk.journal.id)["a"] == ()
    lab.docker.leases[uuid] = Lease(uuid, "other", "o-1", "bob", "bob's journal", 1.0)
    # A host that claims what is elsewhere blocks no other.
    lab.docker.leases["GPU-x"] = Lease("GPU-x", "far", "f-1", "eve", "eve's journal", 1.0)
    desk.leases.forget("a")
    await desk.leases.refresh()
    assert [lease.user for lease in desk.leases.others(desk.journal.id)["a"]] == ["bob"]


LONG = b"".join(b"step %07d\n" % number for number in range(40_000))
"""More than the end of a log by which an outcome is named."""


async def test_the_end_of_a_job_waits_for_no_log(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    path = log_file(lab.state, job_id, 1)
    lab.docker.write(LONG[:70_000])
    await lab.clock.until(lambda: path.exists() and path.stat().st_size == 70_000)
    lab.docker.log_stands_still = True
    lab.docker.finish(1, LONG[70_000:] + b"ValueError: no such thing\n")
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert "ValueError: no such thing" in desk.job(job_id).cause
    assert not lab.docker.leases, "the device is free"
    await lab.clock.pass_time(60)
    assert path.stat().st_size == 70_000
    assert is_being_copied(path)
    await prune_hosts(desk.context)
    assert lab.docker.containers, "the container stays until its log is here"

    lab.docker.log_stands_still = False
    lab.docker.notify()
    await lab.clock.until(lambda: not lab.docker.containers)
    assert path.read_bytes() == LONG + b"ValueError: no such thing\n"
    assert lab.docker.whole_reads == 0, "what is followed is not read a second time"
    assert not is_being_copied(path)


async def test_an_engine_that_stops_is_not_taken_for_the_end_of_its_jobs(lab: Lab) -> None:
    """It kills its containers, still answers for a moment, and is gone."""
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.finish(143, b"line\n")
    await lab.clock.pass_time(1)
    assert not desk.job(job_id).state.ended
    lab.docker.reachable = False
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    lab.docker.reachable = True
    await lab.clock.until(lambda: desk.job(job_id).attempts[0].ended_at is not None)
    assert desk.job(job_id).attempts[0].ended_by == "lost-host"


async def test_a_log_end_that_never_comes_holds_no_device(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)

    async def never(self: FakeEngine, container: str, size: int) -> LogTail:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(FakeEngine, "log_tail", never)
    lab.docker.finish(0, b"line\n")
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.SUCCEEDED, within=120)
    assert not lab.docker.leases
    await lab.clock.until(lambda: not lab.docker.containers)
    assert log_file(lab.state, job_id, 1).read_bytes() == b"line\n"


async def test_logs_that_stall_on_a_host_keep_no_other_container(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "state", hosts=("a", "b"), devices=PARALLEL_COPIES + 1)
    desk = lab.desk()
    jobs = [lab.submit(desk) for _ in range(2 * (PARALLEL_COPIES + 1))]
    desk.start()
    await lab.clock.until(lambda: all(desk.job(job).state is JobState.RUNNING for job in jobs))
    stalled, well = lab.dockers["a"], lab.dockers["b"]
    stalled.log_stands_still = True
    *long, short = stalled.containers.values()
    for container in long:
        stalled.end(container, 0, LONG)
    await lab.clock.pass_time(30)
    stalled.end(short, 0, b"line\n")
    for container in [*well.containers.values()]:
        well.end(container, 0, LONG)
    await lab.clock.until(lambda: all(desk.job(job).state.ended for job in jobs))
    await lab.clock.until(lambda: not well.containers and len(stalled.containers) == len(long))
    await lab.close()


async def test_a_log_that_the_disk_does_not_take_stays_on_its_host(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)

    def full(file: object, chunk: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(follow, "_write_all", full)
        lab.docker.finish(0, b"line\n")
        await lab.clock.until(lambda: desk.job(job_id).state.ended)
        await lab.clock.pass_time(60)
        assert "cannot be stored: No space left" in desk.job(job_id).detail
        assert not lab.docker.leases
        assert lab.docker.containers
        await desk.stop()
    lab.desk().start()
    await lab.clock.until(lambda: not lab.docker.containers)
    assert log_file(lab.state, job_id, 1).read_bytes() == b"line\n"


async def test_a_log_that_could_not_be_copied_is_copied_while_the_host_is_up(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(follow, "_write_all", full)
        lab.docker.finish(0, b"line\n")
        await lab.clock.until(lambda: desk.job(job_id).state.ended)
        await lab.clock.pass_time(100)
        assert lab.docker.containers
    await lab.clock.until(lambda: not lab.docker.containers)
    assert log_file(lab.state, job_id, 1).read_bytes() == b"line\n"


async def test_a_log_whose_console_went_is_copied_by_the_next(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.log_stands_still = True
    lab.docker.finish(0, LONG)
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    await desk.stop()
    path = log_file(lab.state, job_id, 1)
    assert not is_being_copied(path)
    lab.docker.log_stands_still = False
    lab.desk().start()
    await lab.clock.until(lambda: not lab.docker.containers)
    assert path.read_bytes() == LONG


async def test_a_host_out_of_sight_makes_a_job_unknown_and_it_comes_back(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.reachable = False
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    await lab.clock.pass_time(3600)
    assert desk.job(job_id).state is JobState.UNKNOWN
    assert "out of sight" in desk.job(job_id).detail

    lab.docker.finish(0, b"ran on\n")
    lab.docker.reachable = True
    before = lab.clock.time
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).state is JobState.SUCCEEDED
    assert lab.clock.time - before < 5, "a host that is back is looked at at once"
    assert log_file(lab.state, job_id, 1).read_bytes() == b"ran on\n"


async def test_a_new_console_that_still_connects_does_not_call_its_jobs_unknown(lab: Lab) -> None:
    first = lab.desk()
    job_id = lab.submit(first)
    first.start()
    await lab.clock.until(lambda: first.job(job_id).state is JobState.RUNNING)
    await first.stop()
    heir = lab.desk()
    heir.hosts.connecting = True
    heir.start()
    number = heir.journal.last_event()
    await lab.clock.pass_time(60)
    heir.hosts.connecting = False
    lab.docker.finish(0)
    await lab.clock.until(lambda: heir.job(job_id).state.ended)
    reported = [event.message for _, event in heir.journal.events_after(number)]
    assert reported == ["train: succeeded"]


async def test_a_host_taken_out_of_the_inventory_is_out_of_sight(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    await desk.stop()
    heir = lab.desk()
    heir.hosts.snapshots = replace(heir.hosts.snapshots, hosts=())
    heir.start()
    await lab.clock.until(lambda: heir.job(job_id).state is JobState.UNKNOWN)
    assert "not in the inventory" in heir.job(job_id).detail


async def test_a_log_that_breaks_off_is_not_the_end(lab: Lab) -> None:
    lab.docker.logs_break = True
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.write(b"one\n")
    await lab.clock.pass_time(100)
    assert desk.job(job_id).state is JobState.RUNNING
    lab.docker.finish(0, b"two\n")
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert log_file(lab.state, job_id, 1).read_bytes() == b"one\ntwo\n"


async def test_cancelling_a_running_job_stops_it(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    job = desk.job(job_id)
    desk.journal.save(job, replace(job, cancel_requested=True))
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).state is JobState.CANCELLED
    assert "stop" in desk.console.calls
    await lab.clock.until(lambda: not lab.docker.containers)
    assert not lab.docker.leases


async def test_cancelling_during_a_pull_ends_it_at_once(lab: Lab) -> None:
    lab.docker.pull_blocks = True
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: "43 %" in desk.job(job_id).detail)
    job = desk.job(job_id)
    desk.journal.save(job, replace(job, cancel_requested=True))
    await lab.clock.until(lambda: desk.job(job_id).state.ended, within=5)
    assert desk.job(job_id).state is JobState.CANCELLED
    assert not lab.docker.history


async def test_cancelling_an_unknown_job_is_done_when_its_host_is_back(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.reachable = False
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.UNKNOWN)
    job = desk.job(job_id)
    desk.journal.save(job, replace(job, cancel_requested=True))
    await lab.clock.pass_time(60)
    assert desk.job(job_id).state is JobState.UNKNOWN
    lab.docker.reachable = True
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).state is JobState.CANCELLED


async def test_a_container_removed_by_somebody_is_not_started_again(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.containers.clear()
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    assert desk.job(job_id).state is JobState.FAILED
    assert "something else removed it" in desk.job(job_id).cause
    assert lab.docker.starts == 1


async def test_a_container_with_our_name_that_is_not_ours_is_left_alone(lab: Lab) -> None:
    lab.docker.pull_blocks = True
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: "43 %" in desk.job(job_id).detail)
    await desk.kill()
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    spec = ContainerSpec(attempt.container_name, "evil", ("x",))
    lab.docker.containers[spec.name] = Container("f" * 64, spec, 1.0, state="running")

    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.job(job_id).state.ended)
    assert heir.job(job_id).state is JobState.FAILED
    assert "belongs to somebody else" in heir.job(job_id).cause
    assert lab.docker.only().state == "running"


async def test_the_peak_of_the_jobs_own_processes_is_kept(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    container = lab.docker.only()
    (host,) = desk.hosts.snapshots.hosts
    for held in (1000.0, 3000.0, 2000.0):
        device = replace(
            host.devices[0],
            processes=(
                DeviceProcess(1, memory_mib=held, container_id=container.id),
                DeviceProcess(2, memory_mib=500.0, container_id=container.id),
                DeviceProcess(3, memory_mib=9999.0),
            ),
        )
        desk.hosts.snapshots = replace(
            desk.hosts.snapshots, hosts=(replace(host, devices=(device,)),)
        )
        await lab.clock.pass_time(2)
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    attempt = desk.job(job_id).attempt
    assert attempt is not None
    assert attempt.peak_mib == 3500.0


async def test_a_lost_host_does_not_hold_up_the_others(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "state", hosts=("a", "b"))
    desk = lab.desk()
    first = lab.submit(desk, "one")
    desk.start()
    await lab.clock.until(lambda: desk.job(first).state is JobState.RUNNING)
    lab.dockers["a"].reachable = False
    lab.dockers["a"].notify()
    second = lab.submit(desk, "two")
    await lab.clock.until(lambda: desk.job(second).state is JobState.RUNNING, within=5)
    attempt = desk.job(second).attempt
    assert attempt is not None
    assert attempt.host == "b"
    await lab.close()


async def test_a_second_console_waits_and_takes_over_after_the_first_is_gone(lab: Lab) -> None:
    first, second = lab.desk(), lab.desk()
    job_id = lab.submit(first)
    first.start()
    await lab.clock.until(lambda: first.job(job_id).state is JobState.RUNNING)
    second.start()
    await lab.clock.pass_time(60)
    assert (first.dispatcher.active, second.dispatcher.active) == (True, False)

    await first.kill()
    killed_at = lab.clock.time
    await lab.clock.until(lambda: second.dispatcher.active)
    assert lab.clock.time - killed_at <= 17
    lab.docker.finish(0)
    await lab.clock.until(lambda: second.job(job_id).state.ended)
    assert second.job(job_id).state is JobState.SUCCEEDED
    assert lab.docker.starts == 1


async def test_closing_a_console_hands_the_role_on_at_once(lab: Lab) -> None:
    first, second = lab.desk(), lab.desk()
    first.start()
    await lab.clock.until(lambda: first.dispatcher.active)
    second.start()
    await first.stop()
    before = lab.clock.time
    await lab.clock.until(lambda: second.dispatcher.active)
    assert lab.clock.time - before <= 2


async def test_a_console_that_slept_through_its_succession_stops_working(lab: Lab) -> None:
    first, second = lab.desk(), lab.desk()
    job_id = lab.submit(first)
    lab.docker.pull_blocks = True
    first.start()
    await lab.clock.until(lambda: "43 %" in first.job(job_id).detail)
    # The first console's machine sleeps: its tasks stand still while time goes on.
    lab.clock.time += 60
    assert second.journal.take_role("second") is not None
    lab.docker.pull_blocks = False
    lab.docker.notify()
    await lab.clock.until(lambda: not first.dispatcher.active)
    assert lab.docker.starts == 0, "the stale console may start nothing"


async def test_a_fault_in_planning_is_told_and_running_jobs_are_looked_after(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = lab.desk()
    running = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(running).state is JobState.RUNNING)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("no devices")

    monkeypatch.setattr(lab.planner, "plan", broken)
    number = desk.journal.last_event()
    waiting = lab.submit(desk, "waiting")
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(running).state.ended)
    await lab.clock.pass_time(20)
    reported = [event.message for _, event in desk.journal.events_after(number)]
    assert len([message for message in reported if "no devices" in message]) == 1
    assert desk.job(waiting).state is JobState.QUEUED
    monkeypatch.undo()
    await lab.clock.until(lambda: desk.job(waiting).state is JobState.RUNNING)


async def test_the_role_is_proved_at_the_last_moment_before_a_start(lab: Lab) -> None:
    first, second = lab.desk(), lab.desk()
    job_id = lab.submit(first)

    def succeed(container: Container) -> None:
        lab.clock.time += 60
        assert second.journal.take_role("second") is not None

    lab.docker.on_put = succeed
    first.start()
    await lab.clock.until(lambda: lab.docker.history and not first.dispatcher.active)
    await lab.clock.pass_time(10)
    assert lab.docker.starts == 0
    lab.docker.on_put = lambda container: None
    lab.clock.time += 60
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.job(job_id).state is JobState.RUNNING)
    assert lab.docker.starts == 1


async def test_a_stale_console_takes_nothing_away_from_its_heir(lab: Lab) -> None:
    first, second = lab.desk(), lab.desk()
    job_id = lab.submit(first)

    def succeeded_and_taken() -> None:
        lab.clock.time += 60
        assert second.journal.take_role("second") is not None
        raise LeaseTakenError("GPU-a-0", "bob")

    lab.docker.on_claim = succeeded_and_taken
    first.start()
    await lab.clock.until(lambda: "claim" in first.console.calls and not first.dispatcher.active)
    assert not {"release", "remove", "stop"} & set(first.console.calls)
    assert second.job(job_id).state is JobState.LAUNCHING


async def test_a_container_of_which_a_removal_failed_is_removed_again(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(job_id).state.ended and not lab.docker.containers)
    await desk.kill()
    # Somebody else is at it when the next console looks, and fails.
    left = lab.docker.history[0]
    left.state = "removing"
    lab.docker.containers[left.spec.name] = left
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.console.calls.count("own") > 1)
    assert left.spec.name in lab.docker.containers
    left.state = "dead"
    await lab.clock.until(lambda: not lab.docker.containers)


async def test_a_job_ends_whose_container_is_dead(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    # Somebody's removal of it failed: of what is left the engine has no log.
    lab.docker.finish(137)
    lab.docker.only().state = "dead"
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    ended = desk.job(job_id)
    assert ended.state is JobState.FAILED
    assert ended.cause == "Something else removed its container, and the engine has no log of it."
    await lab.clock.until(lambda: not lab.docker.containers and not lab.docker.leases)


async def test_a_container_that_an_engine_does_not_remove_is_told_and_keeps_no_other(
    lab: Lab,
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.finish(0)
    lab.docker.refuses = {"remove": "device or resource busy"}
    await lab.clock.until(lambda: desk.job(job_id).state.ended)
    await desk.kill()
    left = lab.docker.only()
    left.state = "dead"
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: warnings(heir))
    # It is reported once, and tried again.
    tries = heir.console.calls.count("remove")
    await lab.clock.until(lambda: heir.console.calls.count("remove") > tries + 2)
    (said,) = warnings(heir)
    for words in (left.spec.name, "The engine of a ", "device or resource busy", "restart Docker"):
        assert words in said, said
    assert not lab.docker.leases
    # One of another job that comes behind it is removed all the same.
    second = Container("0" * 12, replace(left.spec, name=left.spec.name + "-2"), 0.0, "dead")
    lab.docker.containers[second.spec.name] = second
    lab.docker.refuses = {f"remove {left.id}": "device or resource busy"}
    await lab.clock.until(lambda: list(lab.docker.containers) == [left.spec.name])
    lab.docker.refuses = {}
    await lab.clock.until(lambda: not lab.docker.containers)
    await lab.clock.until(lambda: any(" is removed from a." in text for text in reported(heir)))


async def test_a_lease_that_an_earlier_try_of_an_attempt_left_on_another_device_is_released(
    lab: Lab,
) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    await desk.kill()
    container = lab.docker.only()
    labels = {**container.spec.labels, DEVICES_LABEL: "GPU-a-0"}
    container.spec = replace(container.spec, labels=labels)
    held = lab.docker.leases["GPU-a-0"]
    lab.docker.leases["GPU-a-1"] = replace(held, uuid="GPU-a-1")
    lab.desk().start()
    await lab.clock.until(lambda: set(lab.docker.leases) == {"GPU-a-0"})


def reported(desk: Desk) -> list[str]:
    return [event.message for _, event in desk.journal.events_after(0) if event.kind == "host"]


def warnings(desk: Desk) -> list[str]:
    return [text for text in reported(desk) if "does not remove" in text]


async def test_leftovers_of_a_dead_console_are_swept(lab: Lab) -> None:
    desk = lab.desk()
    job_id = lab.submit(desk)
    desk.start()
    await lab.clock.until(lambda: desk.job(job_id).state is JobState.RUNNING)
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(job_id).state.ended or not lab.docker.leases)
    await desk.kill()
    left = lab.docker.history[0]
    lab.docker.containers[left.spec.name] = left
    heir = lab.desk()
    heir.start()
    await lab.clock.until(lambda: heir.dispatcher.active and not lab.docker.containers)


Ending = Callable[[Lab, Desk, str], None]


def runs_well(lab: Lab, desk: Desk, job_id: str) -> None:
    if desk.job(job_id).state is JobState.RUNNING and lab.docker.running:
        lab.docker.finish(0)


def runs_badly(lab: Lab, desk: Desk, job_id: str) -> None:
    if desk.job(job_id).state is JobState.RUNNING and lab.docker.running:
        lab.docker.finish(9)


def is_cancelled(lab: Lab, desk: Desk, job_id: str) -> None:
    job = desk.job(job_id)
    if job.state is JobState.RUNNING and not job.cancel_requested:
        Journal.save(desk.journal, job, replace(job, cancel_requested=True))


def vanishes_and_returns(lab: Lab, desk: Desk, job_id: str) -> None:
    state = desk.job(job_id).state
    if state is JobState.RUNNING and lab.docker.running and not lab.docker.was_away:
        lab.docker.reachable, lab.docker.was_away = False, True
        lab.docker.finish(0)
    elif state is JobState.UNKNOWN:
        lab.docker.reachable = True


def cannot_be_asked_at_first(lab: Lab, desk: Desk, job_id: str) -> None:
    job = desk.job(job_id)
    if job.state is JobState.QUEUED and "does not answer" in job.detail:
        lab.docker.silent_at = frozenset()
    runs_well(lab, desk, job_id)


async def run_with_a_death(state: Path, ending: Ending, dies_at: int | None) -> Job:
    """Run one job on a console that dies at a point, then on its heir; the job as it ended.

    Checks that it ran at most once, whole, and left nothing behind.
    """
    lab = make_lab(state)

    def prints(container: Container) -> None:
        container.log = b"all of it\n"

    lab.docker.on_start = prints
    if ending is cannot_be_asked_at_first:
        lab.docker.silent_at = frozenset({"prepare"})
    desk = lab.desk(dies_at=dies_at)
    job_id = lab.submit(desk)

    def over() -> bool:
        if desk.console.dead:
            return True
        ending(lab, desk, job_id)
        return desk.job(job_id).state.ended and not lab.docker.containers

    desk.start()
    await lab.clock.until(over)
    if desk.console.dead:
        await desk.kill()
        lab.docker.reachable = True
        desk = lab.desk()
        desk.start()
        await lab.clock.until(over)
    job = desk.job(job_id)
    where = f"{ending.__name__}, died at {dies_at}: {lab.desks[0].console.calls[-1]}"
    assert lab.docker.starts == 1, where
    assert len(job.attempts) == 1, where
    assert not lab.docker.leases, where
    assert log_file(state, job_id, 1).read_bytes() == b"all of it\n", where
    await lab.close()
    return replace(job, detail=str(lab.desks[0].console.points))


@pytest.mark.fault(
    "The console dies at every point of a job's life, on a simulated engine",
    "Started once, its log whole, nothing left behind",
)
@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (runs_well, JobState.SUCCEEDED),
        (runs_badly, JobState.FAILED),
        (is_cancelled, JobState.CANCELLED),
        (vanishes_and_returns, JobState.SUCCEEDED),
        (cannot_be_asked_at_first, JobState.SUCCEEDED),
    ],
)
async def test_a_console_killed_at_any_point_loses_nothing_and_runs_nothing_twice(
    tmp_path: Path, ending: Ending, state: JobState
) -> None:
    alive = await run_with_a_death(tmp_path / "alive", ending, None)
    assert alive.state is state
    points = int(alive.detail)
    assert points > 30
    for point in range(points):
        job = await run_with_a_death(tmp_path / str(point), ending, point)
        assert job.state is state, (point, job.cause)
