"""Hosts that may be taken away: their jobs go back into the queue, and never run twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState, Task
from gpuconsole.session.dispatch.runner import INTERRUPTED_S
from gpuconsole.session.logs.follow import log_file
from tests.session.conftest import Desk, Lab
from tests.session.dispatch.attempt.test_gang import GANG, gang_lab
from tests.session.fakes import Container

TASK = Task("train", script="/p/train.py", image="paddle", checkpoint_dir="checkpoints")


def interruptible(desk: Desk) -> None:
    hosts = tuple(replace(host, interruptible=True) for host in desk.hosts.snapshots.hosts)
    desk.hosts.snapshots = replace(desk.hosts.snapshots, hosts=hosts)


async def running(lab: Lab, desk: Desk) -> str:
    job = lab.submit(desk, task=TASK)
    desk.start()
    await lab.clock.until(lambda: desk.job(job).state is JobState.RUNNING)
    return job


async def test_a_job_goes_on_when_its_host_is_back(lab: Lab) -> None:
    desk = lab.desk()
    interruptible(desk)
    job = await running(lab, desk)
    lab.docker.reachable = False
    lab.docker.notify()
    lab.docker.write(b"unseen\n")
    await lab.clock.until(lambda: desk.job(job).state is JobState.QUEUED, within=600)
    (lost,) = desk.job(job).attempts
    assert lost.ended_by == "lost-host"
    assert lost.cause.startswith("Host interrupted: ")
    assert lab.clock.now() - (lost.started_at or 0.0) >= INTERRUPTED_S
    # Its checkpoint is on that host: it waits there, and begins again once.
    await lab.clock.pass_time(120)
    assert desk.job(job).state is JobState.QUEUED
    lab.docker.reachable = True
    await lab.clock.until(lambda: desk.job(job).state is JobState.RUNNING, within=600)
    assert [one.number for one in desk.job(job).attempts] == [1, 2]
    # What still ran of the lost attempt is gone, and its claim with it.
    assert lab.docker.only().state == "running"
    assert {lease.attempt for lease in lab.docker.leases.values()} == {f"{job}-2"}
    assert log_file(lab.state, job, 1).read_bytes().startswith(b"unseen\n")
    lab.docker.finish(0)
    await lab.clock.until(lambda: desk.job(job).state is JobState.SUCCEEDED)
    await desk.stop()


async def test_the_logs_of_the_other_hosts_of_a_gang_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = gang_lab(tmp_path / "state")
    desk = lab.desk()
    interruptible(desk)
    job = lab.submit(desk, task=GANG)
    desk.start()
    await lab.clock.until(lambda: desk.job(job).state is JobState.RUNNING)
    lab.dockers["b"].reachable = False
    lab.dockers["b"].notify()
    await lab.clock.pass_time(INTERRUPTED_S / 2)
    other = lab.dockers["a"]
    end = other.end

    def saying(container: Container, code: int) -> None:
        end(container, code, b"last words\n")

    monkeypatch.setattr(other, "end", saying)
    await lab.clock.until(lambda: desk.job(job).state is JobState.QUEUED, within=600)
    await lab.clock.until(lambda: not lab.dockers["a"].containers)
    assert b"last words\n" in log_file(lab.state, job, 1, 0).read_bytes()
    await lab.close()


async def test_a_short_absence_costs_nothing(lab: Lab) -> None:
    desk = lab.desk()
    interruptible(desk)
    job = await running(lab, desk)
    lab.docker.reachable = False
    lab.docker.notify()
    await lab.clock.until(lambda: desk.job(job).state is JobState.UNKNOWN)
    await lab.clock.pass_time(INTERRUPTED_S / 3)
    lab.docker.reachable = True
    await lab.clock.until(lambda: desk.job(job).state is JobState.RUNNING)
    assert len(desk.job(job).attempts) == 1
    await desk.stop()


async def test_a_steady_host_keeps_its_jobs(lab: Lab) -> None:
    desk = lab.desk()
    job = await running(lab, desk)
    lab.docker.reachable = False
    lab.docker.notify()
    await lab.clock.pass_time(INTERRUPTED_S * 5)
    assert desk.job(job).state is JobState.UNKNOWN
    await desk.stop()
