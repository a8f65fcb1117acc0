"""Measured scripts that attack their host, and consoles that die while they measure."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.errors import RefusedError
from gpuconsole.session.estimate import measurement_on_host
from gpuconsole.session.estimate.measurement_on_host import NAME
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, until, wait_until

pytestmark = pytest.mark.real

ATTACK = """
import errno, glob, os, subprocess

failures = []
def expect(word, act, *codes):
    try:
        act()
        failures.append(word)
    except OSError as error:
        if error.errno not in codes:
            failures.append("%s: %s" % (word, error))

shut = (errno.EROFS, errno.EACCES, errno.EPERM)
for folder in ("/", "/etc", "/gpuconsole-project", "/gpuconsole-probe"):
    expect("write to " + folder, lambda: open(folder + "/new", "w"), *shut)
    expect("change " + folder, lambda: os.chmod(folder, 0o777), *shut)
for name in ("/gpuconsole-project/train.py", "/gpuconsole-probe/probe.py"):
    expect("write to " + name, lambda: open(name, "a"), *shut)
    expect("remove " + name, lambda: os.unlink(name), *shut)

sized = {"/workspace": 1, "/results": 1, "/tmp": 1, "/dev/shm": 1}
for line in open("/proc/self/mounts"):
    place, kind = line.split()[1:3]
    if not os.path.isdir(place) or not os.access(place, os.W_OK):
        continue
    room = os.statvfs(place)
    if kind == "tmpfs" and room.f_blocks * room.f_frsize <= 2**30:
        sized.pop(place, None)
    elif kind not in ("proc", "mqueue"):
        failures.append("%s can be written: %s" % (place, kind))
failures += ["%s cannot be written" % place for place in sized]

def fill():
    with open("/tmp/full", "wb") as file:
        for _ in range(64):
            file.write(bytes(2**20))
expect("fill /tmp", fill, errno.ENOSPC)

children = []
def spawn():
    for _ in range(200):
        children.append(subprocess.Popen(["sleep", "60"]))
expect("spawn", spawn, errno.EAGAIN)
for child in children:
    child.kill()
    child.wait()

status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
if status["NoNewPrivs"].strip() != "1" or int(status["CapEff"], 16):
    failures.append("rights: %s %s" % (status["NoNewPrivs"], status["CapEff"]))
if os.getuid() == 0 or glob.glob("/dev/nvidia*"):
    failures.append("root, or a device")
raise SystemExit("open: %s" % failures if failures else "all is shut")
"""
STUBBORN = """
import os, signal, time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for entry in os.listdir("/proc"):
    if entry.isdigit() and open("/proc/%s/comm" % entry).read() == "timeout\\n":
        os.kill(int(entry), signal.SIGSTOP)
while True:
    time.sleep(1)
"""
"""Stops what would end it from inside, and heeds no signal."""


async def test_a_script_can_fill_spawn_and_change_nothing_of_its_host(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = docker_lab.add()
    engine = host.start_engine()
    monkeypatch.setattr(measurement_on_host, "PIDS", 100)
    monkeypatch.setitem(measurement_on_host.WRITTEN_MIB, "/tmp", 16.0)
    desk = Desk(docker_lab, tmp_path)
    task = desk.task(ATTACK)
    async with desk.session() as session:
        await session.first_frames(30)
        with pytest.raises(RefusedError) as error:
            await session.estimates.measure(task, "meta", lambda *told: None)
    assert "all is shut" in f"{error.value.message} {error.value.hint}"
    # What adds devices to containers was not even asked.
    assert not engine.hook_log.exists()


async def test_a_script_that_heeds_no_signal_is_ended_by_the_console(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker_lab.add().start_engine()
    monkeypatch.setattr(measurement_on_host, "WALL_S", 5.0)
    monkeypatch.setattr(measurement_on_host, "ENDING_S", 1.0)
    desk = Desk(docker_lab, tmp_path)
    task = desk.task(STUBBORN)
    async with desk.session() as session:
        (host,) = (await session.first_frames(30)).hosts
        with pytest.raises(RefusedError, match="did not end in 5 s"):
            await session.estimates.measure(task, "meta", lambda *told: None)
        engine = await session.hosts.engine(host.name)
        assert await engine.inspect(NAME) is None


async def test_what_a_killed_console_left_goes_with_its_lease_once_another_opens(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add()
    client = host.start_engine().client()
    desk = Desk(docker_lab, tmp_path)
    script = str(desk.script(STUBBORN))
    words = ("preflight", script, "--tier", "device", "--host", host.name)
    console = await asyncio.to_thread(
        subprocess.Popen,
        desk.command(*words),
        cwd=desk.project,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )

    def running() -> list[Any]:
        assert console.poll() is None
        return list(client.containers(filters={"name": NAME}))

    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        stack.callback(lambda: console.poll() is None and console.kill())
        wait_until(running, what="the measurement runs")
        found = client.inspect_container(NAME)
        assert all(not mount["RW"] for mount in found["Mounts"] if mount["Type"] == "bind")
        assert found["HostConfig"]["NanoCpus"] > 0
        os.killpg(console.pid, signal.SIGKILL)
        console.wait(PATIENCE_S)
        assert client.containers(filters={"name": NAME})
        async with desk.session() as session:
            await session.first_frames(30)
            await until(
                lambda: not client.containers(all=True, filters={"label": "gpuconsole.job"}),
                what="container and lease go",
            )
