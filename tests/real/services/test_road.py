"""The whole road on real parts: inventory, live fleet, preflight, placement, container, result."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.real.rig import forks
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S

TRAIN = """
import argparse
import json
import os

import paddle
from paddle import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--steps", type=int, default=20)
options = parser.parse_args()


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(3, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16 * 16, 10)

    def forward(self, x):
        x = nn.functional.relu(self.conv(x))
        return self.head(paddle.flatten(x, start_axis=1))


net = Net()
adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=net.parameters())
for step in range(options.steps):
    image = paddle.randn([options.batch_size, 3, 16, 16])
    label = paddle.randint(0, 10, [options.batch_size])
    loss = nn.functional.cross_entropy(net(image), label)
    loss.backward()
    adam.step()
    adam.clear_grad()
    print(f"step={step + 1}/{options.steps} loss={float(loss):.4f}", flush=True)

with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "result.json"), "w") as out:
    json.dump({"steps": options.steps, "loss": float(loss)}, out)
"""


class Desk:
    """A user's machine: an inventory, a state folder, a project, and the command."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.inventory = folder / "inventory.yaml"
        self.inventory.write_text(lab.inventory())
        self.state = folder / "state"
        self.project = folder / "project"
        self.project.mkdir()
        self.script = self.project / "train.py"
        self.script.write_text(TRAIN)
        self.folder = folder

    def command(self, *words: str) -> list[str]:
        """Return the full command line."""
        base = [sys.executable, "-m", "gpuconsole"]
        return [*base, "--inventory", str(self.inventory), "--state", str(self.state), *words]

    def run(self, *words: str, timeout: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return forks.typed(self.command(*words), timeout)

    def json(self, *words: str, status: int = 0) -> Any:
        """Run a command that succeeds and return its document."""
        done = self.run(words[0], "--json", *words[1:])
        assert done.returncode == status, done.stderr + done.stdout
        return json.loads(done.stdout)

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job as `jobs --json` shows it."""
        found: dict[str, Any] = next(
            job for job in self.json("jobs")["jobs"] if job["id"] == job_id
        )
        return found


@pytest.fixture
def desk(docker_lab: Lab, tmp_path: Path) -> Desk:
    docker_lab.add().start_engine()
    return Desk(docker_lab, tmp_path)


def test_a_paddle_script_goes_from_submit_to_its_result(desk: Desk, docker_lab: Lab) -> None:
    status = desk.json("status")
    assert [host["state"] for host in status["hosts"]] == ["up"]
    assert len(status["hosts"][0]["devices"]) == 2

    answer = desk.json("preflight", str(desk.script))
    assert answer["tier"] == "static"
    assert {verdict["verdict"] for verdict in answer["verdicts"]} == {"fits"}

    job_id = desk.json("submit", str(desk.script), "--", "--steps", "20")["job"]
    done = desk.run("wait", job_id)
    assert done.returncode == 0, done.stderr + desk.run("logs", job_id).stdout

    job = desk.job(job_id)
    assert job["state"] == "succeeded"
    assert job["exit_code"] == 0
    assert job["host"] == docker_lab.hosts[0].name
    assert set(job["devices"]) <= set(docker_lab.hosts[0].uuids)
    lines = desk.run("logs", job_id).stdout.splitlines()
    assert [line for line in lines if line.startswith("step=20/20")]

    folder = desk.folder / "results"
    assert desk.run("fetch", job_id, "--to", str(folder)).returncode == 0
    found = next(folder.rglob("result.json"))
    assert json.loads(found.read_text())["steps"] == 20


def test_a_console_killed_while_a_job_runs_loses_nothing(desk: Desk) -> None:
    job_id = desk.json("submit", str(desk.script), "--", "--steps", "400")["job"]
    dispatcher = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
    try:
        _until(lambda: desk.job(job_id)["state"] == "running")
    finally:
        dispatcher.kill()
        dispatcher.wait()
    assert desk.run("wait", job_id).returncode == 0
    job = desk.job(job_id)
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    steps = [
        line for line in desk.run("logs", job_id).stdout.splitlines() if line.startswith("step=")
    ]
    # From its first line to its last, once each: the log was taken anew, the job was not.
    assert [line.split()[0] for line in steps] == [f"step={n}/400" for n in range(1, 401)]


def test_a_script_that_fails_has_its_cause_named(desk: Desk) -> None:
    desk.script.write_text("import paddle\nimport no_such_module\n")
    job_id = desk.json("submit", str(desk.script), "--force")["job"]
    assert desk.run("wait", job_id).returncode == 1
    job = desk.job(job_id)
    assert job["state"] == "failed"
    assert "no_such_module" in job["cause"]


def test_a_job_is_cancelled_while_it_runs(desk: Desk) -> None:
    desk.script.write_text("import time\nprint('step=1/2', flush=True)\ntime.sleep(600)\n")
    job_id = desk.json("submit", str(desk.script), "--force")["job"]
    dispatcher = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
    try:
        _until(lambda: desk.job(job_id)["state"] == "running")
        assert desk.run("cancel", job_id).returncode == 0
        _until(lambda: desk.job(job_id)["state"] == "cancelled")
    finally:
        dispatcher.terminate()
        assert dispatcher.wait(PATIENCE_S) == 0


def test_two_consoles_share_a_lab_and_never_a_device(desk: Desk, docker_lab: Lab) -> None:
    """Two users with a journal each queue three jobs each for the two devices of one host."""
    other = Desk.__new__(Desk)
    other.__dict__.update(desk.__dict__)
    other.state = desk.folder / "other-state"
    desk.script.write_text(
        "import os, time\nprint(os.listdir('/dev'), flush=True)\ntime.sleep(1)\n"
    )
    jobs = {
        console: [
            console.json("submit", str(desk.script), "--force", "--name", f"n{n}")["job"]
            for n in range(3)
        ]
        for console in (desk, other)
    }
    running = [
        subprocess.Popen(console.command("dispatch"), stderr=subprocess.DEVNULL)
        for console in (desk, other)
    ]
    try:
        for console, ids in jobs.items():
            for job_id in ids:
                _until(lambda c=console, j=job_id: c.job(j)["state"] == "succeeded")  # type: ignore[misc]
    finally:
        for process in running:
            process.terminate()
            process.wait(PATIENCE_S)
    spans: dict[str, list[tuple[str, str]]] = {}
    for console, ids in jobs.items():
        for job_id in ids:
            job = console.job(job_id)
            assert job["attempt"] == 1
            for uuid in job["devices"]:
                spans.setdefault(uuid, []).append((job["started_at"], job["ended_at"]))
    for taken in spans.values():
        taken.sort()
        for (_, ended), (started, _) in itertools.pairwise(taken):
            assert ended <= started
    assert set(spans) <= set(docker_lab.hosts[0].uuids)


def _until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "not reached in time"
        time.sleep(0.2)


def test_the_command_needs_no_terminal(desk: Desk) -> None:
    done = subprocess.run(
        desk.command("jobs"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "TERM": "dumb"},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0
