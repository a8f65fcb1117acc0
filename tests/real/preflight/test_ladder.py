"""The ladder of tiers on real parts: commands measure by themselves what reading does not tell."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuconsole.preflight.tiers.ladder import CLIMBED
from gpuconsole.tui.widgets.form import Form
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk
from tests.tui.console import opened

pytestmark = pytest.mark.real

HIDDEN = """
import ctypes
import paddle

net = paddle.nn.Linear(64, ctypes.c_long(10).value)
opt = paddle.optimizer.Adam(parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([512, 64]), paddle.randint(0, 10, [512])])
for x, y in paddle.io.DataLoader(data, batch_size=16):
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
"""A script of which reading does not tell how wide its layer is."""
WITH_DATA = HIDDEN.replace(
    "[paddle.randn([512, 64]),",
    "[paddle.to_tensor(__import__('numpy').load('/data/x.npy')),",
)
"""The same with data that only the host has."""


def run(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        desk.command(*words), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        stdin=subprocess.DEVNULL, cwd=desk.project,
    )  # fmt: skip


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def require_climbed(tiers: list[dict[str, Any]], host: str) -> None:
    """Assert that reading told nothing, and that a measured tier then answered on a host."""
    assert tiers[0]["tier"] == "static"
    assert tiers[0]["outcome"] == "unknown"
    last = tiers[-1]
    assert last["outcome"] == "answered", tiers
    assert last["tier"] in CLIMBED
    assert last["host"] == host
    assert last["seconds"] > 0


def test_preflight_measures_on_a_host_what_reading_does_not_tell(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path, "lab:\n  measure: auto\n")
    script = str(desk.script(HIDDEN))

    words = ("preflight", script, "--backend", "cpu")
    never = document(run(desk, *words, "--measure", "never", "--json"))
    assert never["memory"] is None
    assert {tier["outcome"] for tier in never["tiers"]} == {"unknown", "impossible"}

    done = run(desk, *words, "--json")
    found = document(done)
    assert done.returncode == 0, done.stderr
    require_climbed(found["tiers"], host.name)
    assert found["memory"]["tensors_peak_mib"] > 0
    assert "measured" in done.stderr

    told = run(desk, *words)
    assert "Tiers that were tried" not in told.stdout
    assert found["tier"] in told.stdout


def test_submit_measures_with_the_data_of_the_job_before_it_queues(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path, "lab:\n  measure: auto\n")
    data = data_of(host, tmp_path)
    script = str(desk.script(WITH_DATA))
    done = run(
        desk, "submit", script, "--backend", "cpu", "--hold", "--mount", f"{data}:/data", "--json"
    )
    found = document(done)
    assert done.returncode == 0, done.stderr
    require_climbed(found["tiers"], host.name)
    assert found["estimate_mib"] > 0


def data_of(host: LabHost, folder: Path) -> Path:
    """Lay out data that only the account which runs jobs on a host may read."""
    data = folder / "data"
    data.mkdir()
    np.save(data / "x.npy", np.zeros((512, 64), "float32"))
    os.chown(data, host.uid, host.uid)
    data.chmod(0o700)
    return data


TRAINER = """
import argparse, os, sys
import yaml
sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "..")))
from zoo import build, train
parser = argparse.ArgumentParser()
parser.add_argument("-c", "--config", required=True)
with open(parser.parse_args().config) as file:
    config = yaml.safe_load(file)
os.makedirs("output", exist_ok=True)
train(build(config), config)
"""
ZOO = """
import ctypes
import numpy as np
import paddle

REGISTRY = {"Net": lambda width: paddle.nn.Sequential(
    paddle.nn.Linear(64, ctypes.c_long(width).value), paddle.nn.ReLU(),
    paddle.nn.Linear(width, 10))}

def build(config):
    return REGISTRY[config["net"]](config["width"])

def train(net, config):
    images = paddle.to_tensor(np.load(config["data"]))
    labels = paddle.zeros([len(images)], "int64")
    opt = paddle.optimizer.Momentum(parameters=net.parameters())
    pairs = paddle.io.TensorDataset([images, labels])
    for image, label in paddle.io.DataLoader(pairs, batch_size=config["batch"], shuffle=True):
        loss = paddle.nn.functional.cross_entropy(net(image), label)
        loss.backward()
        opt.step()
        opt.clear_grad()
"""
CONFIG = "net: Net\nwidth: 4096\nbatch: 32\ndata: /data/x.npy\n"


async def test_the_submit_screen_measures_a_trainer_with_its_data_on_a_host(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path, "lab:\n  measure: auto\n")
    for name, text in (("tools/train.py", TRAINER), ("zoo/__init__.py", ZOO),
                       ("configs/net.yml", CONFIG)):  # fmt: skip
        (desk.project / name).parent.mkdir(exist_ok=True)
        (desk.project / name).write_text(text)
    data = data_of(host, tmp_path)
    monkeypatch.chdir(desk.project)
    async with desk.session() as session:
        await session.first_frames(30)
        async with opened(session, size=(160, 48)) as console:
            await console.press("4")
            await console.shows("preflight")
            console.app.screen.query_one(Form).fill(
                {
                    "script": "tools/train.py",
                    "args": "-c configs/net.yml",
                    "mounts": f"{data}:/data",
                }
            )
            await console.shows("measuring")
            await console.shows(f"meta {host.name}", "answered")
            await console.until(lambda: "measuring" not in console.text)
            assert "FITS" in console.text
