"""Lab hosts that really start and stop: woken for a job, put to sleep, taken away."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.session.dispatch import runner
from gpuconsole.session.session import Session
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.sessions import COUNT, Desk, job_is, let_go, seen, until

pytestmark = pytest.mark.real

SWITCH = """
import os, signal, subprocess, sys
verb, anchor, config = sys.argv[1:]
if verb == "wake":
    enter = ["nsenter", "--target=" + anchor, "--mount", "--net", "--uts", "--ipc", "--"]
    sys.exit(subprocess.call([*enter, "/usr/sbin/sshd", "-f", config]))
here = os.stat("/proc/%s/ns/net" % anchor).st_ino
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/%s/comm" % name) as comm:
            sshd = comm.read().startswith("sshd")
        if sshd and os.stat("/proc/%s/ns/net" % name).st_ino == here:
            os.kill(int(name), signal.SIGKILL)
    except OSError:
        pass
"""
"""Starts the sshd of a lab host, or ends it with all its sessions."""


def elastic_desk(lab: Lab, folder: Path, host: LabHost, *more: str) -> Desk:
    """Return a desk whose inventory can switch one host."""
    desk = Desk(lab, folder)
    script = folder / "switch.py"
    script.write_text(SWITCH)
    assert host._anchor is not None
    words = [str(host._anchor.pid), str(host.root / "sshd_config")]
    lines = [
        f"    {verb}: {[sys.executable, str(script), verb, *words]}" for verb in ("wake", "sleep")
    ]
    text = desk.inventory.read_text()
    place = f"    docker_socket: {host.socket}\n"
    assert place in text
    desk.inventory.write_text(text.replace(place, place + "\n".join((*lines, *more)) + "\n"))
    return desk


def only(session: Session) -> Host:
    (host,) = session.snapshot().hosts
    return host


async def test_a_job_wakes_its_host_which_sleeps_again(docker_lab: Lab, tmp_path: Path) -> None:
    host = docker_lab.add(devices=1)
    engine = await asyncio.to_thread(host.start_engine)
    desk = elastic_desk(docker_lab, tmp_path / "desk", host, "    elastic: {idle_minutes: 0.05}")
    async with desk.session() as session:
        await seen(session)
        await until(lambda: only(session).power == "asleep", what="asleep")
        # sshd and every session of it are gone; the claim that kept others away is still there.
        assert host.run(["ss", "-ltn"]).stdout.count(b":22 ") == 0
        assert len(engine.client().containers(all=True)) == 1
        job = await session.queue.submit(desk.task(COUNT))
        why = ""

        def waking() -> bool:
            nonlocal why
            if session.job(job.id).state is JobState.QUEUED:
                why = session.why_now(job.id).reason
            return "Waking lab-01" in why

        await until(waking, what="the reason says that it is woken")
        job = await job_is(session, job, JobState.RUNNING)
        assert only(session).state is HostState.UP
        assert only(session).power == ""
        # Nothing sleeps under a job, however idle its device is.
        await asyncio.sleep(4)
        assert session.job(job.id).state is JobState.RUNNING
        let_go(host, job)
        job = await session.wait(job.id)
        assert (job.state, len(job.attempts)) == (JobState.SUCCEEDED, 1), job.cause
        await until(lambda: only(session).power == "asleep", what="asleep again")
    # Who comes later knows it too.
    async with desk.session() as session:
        await until(lambda: only(session).power == "asleep", what="known to sleep")


@pytest.mark.fault(
    "A command that wakes a host fails",
    "The host shows it; jobs wait with that reason",
)
async def test_a_wake_command_that_fails_is_shown_at_its_host(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add(devices=1)
    desk = elastic_desk(docker_lab, tmp_path / "desk", host)
    said = "import sys; sys.exit('\\x1b[2Jno card \\x07 answers')"
    text = desk.inventory.read_text()
    wake = next(line for line in text.splitlines() if "wake:" in line)
    desk.inventory.write_text(text.replace(wake, f"    wake: {[sys.executable, '-c', said]}"))
    async with desk.session() as session:
        await seen(session)
        await asyncio.to_thread(host.stop_sshd)
        await until(lambda: only(session).power == "asleep", what="asleep")
        await session.queue.submit(desk.task("print('never')"))
        await until(lambda: "did not wake" in only(session).error, what="the fault is shown")
        assert "no card" in only(session).error
        assert "\x1b" not in only(session).error
        assert only(session).devices


async def test_an_inventory_that_others_may_write_runs_no_commands(
    lab: Lab, tmp_path: Path
) -> None:
    host = lab.add(devices=1)
    desk = elastic_desk(lab, tmp_path / "desk", host)
    os.chmod(desk.inventory, 0o666)
    done = await asyncio.create_subprocess_exec(
        *desk.command("status"), stderr=asyncio.subprocess.PIPE
    )
    _, error = await done.communicate()
    assert done.returncode == 2
    assert b"is writable by everybody" in error


CHECKPOINTED = COUNT.replace(
    "number = 0\n",
    'saved = "checkpoints/number"\n'
    "number = int(open(saved).read()) if os.path.exists(saved) else 0\n"
    'print("begins at", number, flush=True)\n',
).replace(
    "    number += 1\n",
    "    number += 1\n"
    '    with open(saved + ".new", "w") as file:\n'
    "        file.write(str(number))\n"
    '    os.replace(saved + ".new", saved)\n',
)


@pytest.mark.fault("An interruptible host is taken away", "Its job goes on elsewhere")
async def test_a_host_taken_away_gives_its_job_back(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "INTERRUPTED_S", 2.0)
    host = docker_lab.add(devices=1)
    await asyncio.to_thread(host.start_engine)
    desk = Desk(docker_lab, tmp_path / "desk")
    place = f"    docker_socket: {host.socket}\n"
    text = desk.inventory.read_text()
    desk.inventory.write_text(text.replace(place, place + "    interruptible: true\n"))
    async with desk.session() as session:
        await seen(session)
        plain = await session.queue.submit(desk.task("print('plain')", "plain"))
        task = replace(desk.task(CHECKPOINTED), checkpoint_dir="checkpoints")
        job = await session.queue.submit(task)
        job = await job_is(session, job, JobState.RUNNING)
        why = session.why_now(plain.id)
        assert "may be taken away" in why.reason
        path = session.log_path(job.id)
        await until(lambda: path.exists() and "line 20" in path.read_text(), what="some lines")
        await asyncio.to_thread(host.stop_sshd)
        await until(lambda: session.job(job.id).state is JobState.QUEUED, what="given back")
        lost = session.job(job.id).attempts[0]
        assert lost.ended_by == "lost-host"
        assert lost.cause.startswith("Host interrupted: lab-01")
        await asyncio.to_thread(host.start_sshd)
        job = await job_is(session, job, JobState.RUNNING)
        let_go(host, job)
        job = await session.wait(job.id)
        assert (job.state, len(job.attempts)) == (JobState.SUCCEEDED, 2), job.cause
        lines = [line async for line in session.logs(job.id, follow=True)]
        assert int(lines[0].removeprefix("begins at ")) >= 20
