"""What really ran changes the next answer: peaks, a card that was full, a calibrated context."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.devices.run_history import Observation
from gpuconsole.state import Journal
from tests.real.rig.docker import LabDocker
from tests.real.rig.gpu import driver_tells, gpu_image
from tests.real.rig.hosts import USER, Lab, LabHost
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.patience import PATIENCE_S

TRAIN = """
import argparse
import paddle
from paddle import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--steps", type=int, default=30)
options = parser.parse_args()
net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10))
adam = paddle.optimizer.Adam(learning_rate=0.001, parameters=net.parameters())
for step in range(options.steps):
    x = paddle.randn([options.batch_size, 512])
    loss = net(x).mean()
    loss.backward()
    adam.step()
    adam.clear_grad()
    print("step", step, flush=True)
"""
UNTIL_TOLD = (
    TRAIN
    + """
import os, time
while not os.path.exists(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "go")):
    time.sleep(0.05)
"""
)
CAPACITY_MIB = 4096


class Desk:
    """A user's machine and one host whose devices are stood in by the CPU."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.host: LabHost = lab.add()
        self.host.driver.set(total_mib=CAPACITY_MIB)
        self.engine: LabDocker = self.host.start_engine()
        self.lab = lab
        self.inventory = folder / "inventory.yaml"
        self.state = folder / "state"
        self.script = folder / "project" / "train.py"
        self.script.parent.mkdir()
        self.script.write_text(TRAIN)
        self.image(gpu_image(self.engine))

    def image(self, name: str) -> None:
        """Let the host's containers come from this image."""
        self.inventory.write_text(self.lab.inventory(image=name))

    def run(self, *words: str, timeout: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=timeout, check=False
        )

    def command(self, *words: str) -> list[str]:
        base = [sys.executable, "-m", "gpuconsole", "--inventory", str(self.inventory)]
        return [*base, "--state", str(self.state), *words]

    def job(self, job_id: str) -> dict[str, Any]:
        jobs = self.json("jobs")["jobs"]
        found: dict[str, Any] = next(job for job in jobs if job["id"] == job_id)
        return found

    def until(self, condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.2)

    def json(self, *words: str, status: int = 0) -> Any:
        done = self.run(words[0], "--json", *words[1:])
        assert done.returncode == status, done.stderr + done.stdout
        return json.loads(done.stdout)

    def finished(self, *args: str, status: int = 0) -> dict[str, Any]:
        """Submit the script, wait for its end and return the job."""
        job_id = self.json("submit", str(self.script), "--", *args)["job"]
        done = self.run("wait", job_id)
        assert done.returncode == status, done.stderr + self.run("logs", job_id).stdout
        return self.job(job_id)

    def seen(self) -> tuple[Observation, ...]:
        journal = Journal(self.state, clock=time.time, read_only=True)
        try:
            return journal.observations()
        finally:
            journal.close()

    def driver(self, held_mib: float) -> AbstractContextManager[None]:
        """Let the stand-in driver list the running container's process with so much memory."""
        return driver_tells(self.engine, self.host, held_mib)


@pytest.fixture
def desk(docker_lab: Lab, tmp_path: Path) -> Desk:
    return Desk(docker_lab, tmp_path)


def test_a_job_that_succeeds_is_the_next_answer(desk: Desk) -> None:
    before = desk.json("preflight", str(desk.script))
    assert before["tier"] == "static"
    assert all("not calibrated" in verdict["reason"] for verdict in before["verdicts"])

    job = desk.finished()
    (seen,) = desk.seen()
    assert (seen.job, seen.outcome, seen.backend, seen.batch) == (job["id"], "ok", "gpu", 32)
    assert seen.steps == 30
    assert seen.step_s is not None
    assert seen.tier == "static"
    assert seen.predicted_reserved_mib == before["memory"]["reserved_mib"]
    assert seen.reserved_mib is not None
    assert seen.allocated_mib is not None
    # Paddle's own figure, and a fair one: the CPU's allocator is what preflight is proved on.
    assert seen.allocated_mib == pytest.approx(before["memory"]["tensors_peak_mib"], rel=0.02)
    assert job["peak_mib"] == seen.reserved_mib

    after = desk.json("preflight", str(desk.script))
    assert after["tier"] == "history"
    assert after["memory"]["reserved_mib"] == seen.reserved_mib
    assert after["digest"] == before["digest"]
    assert "ran once with these settings" in after["notes"][0]
    assert after["memory"]["high_mib"] < before["memory"]["high_mib"]
    larger = desk.json("preflight", str(desk.script), "--", "--batch-size", "64")
    assert larger["tier"] == "static"
    desk.script.write_text(TRAIN + "# changed\n")
    assert desk.json("preflight", str(desk.script))["tier"] == "static"


def test_a_job_that_runs_out_changes_the_next_answer(desk: Desk) -> None:
    """The stand-in's card is full at 12 MiB, long before the 4 GiB that its driver tells of."""
    desk.image(gpu_image(desk.engine, full_at_mib=12, name="lab/full:1"))
    before = desk.json("preflight", str(desk.script))
    assert {verdict["verdict"] for verdict in before["verdicts"]} == {"fits"}
    assert all(verdict["oom_probability"] < 0.01 for verdict in before["verdicts"])

    job = desk.finished(status=1)
    assert job["state"] == "oom"
    assert "Out of memory on GPU 0" in job["cause"]
    (seen,) = desk.seen()
    assert (seen.outcome, seen.batch, seen.free_mib) == ("oom", 32, CAPACITY_MIB)
    assert seen.requested_mib
    assert seen.allocated_mib is not None
    assert seen.allocated_mib > 12

    after = desk.json("preflight", str(desk.script), status=1)
    for verdict in after["verdicts"]:
        assert verdict["verdict"] == "will-not-fit"
        assert verdict["oom_probability"] >= 0.99
        assert verdict["reason"].startswith("ran out here at batch 32 on ")
        assert verdict["reason"].endswith("more than 4.0 GiB")
        assert verdict["max_batch_size"] < 32
    assert after["memory"]["total_mib"] > before["memory"]["high_mib"]
    refused = desk.json("submit", str(desk.script), status=1)
    assert refused["error"]["title"] == "It will not fit"
    larger = desk.json("preflight", str(desk.script), "--", "--batch-size", "64", status=1)
    assert "ran out here at batch 32" in larger["verdicts"][0]["reason"]
    smaller = desk.json("preflight", str(desk.script), "--", "--batch-size", "8")
    assert {verdict["verdict"] for verdict in smaller["verdicts"]} == {"fits"}

    good = desk.json("calibrate", "--reliability")
    assert (good["runs"], good["bins"][0]["ran_out"]) == (1, 1)
    assert good["too_few"]


def test_a_calibrated_card_keeps_its_context(desk: Desk) -> None:
    """The figure of the process is the stand-in driver's; what Paddle reserved is Paddle's."""
    with desk.driver(held_mib=460):
        found = desk.json("calibrate", desk.host.name, "--device", "1")
    assert found["uuid"] == desk.host.uuids[1]
    assert "processes" in found["method"]
    # 460 MiB less what the convolution's phase had reserved, a few pages of it.
    assert 380 < found["context_mib"] < 460
    assert found["after_tensor_mib"] >= found["context_mib"]
    left = desk.engine.client().containers(all=True)
    assert not left

    answer = desk.json("preflight", str(desk.script))
    assert answer["memory"]["context_mib"] == found["context_mib"]
    assert all("not calibrated" not in verdict["reason"] for verdict in answer["verdicts"])
    assert any(f"of {desk.host.name}: calibrated, " in note for note in answer["notes"])
    shown = desk.run("preflight", str(desk.script), "--explain")
    assert "not calibrated" not in shown.stdout.lower()


def test_without_a_gpu_build_it_says_what_could_not_be_measured(desk: Desk) -> None:
    done = desk.run("calibrate", desk.host.name, "--image", PADDLE_IMAGE)
    assert done.returncode == 1
    assert "0 MiB" in done.stdout
    assert "not calibrated" in desk.json("preflight", str(desk.script))["verdicts"][0]["reason"]


def test_a_busy_device_is_not_calibrated(desk: Desk) -> None:
    desk.host.driver.set({"0.procs": "1:900", "0.used_mib": 900})
    refused = desk.json("calibrate", desk.host.name, "--device", "0", status=1)
    assert refused["error"]["title"] == "Device is busy"


def test_the_driver_s_figure_is_the_peak_where_it_is_larger(desk: Desk) -> None:
    desk.script.write_text(UNTIL_TOLD)
    job_id = desk.json("submit", str(desk.script))["job"]
    dispatcher = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
    try:
        with desk.driver(held_mib=777):
            desk.until(lambda: desk.job(job_id)["peak_mib"] == 777.0)
        found = desk.host.run(["find", f"/home/{USER}", "-type", "d", "-name", job_id])
        desk.host.run(["touch", f"{found.stdout.decode().strip()}/go"]).check_returncode()
        desk.until(lambda: desk.job(job_id)["state"] == "succeeded")
    finally:
        dispatcher.terminate()
        dispatcher.wait(PATIENCE_S)
    (seen,) = desk.seen()
    assert (seen.nvml_mib, seen.steps) == (777.0, 30)
    assert desk.job(job_id)["peak_mib"] == 777.0


def test_the_first_steps_are_told_while_it_runs_and_stay_when_it_is_removed(desk: Desk) -> None:
    desk.script.write_text(UNTIL_TOLD)
    submitted = desk.json("submit", str(desk.script))
    assert [tier["tier"] for tier in submitted["tiers"]] == ["static"]
    job_id = submitted["job"]
    dispatcher = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
    try:
        desk.until(lambda: desk.job(job_id)["first_steps_mib"] is not None)
        taken = desk.job(job_id)["first_steps_mib"]
        reason = desk.json("why", job_id)["reason"]
        said = f"Paddle took {taken:.0f} MiB at most (reported by the job) of 4.0 GiB"
        assert said in reason
        assert "were predicted" in reason
        (seen,) = desk.seen()
        assert (seen.outcome, seen.reserved_mib) == ("ok", taken)
        assert 3 <= seen.steps <= 30
        client = desk.engine.client()
        for item in client.containers(filters={"status": "running"}):
            client.remove_container(item["Id"], force=True)
        client.close()
        desk.until(lambda: desk.job(job_id)["state"] == "failed")
    finally:
        dispatcher.terminate()
        dispatcher.wait(PATIENCE_S)
    (seen,) = desk.seen()
    assert seen.reserved_mib == taken
    assert desk.json("preflight", str(desk.script))["tier"] == "history"


def test_an_idle_device_measures_and_is_given_back(desk: Desk) -> None:
    device = ("--tier", "device", "--host", desk.host.name)
    found = desk.json("preflight", str(desk.script), *device)
    assert found["tier"] == "device"
    notes = " ".join(found["notes"])
    assert "NVIDIA A100-SXM4-40GB (driver " in notes
    assert "at batch 2" in notes
    assert "at batch 8" in notes
    # The stand-in's figures are those of Paddle's allocator on the processor.
    read = desk.json("preflight", str(desk.script), "--tier", "static")
    peak = read["memory"]["tensors_peak_mib"]
    assert found["memory"]["tensors_peak_mib"] == pytest.approx(peak, rel=0.05)
    assert found["memory"]["reserved_mib"] >= found["memory"]["tensors_peak_mib"]
    assert not desk.engine.client().containers(all=True)
    assert desk.json("preflight", str(desk.script))["tier"] == "device"


def test_a_device_that_is_in_use_is_not_taken(desk: Desk) -> None:
    for index in range(len(desk.host.uuids)):
        desk.host.driver.set({f"{index}.procs": "1:900", f"{index}.used_mib": 900})
    refused = desk.json(
        "preflight", str(desk.script), "--tier", "device", "--host", desk.host.name, status=1
    )
    assert refused["error"]["title"] == "No device is idle"


def test_without_a_device_in_sight_it_says_so(desk: Desk) -> None:
    desk.image(PADDLE_IMAGE)
    refused = desk.json(
        "preflight", str(desk.script), "--tier", "device", "--host", desk.host.name, status=1
    )
    assert "computes on the processor here" in refused["error"]["message"]
    assert not desk.engine.client().containers(all=True)
