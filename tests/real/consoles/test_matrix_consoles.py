"""Faults around the console itself: it sleeps, its agent goes, inventories change and differ."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.state import Journal
from tests.real.rig import forks
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import COUNT, Desk, let_go, wait_until

pytestmark = pytest.mark.real


@pytest.fixture
def make_desk(docker_lab: Lab, tmp_path: Path) -> Callable[[], Desk]:
    """Give what makes the user's desk once the lab's hosts are there."""

    def make() -> Desk:
        made = Desk(docker_lab, tmp_path)
        # A journal that is only read must be there.
        Journal(made.state, clock=time.time).close()
        return made

    return make


@contextmanager
def dispatching(desk: Desk, *words: str, env: dict[str, str] | None = None) -> Iterator[int]:
    """Give the process id of a dispatcher, and end it."""
    command = desk.command("dispatch", *words)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=env)
    try:
        yield process.pid
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        process.wait(PATIENCE_S)


def submit(desk: Desk, text: str = COUNT, name: str = "train.py") -> str:
    """Queue a script; returns the job's id."""
    command = desk.command("submit", "--force", str(desk.script(text, name)))
    return forks.typed(command, PATIENCE_S).stdout.split()[0]


def watch(journal: Journal, job_id: str) -> Callable[[], Job]:
    """Return what looks at a job."""

    def look() -> Job:
        job = journal.job(job_id)
        assert job is not None
        return job

    return look


def counted(desk: Desk, job: Job) -> int:
    """Hold a counting job to one run with a whole log; returns how far it counted."""
    assert (job.state, len(job.attempts)) == (JobState.SUCCEEDED, 1), job.cause
    said = forks.typed(desk.command("logs", job.id), PATIENCE_S).stdout.splitlines()
    count = int(said[-1].removeprefix("counted "))
    assert said[:-1] == [f"line {number}" for number in range(count)]
    return count


@pytest.mark.fault(
    "The console's machine sleeps, and wakes with every connection dead",
    "Jobs that ended meanwhile have their true end, those that run are followed on, none twice",
)
def test_a_console_that_slept_finds_everything_again(
    docker_lab: Lab, make_desk: Callable[[], Desk], record_property: Callable[[str, object], None]
) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = make_desk()
    with desk.journal() as journal, dispatching(desk) as console:
        ends, runs = (watch(journal, submit(desk, name=name)) for name in ("a.py", "b.py"))
        for job in (ends, runs):
            wait_until(lambda job=job: job().state is JobState.RUNNING, what="it runs")
        os.kill(console, signal.SIGSTOP)
        let_go(host, ends())
        # The host forgets the connections, as after hours and in another network.
        host.stop_sshd()
        host.start_sshd()
        os.kill(console, signal.SIGCONT)
        wait_until(lambda: ends().state.ended, what="the end is seen")
        wait_until(lambda: runs().state is JobState.RUNNING, what="it is followed on")
        let_go(host, runs())
        wait_until(lambda: runs().state.ended, what="the other's end")
        lines = counted(desk, ends()) + counted(desk, runs())
    record_property("figure", f"2 jobs, {lines} lines, 0 lost, 0 started twice")


@pytest.mark.fault(
    "The SSH agent goes away while jobs run, and a connection breaks",
    "The jobs are unknown with that reason, and come back with the agent",
)
def test_an_agent_that_goes_away_costs_only_sight(
    docker_lab: Lab, make_desk: Callable[[], Desk], tmp_path: Path
) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = make_desk()
    # The key is only in the agent.
    hidden = docker_lab.key.rename(docker_lab.key.with_suffix(".hidden"))
    desk.inventory.write_text(
        "".join(
            line
            for line in desk.inventory.read_text().splitlines(keepends=True)
            if "identity_file" not in line
        )
    )
    socket = tmp_path / "agent.sock"
    env = {**os.environ, "SSH_AUTH_SOCK": str(socket), "HOME": str(tmp_path)}

    def agent() -> subprocess.Popen[bytes]:
        started = subprocess.Popen(
            ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL
        )
        wait_until(socket.exists, what="the agent's socket")
        subprocess.run(["ssh-add", "-q", str(hidden)], env=env, check=True, timeout=PATIENCE_S)
        return started

    first = agent()
    with desk.journal() as journal:
        try:
            with dispatching(desk, env=env):
                job = watch(journal, submit(desk))
                wait_until(lambda: job().state is JobState.RUNNING, what="it runs")
                first.terminate()
                first.wait(PATIENCE_S)
                socket.unlink(missing_ok=True)
                host.stop_sshd()
                host.start_sshd()
                wait_until(lambda: job().state is JobState.UNKNOWN, what="out of sight")
                assert not job().state.ended
                first = agent()
                wait_until(lambda: job().state is JobState.RUNNING, what="it is back")
                let_go(host, job())
                wait_until(lambda: job().state.ended, what="its end")
                counted(desk, job())
        finally:
            first.terminate()
            first.wait(PATIENCE_S)


@pytest.mark.fault(
    "A host is taken out of the inventory while its job runs",
    "The job is unknown and says so; with the host back in the file it is followed to its end",
)
def test_a_host_that_leaves_the_inventory_takes_no_job_along(
    docker_lab: Lab, make_desk: Callable[[], Desk]
) -> None:
    for _ in range(2):
        docker_lab.add().start_engine()
    desk = make_desk()
    whole = desk.inventory.read_text()
    with desk.journal() as journal:
        with dispatching(desk):
            job = watch(journal, submit(desk))
            wait_until(lambda: job().state is JobState.RUNNING, what="it runs")
        attempt = job().attempt
        assert attempt is not None
        host = next(host for host in docker_lab.hosts if host.name == attempt.host)
        desk.inventory.write_text(without(whole, host.name))
        with dispatching(desk):
            wait_until(lambda: job().state is JobState.UNKNOWN, what="it is unknown")
            assert "inventory" in job().detail
        desk.inventory.write_text(whole)
        with dispatching(desk):
            wait_until(lambda: job().state is JobState.RUNNING, what="it is back")
            let_go(host, job())
            wait_until(lambda: job().state.ended, what="its end")
        counted(desk, job())


@pytest.mark.fault(
    "Two consoles of one user have different inventories",
    "A job on a host that only one of them knows runs on under the other and ends once",
)
def test_consoles_with_different_inventories_share_a_queue(
    docker_lab: Lab, make_desk: Callable[[], Desk]
) -> None:
    for _ in range(2):
        docker_lab.add().start_engine()
    desk = make_desk()
    whole = desk.inventory.read_text()
    with desk.journal() as journal:
        with dispatching(desk):
            jobs = [watch(journal, submit(desk, name=f"{name}.py")) for name in "abcd"]
            for job in jobs:
                wait_until(lambda job=job: job().state is JobState.RUNNING, what="it runs")
        place = {job().id: job().attempt.host for job in jobs if job().attempt}  # type: ignore[union-attr]
        first, second = docker_lab.hosts
        assert set(place.values()) == {first.name, second.name}
        desk.inventory.write_text(without(whole, second.name))
        with dispatching(desk):
            for job in jobs:
                if place[job().id] == first.name:
                    let_go(first, job())
                    wait_until(lambda job=job: job().state.ended, what="its end")
                else:
                    let_go(second, job())
                    wait_until(lambda job=job: job().state is JobState.UNKNOWN, what="unknown")
        desk.inventory.write_text(whole)
        with dispatching(desk):
            for job in jobs:
                wait_until(lambda job=job: job().state.ended, what="its end")
        for job in jobs:
            counted(desk, job())


def without(inventory: str, name: str) -> str:
    """Return an inventory without a host, which has three lines in it."""
    lines = inventory.splitlines(keepends=True)
    start = lines.index(f"  - name: {name}\n")
    return "".join(lines[:start] + lines[start + 3 :])


@pytest.mark.fault(
    "A host's clock is an hour ahead",
    "Ages, starts and ends are on the console's clock; nothing is stale or too early",
)
def test_a_host_with_another_clock_is_no_older(
    docker_lab: Lab, make_desk: Callable[[], Desk]
) -> None:
    # The agent is a Python of the host: one that says another time stands for a wrong clock.
    shim = '#!/bin/sh\nexec faketime -f +3600s /usr/bin/python3 "$@"\n'
    host = docker_lab.add(programs={"python3": shim})
    host.start_engine()
    desk = make_desk()
    before = time.time()
    with desk.journal() as journal, dispatching(desk):
        job = watch(journal, submit(desk, "print('done')\n"))
        wait_until(lambda: job().state.ended, what="its end")
        attempt = job().attempt
        assert attempt is not None
        assert job().state is JobState.SUCCEEDED
        assert attempt.started_at is not None
        assert attempt.ended_at is not None
        assert before - 60 < attempt.started_at <= attempt.ended_at < time.time() + 60
    status = subprocess.check_output(desk.command("status", "--json"), text=True)
    (shown,) = json.loads(status)["hosts"]
    assert shown["state"] == "up"
    assert 0 <= shown["age_s"] < 60
