"""The estimate against real Paddle on the CPU, byte counters and all."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight import analyse
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]
EXAMPLES = Path(__file__).parents[3] / "gpuconsole" / "data" / "examples"

# Runs a script for three optimizer steps and prints the peak of the last two. The pause lets the
# loader's queue fill, so that the figure does not depend on how fast its thread is.
HARNESS = """
import os, runpy, sys, time
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import paddle
import paddle.base.core as core
peak = lambda: core.host_memory_stat_peak_value("Allocated", 0)
fetches = 0
old = paddle.io.DataLoader.__iter__
class Batches:
    def __init__(self, inner):
        self.inner = inner
    def __iter__(self):
        return self
    def __next__(self):
        global fetches
        fetches += 1
        if fetches == 2:
            core.host_memory_stat_reset_peak_value("Allocated", 0)
        if fetches == 4:
            print("PEAK", peak(), flush=True)
            os._exit(0)
        batch = next(self.inner)
        time.sleep(0.25)
        return batch
paddle.io.DataLoader.__iter__ = lambda self: Batches(iter(old(self)))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

RECURRENT = """
import argparse
import numpy as np
import paddle
from paddle import nn

class Words(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros(40, "int64"), np.zeros((), "float32")
    def __len__(self):
        return 4000

class Tagger(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(3000, 48)
        self.rnn = nn.GRU(48, 64, num_layers=2, direction="bidirect")
        self.norm = nn.LayerNorm(128)
        self.out = nn.Linear(128, 1)
    def forward(self, ids):
        y, _ = self.rnn(self.words(ids))
        y = nn.functional.silu(self.norm(y)).max(axis=1)
        return self.out(y).squeeze(-1)

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
net = Tagger()
opt = paddle.optimizer.RMSProp(1e-3, parameters=net.parameters(),
                               grad_clip=nn.ClipGradByNorm(1.0))
for ids, y in paddle.io.DataLoader(Words(), batch_size=args.batch_size):
    loss = nn.functional.mse_loss(net(ids), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""

RESIDUAL = """
import argparse
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.vision.models import resnet18

class Pictures(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros((3, 64, 64), "float32"), np.int64(i % 7)
    def __len__(self):
        return 4000

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    net = paddle.nn.Sequential(resnet18(num_classes=0), paddle.nn.Flatten(),
                               paddle.nn.Dropout(0.2), paddle.nn.Linear(512, 7))
    opt = paddle.optimizer.Momentum(0.1, parameters=net.parameters(), weight_decay=1e-4)
    for x, y in paddle.io.DataLoader(Pictures(), batch_size=args.batch_size):
        out = net(x)
        loss = F.cross_entropy(out, y, label_smoothing=0.0)
        loss.backward()
        opt.step()
        opt.clear_grad()

main()
"""


def measured_peak(script: Path, args: Sequence[str]) -> int:
    command = [sys.executable, "-c", HARNESS, str(script), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("PEAK")]
    assert lines, done.stderr[-2000:]
    return int(lines[-1].split()[1])


@pytest.mark.parametrize("batch", [8, 32])
@pytest.mark.parametrize("name", ["mnist_cnn", "text_encoder", "recurrent", "residual"])
def test_estimate_equals_real_paddle(name: str, batch: int, tmp_path: Path) -> None:
    script = EXAMPLES / f"{name}.py"
    if not script.exists():
        script = tmp_path / f"{name}.py"
        script.write_text({"recurrent": RECURRENT, "residual": RESIDUAL}[name])
    args = ["--batch-size", str(batch)]
    memory = analyse(script, args).estimate(backend="cpu").memory
    assert memory is not None
    assert memory.tensors_peak_mib * MIB == pytest.approx(measured_peak(script, args), rel=0.05)


@pytest.mark.parametrize("name", ["mnist_cnn", "text_encoder"])
def test_examples_run(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--steps", "20", "--batch-size", "8"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GPUCONSOLE_RESULTS": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("step=")]
    assert len(lines) == 20
    assert "loss=" in lines[-1]
    assert (tmp_path / "result.json").exists()
