"""Two heads of the lab's queue on real parts: the first is killed, frozen or cut off, the second
takes over, and no job is lost or runs twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S

pytestmark = pytest.mark.real

SCRIPT = """import os, pathlib, time
print("begun", flush=True)
while not os.path.exists("/gate/" + os.environ["GATE"]):
    time.sleep(0.1)
pathlib.Path(os.environ["GPUCONSOLE_RESULTS"], "ended").write_text("yes")
"""
AFTER_S = 3.0
"""After how long the standby takes over."""


class Head:
    """One head of the lab's queue."""

    def __init__(self, host: LabHost, folder: Path, inventory: Path) -> None:
        self.host = host
        self.folder = folder
        self.log = folder / f"{host.name}.log"
        self._inventory = inventory
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        """Start the service."""
        state = str(self.folder / f"queue-{self.host.name}")
        base = ["--inventory", str(self._inventory), "--state", state]
        self.host.run(["mkdir", "-p", "/run/gpuconsole"]).check_returncode()
        with self.log.open("ab") as log:
            self.process = self.host.popen(
                [sys.executable, "-m", "gpuconsole", *base, "dispatch", "--lab", *words],
                stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, "HOME": str(self.folder)},
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """Send the service a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def take_over(self, folder: Path) -> float:
        """Let this head lead by command; returns how long that took (s)."""
        command = ["--state", str(folder / "operator"), "takeover", "--json"]
        done = self.host.run(
            [sys.executable, "-m", "gpuconsole", *command], cwd=folder, env={**os.environ}
        )
        assert done.returncode == 0, done.stderr + done.stdout + self.said().encode()
        return float(json.loads(done.stdout)["took_s"])

    def kill(self) -> None:
        """End the service as a crash does."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """Return what the service has said."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def stands_by(self) -> bool:
        """Whether it follows the other head and may take over."""
        state = self.state()
        return not state.get("leads", True) and bool(state["in_step"])

    def state(self) -> dict[str, Any]:
        """Return what the head says of itself on its socket; nothing while it does not answer."""
        asked = self.host.run(
            ["curl", "-s", "-m", "2", "--unix-socket", "/run/gpuconsole/queue.sock",
             "http://lab/v1/head"]
        )  # fmt: skip
        return dict(json.loads(asked.stdout)) if asked.returncode == 0 else {}


class Heads:
    """Two heads, a host with an engine, and users of the queue."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        accounts = ("ada", "bob")
        first, second = (lab.add(devices=0, accounts=accounts) for _ in range(2))
        self.worker = lab.add(devices=2)
        self.engine: LabDocker = self.worker.start_engine()
        lab.connect()
        self.gate = lab.root / "gate"
        self.gate.mkdir()
        self.script = folder / "project" / "work.py"
        self.script.parent.mkdir()
        self.script.write_text(SCRIPT)
        inventory = folder / "service.yaml"
        inventory.write_text(self._inventory(first, second))
        self.first, self.second = (Head(host, folder, inventory) for host in (first, second))
        self.since = time.time() - 1

    def _inventory(self, *heads: LabHost) -> str:
        addresses = ", ".join(head.address for head in heads)
        return (
            f"version: 1\ndefaults:\n  user: root\n  identity_file: {self.lab.key}\n"
            f"  known_hosts: {self.lab.known_hosts()}\n  image: lab/paddle:1\n"
            f"  poll_interval: 1.0\nhosts:\n  - name: {self.worker.name}\n"
            f"    address: {self.worker.address}\n    docker_socket: {self.worker.socket}\n"
            f"queue: {{host: [{addresses}]}}\n"
            f"lab:\n  allow_root: true\n  allowed:\n    mounts: [{self.gate}]\n"
        )

    def begin(self) -> None:
        """Start both heads and wait until the second may take over."""
        self.first.start()
        until(lambda: self.first.state().get("leads"), self.said)
        self.second.start("--standby", "--take-over-after", f"{AFTER_S}s")
        until(lambda: self.first.state().get("in_step"), self.said)
        until(lambda: self.second.stands_by, self.said)

    def run(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user whose inventory names both heads."""
        inventory = self.folder / f"{user}.yaml"
        addresses = ", ".join(head.host.address for head in (self.first, self.second))
        inventory.write_text(
            f"version: 1\ndefaults: {{user: {user}, identity_file: {self.lab.key}, "
            f"known_hosts: {self.lab.known_hosts()}}}\nqueue: {{host: [{addresses}]}}\n"
        )
        base = [sys.executable, "-m", "gpuconsole", "--inventory", str(inventory)]
        return subprocess.run(
            [*base, "--state", str(self.folder / f"state-{user}"), *words],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=self.folder,
        )  # fmt: skip

    def submit(self, user: str, gate: str) -> str:
        """Queue a job of one device that ends once its gate is open."""
        task = self.script.parent / f"{gate}.yaml"
        task.write_text(
            f"task:\n  script: work.py\n  name: {gate}\n  env: {{GATE: {gate}}}\n"
            f"  mounts: ['{self.gate}:/gate:ro']\n"
        )
        done = self.run(user, "submit", "--json", "--force", "--task", str(task))
        assert done.returncode == 0, done.stderr + done.stdout + self.said()
        return str(json.loads(done.stdout)["job"])

    def states(self, user: str = "bob") -> dict[str, str]:
        """Return how all jobs stand, as a user sees it; nothing while nobody answers."""
        done = self.run(user, "jobs", "--json")
        if done.returncode != 0:
            return {}
        return {job["id"]: job["state"] for job in json.loads(done.stdout)["jobs"]}

    def open(self, gate: str) -> None:
        """Let jobs end."""
        (self.gate / gate).touch()

    def starts(self) -> Counter[str]:
        """Return how many containers of each job the engine has started."""
        client = self.engine.client()
        events = client.events(
            since=int(self.since), until=int(time.time()) + 1, decode=True,
            filters={"event": "start", "label": "gpuconsole.job"},
        )  # fmt: skip
        return Counter(event["Actor"]["Attributes"]["gpuconsole.job"] for event in events)

    def ended(self, jobs: Sequence[str]) -> None:
        """Wait until these jobs, which are all, have succeeded, each in one container."""
        until(lambda: self.states() == dict.fromkeys(jobs, "succeeded"), self.said)
        assert self.starts() == Counter(jobs)
        print("jobs lost 0, doubled 0")

    def said(self) -> str:
        """Return what both heads have said."""
        return f"first:\n{self.first.said()}\nsecond:\n{self.second.said()}"

    def close(self) -> None:
        """End both heads."""
        for head in (self.first, self.second):
            with contextlib.suppress(ProcessLookupError):
                head.signal(signal.SIGCONT)
            head.kill()


@pytest.fixture
def heads(docker_lab: Lab, tmp_path: Path) -> Iterator[Heads]:
    made = Heads(docker_lab, tmp_path)
    try:
        yield made
    finally:
        made.close()


def until(condition: Callable[[], object], said: Callable[[], str]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


def taken_over(heads: Heads, began: float, what: str) -> None:
    """Wait until the second head leads, and print how long that took."""
    until(lambda: heads.second.state().get("leads"), heads.said)
    took_s = time.monotonic() - began
    print(f"\ntake-over {what}: {took_s:.1f} s, of which {AFTER_S:.0f} s were waited for")


def test_a_head_that_is_killed_is_taken_over_and_stands_by_when_it_is_back(heads: Heads) -> None:
    heads.begin()
    running = [heads.submit("ada", f"long-{number}") for number in range(2)]
    until(lambda: set(heads.starts()) == set(running), heads.said)
    queued = [heads.submit("ada", f"short-{number}") for number in range(2)]
    # The last one is acknowledged: nothing is waited for between this and the end of the head.
    began = time.monotonic()
    heads.first.kill()
    taken_over(heads, began, "after kill -9")
    assert set(heads.states()) == {*running, *queued}
    # The first one is back, as systemd starts it: with the same words.
    heads.first.start()
    until(lambda: heads.first.stands_by, heads.said)
    assert heads.first.state()["active"] == heads.second.state()["name"]
    refused = heads.first.host.run(
        ["curl", "-s", "--unix-socket", "/run/gpuconsole/queue.sock", "http://lab/v1/audit"]
    )
    assert b"is on standby; " in refused.stdout
    for gate in ("long-0", "long-1", "short-0", "short-1"):
        heads.open(gate)
    heads.ended([*running, *queued])


def test_a_head_that_was_cut_off_or_frozen_launches_nothing_when_it_is_back(heads: Heads) -> None:
    heads.begin()
    running = [heads.submit("ada", name) for name in ("one", "two")]
    until(lambda: set(heads.starts()) == set(running), heads.said)
    waiting = heads.submit("ada", "three")
    began = time.monotonic()
    heads.first.host.cut()
    taken_over(heads, began, "after the network was cut")
    # Its service lives on and has a job that waits, and knows of no other head.
    assert heads.first.state()["leads"]
    heads.open("one")
    until(lambda: waiting in heads.starts(), heads.said)
    heads.first.host.heal()
    heads.lab.connect()
    until(lambda: heads.first.stands_by, heads.said)
    assert "leads the lab's queue now; this head is on standby" in heads.first.said()
    # Now the second one stands still for as long as it takes, and then goes on as if nothing were.
    heads.second.signal(signal.SIGSTOP)
    took_s = heads.first.take_over(heads.folder)
    print(f"\ntake-over by command: {took_s} s")
    late = heads.submit("ada", "four")
    heads.open("two")
    until(lambda: late in heads.starts(), heads.said)
    heads.second.signal(signal.SIGCONT)
    until(lambda: heads.second.stands_by, heads.said)
    for gate in ("three", "four"):
        heads.open(gate)
    heads.ended([*running, waiting, late])
