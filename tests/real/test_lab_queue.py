"""The lab's service on real parts: accounts over real SSH, real containers, and a service that
dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.test_road import TRAIN

pytestmark = pytest.mark.real

USERS = ("ada", "bob", "cy", "dot", "eve")
RIGHTS = """lab:
  allow_root: true
  rights:
    operators: [eve]
    priority: [dot]
  allowed:
    mounts: [/data]
"""


class Service:
    """The lab's service on its head, and what its users type."""

    def __init__(self, lab: Lab, head: LabHost, folder: Path, inventory: str) -> None:
        self.lab = lab
        self.head = head
        self.folder = folder
        self.inventory = folder / "service.yaml"
        self.inventory.write_text(inventory)
        self.script = folder / "project" / "train.py"
        self.script.parent.mkdir()
        self.script.write_text(TRAIN)
        self.log = folder / "service.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the service and wait until it serves."""
        words = ["--inventory", str(self.inventory), "--state", str(self.folder / "queue")]
        command = [sys.executable, "-m", "gpuconsole", *words, "dispatch", "--lab"]
        self.head.run(["mkdir", "-p", "/run/gpuconsole"]).check_returncode()
        environment = {**os.environ, "HOME": str(self.folder)}
        with self.log.open("ab") as log:
            self.process = self.head.popen(
                command, stdout=log, stderr=log, env=environment, cwd=self.folder
            )
        _until(lambda: self.run("ada", "jobs").returncode == 0, self.said)

    def kill(self) -> None:
        """End the service as a crash does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """Return what the service has said."""
        return self.log.read_text(errors="replace")

    def run(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user who logs in to the head over SSH."""
        state = self.folder / f"state-{user}"
        inventory = self.folder / f"{user}.yaml"
        inventory.write_text(
            "version: 1\n"
            f"defaults: {{user: {user}, identity_file: {self.lab.key}, "
            f"known_hosts: {self.lab.known_hosts()}}}\n"
            f"queue: {{host: {self.head.address}}}\n"
        )
        base = [sys.executable, "-m", "gpuconsole", "--inventory", str(inventory)]
        # What a user says of themselves decides nothing.
        environment = {**os.environ, "LOGNAME": "eve", "USER": "eve", "LNAME": "eve"}
        return subprocess.run(
            [*base, "--state", str(state), *words], capture_output=True, text=True,
            timeout=PATIENCE_S, check=False, env=environment, cwd=self.folder,
        )  # fmt: skip

    def json(self, user: str, *words: str, status: int = 0) -> Any:
        """Run a command and return its document."""
        done = self.run(user, words[0], "--json", *words[1:])
        assert done.returncode == status, done.stderr + done.stdout + self.said()
        return json.loads(done.stdout)

    def submit(self, user: str, *words: str) -> str:
        """Queue the script as a user; returns the job's id."""
        return str(self.json(user, "submit", str(self.script), *words)["job"])

    def state_of(self, job: str) -> str:
        """Return how a job stands, as somebody else sees it."""
        return str(self.json("eve", "jobs", job)["jobs"][0]["state"])


@pytest.fixture
def service(docker_lab: Lab, tmp_path: Path) -> Iterator[Service]:
    head = docker_lab.add(accounts=USERS)
    head.start_engine()
    with _served(docker_lab, head, tmp_path, docker_lab.inventory() + RIGHTS) as made:
        yield made


@contextlib.contextmanager
def _served(lab: Lab, head: LabHost, folder: Path, inventory: str) -> Iterator[Service]:
    made = Service(lab, head, folder, inventory)
    made.start()
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            made.kill()


def test_users_over_ssh_share_one_queue_and_act_on_their_own(service: Service) -> None:
    job = service.submit("ada", "--name", "first", "--", "--steps", "30")
    listed = service.json("bob", "jobs")["jobs"]
    assert [(one["id"], one["user"], one["script"]) for one in listed] == [(job, "ada", "")]
    for user, words, refused in (
        ("bob", ("cancel", job), "belongs to ada; you are bob"),
        ("cy", ("priority", job, "9"), "belongs to ada"),
        ("ada", ("priority", job, "9"), "priorities up to 0"),
        ("bob", ("drain", service.head.name), "only an operator may do that"),
    ):
        done = service.run(user, *words)
        assert done.returncode == 1, done.stderr
        assert refused.lower() in " ".join(done.stderr.split()).lower()
    assert service.run("bob", "fetch", job).returncode != 0
    assert service.run("ada", "wait", job).returncode == 0, service.said()
    lines = service.run("ada", "logs", job).stdout.splitlines()
    assert [line for line in lines if line.startswith("step=30/30")]
    assert service.run("bob", "logs", job).returncode == 1
    out = service.folder / "out"
    assert service.run("ada", "fetch", job, "--to", str(out)).returncode == 0
    assert json.loads(next(out.rglob("result.json")).read_text())["steps"] == 30
    acts = service.json("eve", "audit")["acts"]
    assert {(act["user"], act["verb"], bool(act["refused"])) for act in acts} == {
        ("ada", "submit", False),
        ("bob", "cancel", True),
        ("cy", "priority", True),
        ("ada", "priority", True),
        ("bob", "drain", True),
    }
    assert all(act["from"].startswith("sshd") for act in acts)
    assert {act["user"] for act in service.json("bob", "audit")["acts"]} == {"bob"}


def test_what_the_lab_forbids_is_refused_by_the_service(service: Service) -> None:
    task = service.folder / "project" / "task.yaml"
    for extra, refused in (
        ("mounts: [/etc:/etc:ro]", "Mounting /etc is not allowed"),
        ("mounts: [/data:/data:rw]", "for writing is not allowed"),
        ("priority: 5", "priorities up to 0"),
        ("network: full", "`network: full` is not allowed"),
    ):
        task.write_text(f"task:\n  script: train.py\n  {extra}\n")
        done = service.run("ada", "submit", "--task", str(task))
        assert done.returncode == 1, done.stdout
        assert refused in " ".join(done.stderr.split())
    assert service.json("ada", "jobs")["jobs"] == []
    task.write_text("task:\n  script: train.py\n  priority: 5\n")
    assert service.json("dot", "submit", "--task", str(task))["job"]


def test_a_service_that_dies_loses_nothing(service: Service) -> None:
    job = service.submit("ada", "--", "--steps", "400")
    _until(lambda: service.state_of(job) == "running", service.said)
    service.kill()
    done = service.run("ada", "cancel", job)
    assert done.returncode == 3
    assert "Jobs that run go on" in " ".join(done.stderr.split())
    assert service.run("ada", "submit", str(service.script)).returncode == 3
    service.start()
    assert service.run("ada", "wait", job).returncode == 0, service.said()
    (one,) = service.json("bob", "jobs")["jobs"]
    assert (one["state"], one["attempt"]) == ("succeeded", 1)


def test_where_the_sshd_forwards_no_sockets_a_relay_does(service: Service) -> None:
    with (service.head.root / "sshd_config").open("a") as config:
        config.write("Match User ada\n  AllowStreamLocalForwarding no\n")
    service.head.stop_sshd()
    service.head.start_sshd()
    job = service.submit("ada", "--", "--steps", "3")
    assert service.run("ada", "wait", job).returncode == 0, service.said()
    assert service.json("bob", "jobs", job)["jobs"][0]["user"] == "ada"
    acts = service.json("ada", "audit")["acts"]
    assert [act["user"] for act in acts] == ["ada"]


def test_a_container_runs_as_its_user_where_the_lab_says_so(
    docker_lab: Lab, tmp_path: Path
) -> None:
    head = docker_lab.add(accounts=USERS)
    head.start_engine()
    # Only root can give a user their folder on a host.
    inventory = docker_lab.inventory().replace(f"user: {head.user}", "user: root")
    inventory += RIGHTS + "    run_as: user\n    ids: {bob: '3001:3002'}\n"
    with _served(docker_lab, head, tmp_path, inventory) as service:
        service.script.write_text(TRAIN + "print('ids', os.getuid(), os.getgid())\n")
        ada, bob = (service.submit(user, "--", "--steps", "2") for user in ("ada", "bob"))
        for user, job, ids in (
            ("ada", ada, f"{head.uid + 1} {head.uid + 1}"),
            ("bob", bob, "3001 3002"),
        ):
            assert service.run(user, "wait", job).returncode == 0, service.said()
            assert f"ids {ids}" in service.run(user, "logs", job).stdout
            out = service.folder / user
            assert service.run(user, "fetch", job, "--to", str(out)).returncode == 0
            assert json.loads(next(out.rglob("result.json")).read_text())["steps"] == 2


def _until(condition: Callable[[], object], said: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.2)
