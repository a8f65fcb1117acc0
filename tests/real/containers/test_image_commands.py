"""The image commands on real engines behind SSH: list, check, copy, pin, and a build."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.cli.entry import main
from gpuconsole.session.images.dockerfile import dockerfile
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.sessions import Desk

pytestmark = pytest.mark.real


@pytest.fixture
def engines(docker_lab: Lab) -> tuple[LabDocker, LabDocker]:
    first, second = docker_lab.add(devices=1), docker_lab.add(devices=1)
    return first.start_engine(), second.start_engine(paddle=False)


def said(capsys: pytest.CaptureFixture[str], desk: Desk, *words: str, status: int = 0) -> Any:
    base = ["--inventory", str(desk.inventory), "--state", str(desk.state), "image"]
    code = main([*base, *words, "--json"])
    out = capsys.readouterr().out
    assert code == status, out
    return json.loads(out)


async def test_an_image_is_checked_copied_and_pinned(
    docker_lab: Lab,
    engines: tuple[LabDocker, LabDocker],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    desk = Desk(docker_lab, tmp_path / "desk")

    async def asked(*words: str, status: int = 0) -> Any:
        return await asyncio.to_thread(said, capsys, desk, *words, status=status)

    found = await asked("check", PADDLE_IMAGE, "--host", "lab-01", status=1)
    # A real Paddle answered, and it is the build for processors on a host that has a GPU.
    assert found["paddle"].startswith("3.")
    assert (found["built_for"], found["device"]) == ("cpu", "cpu")
    assert "A100" in found["given"]
    assert "processors alone" in found["faults"][0]
    assert engines[0].client().containers(all=True) == []

    listed = await asked("list")
    (image,) = listed["hosts"][0]["images"]
    assert (image["name"], image["paddle"]) == (PADDLE_IMAGE, found["paddle"])
    assert listed["hosts"][1]["images"] == []

    copied = await asked("copy", PADDLE_IMAGE, "--from", "lab-01", "--to", "lab-02")
    assert copied["copies"][0]["id"] == image["id"]
    assert engines[1].client().inspect_image(PADDLE_IMAGE)["Id"] == image["id"]
    assert (await asked("list", "--host", "lab-02"))["hosts"][0]["images"][0]["id"] == image["id"]

    pin = await asked("pin", PADDLE_IMAGE)
    assert pin["reference"] == image["id"]
    task = tmp_path / "task.yaml"
    task.write_text(f"task:\n  script: train.py\n  image: {PADDLE_IMAGE}  # the lab's\n")
    await asked("pin", PADDLE_IMAGE, "--task", str(task))
    assert task.read_text() == f"task:\n  script: train.py\n  image: {image['id']}  # the lab's\n"

    absent = await asked("copy", "lab/none:1", "--from", "lab-01", "--to", "lab-02", status=3)
    assert absent["error"]["title"] == "Image is not there"
    wrong = await asked("check", "lab/a@sha256:12", "--host", "lab-01", status=2)
    assert wrong["error"]["title"] == "Wrong digest"


SCRIPT = """
import os
import numpy
import model
print("uid", os.getuid(), model.ANSWER, numpy.zeros(3).sum())
"""


def test_a_dockerfile_builds_and_its_image_runs(
    engines: tuple[LabDocker, LabDocker], tmp_path: Path
) -> None:
    lab = engines[0]
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "model.py").write_text("ANSWER = 42\n")
    made = dockerfile(tmp_path / "train.py", tmp_path, PADDLE_IMAGE)
    assert made.packages == ("numpy",)
    (tmp_path / "Dockerfile").write_text(made.text)
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name in ("train.py", "model.py", "Dockerfile"):
            tar.add(tmp_path / name, name)
    first = build(lab, context)
    # The second time only the code's layer is made again.
    (tmp_path / "model.py").write_text("ANSWER = 43\n")
    again = io.BytesIO()
    with tarfile.open(fileobj=again, mode="w") as tar:
        for name in ("train.py", "model.py", "Dockerfile"):
            tar.add(tmp_path / name, name)
    second = build(lab, again)
    layers = [lab.client().inspect_image(one)["RootFS"]["Layers"] for one in (first, second)]
    assert layers[0][:-1] == layers[1][:-1]
    assert layers[0][-1] != layers[1][-1]
    client = lab.client()
    host_config = client.create_host_config(network_mode="none")
    container = client.create_container(second, host_config=host_config)
    client.start(container)
    assert client.wait(container)["StatusCode"] == 0, client.logs(container)
    assert client.logs(container).split() == b"uid 1000 43 0.0".split()


def build(lab: LabDocker, context: io.BytesIO) -> str:
    context.seek(0)
    client = lab.client()
    lines = list(
        client.build(
            fileobj=context, custom_context=True, decode=True, network_mode="none", rm=True
        )
    )
    errors = [line["error"] for line in lines if "error" in line]
    assert not errors, lines
    return next(line["aux"]["ID"] for line in lines if "aux" in line)
