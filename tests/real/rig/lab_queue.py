"""The lab's service on its head, and what its users type over SSH."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real.rig import forks
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import wait_until

AWAY = "The lab's queue does not answer"
"""What a command says before it has asked for anything."""
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

    def __init__(self, lab: Lab, head: LabHost, folder: Path, inventory: str, script: str) -> None:
        self.lab = lab
        self.head = head
        self.folder = folder
        self.inventory = folder / "service.yaml"
        self.inventory.write_text(inventory)
        self.script = folder / "project" / "train.py"
        self.script.parent.mkdir()
        self.script.write_text(script)
        self.log = folder / "service.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.engines: list[LabDocker] = []
        """Those of its hosts, the head's first."""

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
        wait_until(lambda: self.run("ada", "jobs").returncode == 0, what="the service serves")

    def kill(self) -> None:
        """End the service as a crash does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """Return what the service has said."""
        return self.log.read_text(errors="replace")

    def run(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user who logs in to the head over SSH, to its end; again while a busy
        machine does not connect it in time to a service that runs."""
        command, environment = self.command(user, *words)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = forks.typed(command, PATIENCE_S, self.folder, environment)
            serves = self.process is not None and self.process.poll() is None
            away = AWAY in " ".join(done.stderr.split())
            if not (serves and away) or time.monotonic() > deadline:
                return done

    def command(self, user: str, *words: str) -> tuple[list[str], dict[str, str]]:
        """Return a command of a user who logs in to the head over SSH, and its environment."""
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
        return [*base, "--state", str(state), *words], environment

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


@contextlib.contextmanager
def served(lab: Lab, head: LabHost, folder: Path, inventory: str, script: str) -> Iterator[Service]:
    """Give a service that serves, and kill it whatever happens."""
    made = Service(lab, head, folder, inventory, script)
    made.start()
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            made.kill()


@contextlib.contextmanager
def served_on_two_hosts(lab: Lab, folder: Path, script: str) -> Iterator[Service]:
    """Give a service with two hosts, one of which is its head; scripts are not measured."""
    head, other = lab.add(accounts=USERS), lab.add()
    engines = [host.start_engine() for host in (head, other)]
    lab.connect()
    inventory = lab.inventory() + RIGHTS.replace("lab:\n", "lab:\n  measure: never\n", 1)
    with served(lab, head, folder, inventory, script) as made:
        made.engines = engines
        yield made
