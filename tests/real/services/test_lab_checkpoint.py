"""A checkpoint that travels between hosts where the lab's containers run as their users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.real.rig.hosts import Lab
from tests.real.rig.lab_queue import RIGHTS, USERS, served
from tests.real.rig.sessions import wait_until

pytestmark = pytest.mark.real

COUNT = """
import os, time

saved = "kept/number"
first = int(open(saved).read()) if os.path.exists(saved) else 0
owner = os.stat(saved) if first else os.stat("kept")
print("begins", first, os.getuid(), os.getgid(), owner.st_uid, owner.st_gid, flush=True)
number = first
while first == 0 or number < first + 5:
    number += 1
    with open(saved + ".new", "w") as file:
        file.write(str(number))
    os.replace(saved + ".new", saved)
    print("saved", number, flush=True)
    time.sleep(0.05)
"""
"""Saves what it has counted, without end until it is begun again."""


def begins(log: str) -> list[list[int]]:
    """Return what each attempt said as it began: its number, its own ids, those of the file."""
    return [
        [int(word) for word in line.split()] for line in re.findall(r"^begins (.*)$", log, re.M)
    ]


def test_a_checkpoint_goes_with_its_user_to_another_host(docker_lab: Lab, tmp_path: Path) -> None:
    head = docker_lab.add(devices=1, accounts=USERS)
    other = docker_lab.add(devices=1)
    for host in (head, other):
        host.start_engine()
    docker_lab.connect()
    # Only root can give a user their folder on a host. Bob has other numbers there than here.
    inventory = docker_lab.inventory().replace(f"user: {head.user}", "user: root")
    inventory += RIGHTS + "    run_as: user\n    ids: {bob: '3001:3002'}\n"
    with served(docker_lab, head, tmp_path, inventory, COUNT) as service:
        task = service.folder / "project" / "task.yaml"
        task.write_text("task:\n  script: train.py\n  checkpoint_dir: kept\n")
        for user, ids in (("ada", [head.uid + 1, head.uid + 1]), ("bob", [3001, 3002])):
            job = str(service.json(user, "submit", "--task", str(task))["job"])
            wait_until(
                lambda: "saved 5" in service.run(user, "logs", job).stdout,  # noqa: B023
                what="it has saved something",
            )
            log = service.run(user, "logs", job).stdout
            (seen,) = service.json(user, "jobs", job)["jobs"]
            assert service.run("eve", "drain", seen["host"]).returncode == 0
            done = service.run(user, "preempt", job)
            assert done.returncode == 0, done.stderr
            assert service.run(user, "wait", job).returncode == 0, service.said()
            (then,) = service.json(user, "jobs", job)["jobs"]
            assert {seen["host"], then["host"]} == {head.name, other.name}
            log += service.run(user, "logs", job).stdout
            first, second = begins(log)
            assert first == [0, *ids, *ids]
            assert second[0] >= 5
            assert second[1:] == [*ids, *ids]
            out = service.folder / user
            assert service.run(user, "fetch", job, "--to", str(out)).returncode == 0
            saved = next(out.rglob("number"))
            assert int(saved.read_text()) == second[0] + 5
            assert service.run("eve", "undrain", seen["host"]).returncode == 0
