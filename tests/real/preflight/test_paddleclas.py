"""PaddleClas as its users have it: its ResNet-50 from a configuration, with pictures on the host.

The package is the real one, as its makers publish it. What it leaves out is written here: the start
file `tools/train.py`, which reads a configuration, a list of pictures and trains.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpuconsole.tui.widgets.form import Form
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk
from tests.tui.console import opened

pytestmark = pytest.mark.real

PACKAGES = Path(sys.prefix) / "share" / "paddleclas"
"""PaddleClas and what it imports beside Paddle, as `make real` installs them."""
PICTURES = 24
BATCH = 8
TRAIN = """
import os, sys
sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "..")))
import numpy as np
import paddle
from PIL import Image
from ppcls.arch import build_model
from ppcls.utils import config, logger

class Pictures(paddle.io.Dataset):
    def __init__(self, image_root, cls_label_path, size):
        self.root, self.size = image_root, size
        with open(cls_label_path) as lines:
            self.items = [line.split() for line in lines]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        name, label = self.items[index]
        picture = Image.open(os.path.join(self.root, name)).convert("RGB")
        pixels = np.asarray(picture.resize((self.size, self.size)), "float32")
        return pixels.transpose(2, 0, 1) / 255, np.int64(label)

if __name__ == "__main__":
    args = config.parse_args()
    settings = config.get_config(args.config, overrides=args.override, show=False)
    output = os.path.join(settings.Global.output_dir, settings.Arch.name)
    logger.init_logger(log_file=os.path.join(output, "train.log"))
    network = build_model(settings)
    train = settings.DataLoader.Train
    loader = paddle.io.DataLoader(
        Pictures(**train.dataset), batch_size=train.sampler.batch_size, shuffle=True,
        drop_last=True)
    optimizer = paddle.optimizer.Momentum(
        settings.Optimizer.lr, settings.Optimizer.momentum, network.parameters(),
        weight_decay=paddle.regularizer.L2Decay(settings.Optimizer.decay))
    network.train()
    for epoch in range(settings.Global.epochs):
        for pictures, labels in loader:
            loss = paddle.nn.functional.cross_entropy(network(pictures), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        paddle.save(network.state_dict(), os.path.join(output, "latest.pdparams"))
"""
CONFIG = f"""
Global: {{output_dir: ./output/, device: cpu, epochs: 1}}
Arch: {{name: ResNet50, class_num: 1000}}
Optimizer: {{lr: 0.1, momentum: 0.9, decay: 0.0001}}
DataLoader:
  Train:
    dataset: {{image_root: /data, cls_label_path: /data/train_list.txt, size: 128}}
    sampler: {{batch_size: {BATCH}}}
"""
COMMAND = ("tools/train.py", "-c", "configs/ResNet50.yaml")
PEAK = """
import runpy, sys
import paddle
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print("peak", paddle.base.core.host_memory_stat_peak_value("Allocated", 0))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout of PaddleClas."""
    source = PACKAGES / "paddleclas" / "ppcls"
    if not source.is_dir():
        pytest.skip("PaddleClas is not installed: make real")
    folder = tmp_path / "PaddleClas"
    shutil.copytree(source, folder / "ppcls")
    for name, text in (("tools/train.py", TRAIN), ("configs/ResNet50.yaml", CONFIG)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    return folder


def pictures_of(host: LabHost, folder: Path) -> Path:
    """Lay out pictures and their list, for the account that runs jobs on a host."""
    data = folder / "data"
    data.mkdir()
    for number in range(PICTURES):
        Image.fromarray(np.full((256, 320, 3), number, "uint8")).save(data / f"{number}.jpg")
    lines = "".join(f"{number}.jpg {number}\n" for number in range(PICTURES))
    (data / "train_list.txt").write_text(lines)
    os.chown(data, host.uid, host.uid)
    data.chmod(0o700)
    return data


def peak_mib(project: Path, data: Path) -> float:
    """Train with real Paddle on this machine; return what its allocator held at most."""
    config = project / "configs" / "ResNet50.yaml"
    config.write_text(CONFIG.replace("/data", str(data)))
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *COMMAND], cwd=project, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGES)}, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    config.write_text(CONFIG)
    return int(done.stdout.split()[-1]) / 2**20


async def test_paddleclas_is_answered_from_its_command_line_with_the_pictures_of_a_host(
    docker_lab: Lab, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = docker_lab.add()
    image = paddle_image(host.start_engine(paddle=False), packages=[PACKAGES])
    desk = Desk(docker_lab, tmp_path, "lab:\n  measure: auto\n")
    data = pictures_of(host, tmp_path)
    monkeypatch.chdir(project)
    async with desk.session() as session:
        await session.first_frames(30)
        async with opened(session, size=(160, 48)) as console:
            await console.press("4")
            await console.shows("preflight")
            console.app.screen.query_one(Form).fill(
                {
                    "script": COMMAND[0],
                    "args": " ".join(COMMAND[1:]),
                    "image": image,
                    "mounts": f"{data}:/data",
                }
            )
            await console.shows("tier static", "FITS")
            await console.press("f8")
            await console.shows("measuring")
            await console.shows(f"meta {host.name}", "answered")
            await console.until(lambda: "measuring" not in console.text)
            assert "FITS" in console.text
    await asyncio.to_thread(require_the_peak_of_a_real_run, desk, project, image, data)


def require_the_peak_of_a_real_run(desk: Desk, project: Path, image: str, data: Path) -> None:
    """Assert that the answers for the CPU are what Paddle's own allocator counts."""
    task = project / "task.yaml"
    task.write_text(
        json.dumps(
            {
                "task": {
                    "script": COMMAND[0],
                    "args": list(COMMAND[1:]),
                    "image": image,
                    "mounts": [f"{data}:/data"],
                }
            }
        )
    )
    truth = peak_mib(project, data)
    for tier, deviation in (("static", 0.02), ("meta", 0.01)):
        done = subprocess.run(
            desk.command(
                "preflight", "--task", str(task), "--backend", "cpu", "--tier", tier, "--json"
            ),
            capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=project,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["tier"] == tier
        assert found["batch_size"] == BATCH
        assert found["memory"]["tensors_peak_mib"] == pytest.approx(truth, rel=deviation)
