"""The probe beside real Paddle: what it measures at small batches holds at larger ones."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight import analyse
from gpuconsole.preflight.probe import measure as measuring
from gpuconsole.preflight.tiers import measured, probe_request
from gpuconsole.preflight.tiers.measured import Measured
from tests.real.rig import forks
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

SETUP = """
import argparse
import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
args = parser.parse_args()
paddle.set_device("gpu")
"""
NETWORK = (
    SETUP
    + """
class Pictures(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros((3, 24, 24), "float32"), np.int64(i % 5)
    def __len__(self):
        return 4000

net = nn.Sequential(nn.Conv2D(3, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(),
                    nn.MaxPool2D(2), nn.Flatten(), nn.Linear(16 * 144, 50), nn.GELU(),
                    nn.Linear(50, 5))
optimizer = paddle.optimizer.AdamW(parameters=net.parameters())
loader = paddle.io.DataLoader(Pictures(), batch_size=args.batch_size, num_workers=2)
print("a line of the script's own")
for picture, label in loader:
    loss = F.cross_entropy(net(picture), label)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    print(float(loss))
"""
)
PAIRS = (
    SETUP
    + """
net = nn.Linear(30, 8)
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
while True:
    z = net(paddle.rand([args.batch_size, 30]))
    loss = F.relu(paddle.matmul(z, z, transpose_y=True)).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
)
# Counts the bytes of the second and third step at one batch size, without our probe.
COUNTER = """
import runpy, sys
import paddle
import paddle.base.core as core
paddle.set_device = lambda *_: None
steps = 0
cls = paddle.optimizer.%s
step = cls.step
def counted(self, *a, **k):
    global steps
    step(self, *a, **k)
    steps += 1
    if steps == 3:
        print("PEAK", core.host_memory_stat_peak_value("Allocated", 0), flush=True)
        import os
        os._exit(0)
cls.step = counted
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def messages(
    script: Path, mode: probe_request.Mode = "traced", **changes: Any
) -> list[dict[str, Any]]:
    """Run the probe on a script and return what it wrote."""
    asked = probe_request.build(analyse(script), script, (), mode) | changes
    question: Any = asked
    done = forks.asked(question, measuring.environment(question), timeout=PATIENCE_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(script: Path, mode: probe_request.Mode = "traced") -> Measured:
    last = messages(script, mode)[-1]
    assert "document" in last, last
    return measured.load(last["document"], analysis=analyse(script))


def peak(script: Path, optimizer: str, batch: int) -> int:
    """Return the bytes that Paddle itself counts in three steps."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTER % optimizer, str(script), "--batch-size", str(batch)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    found = [one for one in done.stdout.splitlines() if one.startswith("PEAK")]
    assert found, done.stderr
    return int(found[-1].split()[1])


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(text: str) -> Path:
        script = tmp_path / "train.py"
        script.write_text(text)
        return script

    return written


def test_a_hand_made_loop_with_pairs_of_samples_is_exact(write: Any) -> None:
    script = write(PAIRS)
    found = measure(script).estimate(300, backend="cpu").memory
    assert found is not None
    assert found.tensors_peak_mib * MIB == pytest.approx(peak(script, "SGD", 300), rel=0.001)


@pytest.mark.parametrize("mode", ["traced", "meta"])
def test_both_tiers_meet_paddles_own_count(write: Any, mode: probe_request.Mode) -> None:
    """Within the waiting batches: the count is taken while the loader's queue is full or not."""
    script = write(NETWORK.replace("num_workers=2", "use_buffer_reader=False"))
    one = measure(script, mode)
    found = one.estimate(64, backend="cpu").memory
    assert found is not None
    waiting = 64 * (3 * 24 * 24 * 4 + 8)
    true = peak(script, "AdamW", 64)
    assert abs(found.tensors_peak_mib * MIB - true) <= 5.1 * waiting
    assert found.parameters_mib * MIB == pytest.approx(4 * (448 + 64 + 115250 + 255), rel=0.01)
    assert found.optimizer_mib > 1.9 * (found.gradients_mib - 0.5)


@pytest.mark.parametrize("sample", ["x", "(x,)"])
def test_a_batch_of_bare_arrays_is_handed_out_bare_and_stays(write: Any, sample: str) -> None:
    """`net(batch)` would fail on a list; used batches stay until Python's collector runs."""
    taken = "batch" if sample == "x" else "batch[0]"
    script = write(
        SETUP
        + f"""
class Samples(paddle.io.Dataset):
    def __getitem__(self, i):
        x = np.zeros([4096], "float32")
        return {sample}
    def __len__(self):
        return 100_000

net = nn.Linear(4096, 4096)
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
for batch in paddle.io.DataLoader(Samples(), batch_size=args.batch_size):
    net({taken}).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""
    )
    traced = measure(script).estimate(256, backend="cpu").memory
    static = analyse(script).estimate(256, backend="cpu").memory
    assert traced is not None
    assert static is not None
    assert traced.tensors_peak_mib == pytest.approx(static.tensors_peak_mib, rel=0.001)


@pytest.mark.parametrize("norm", ["nn.BatchNorm2D", "nn.SyncBatchNorm"])
def test_the_tiers_agree(write: Any, norm: str) -> None:
    """Also of what a CPU has no kernel for: a norm over all ranks, of which there is one."""
    script = write(NETWORK.replace("nn.BatchNorm2D", norm))
    traced = measure(script).estimate(64, backend="cpu").memory
    meta = measure(script, "meta").estimate(64, backend="cpu").memory
    assert traced is not None
    assert meta is not None
    assert meta.tensors_peak_mib == pytest.approx(traced.tensors_peak_mib, rel=0.01)


def test_progress_comes_before_the_document_and_prints_stay_out(write: Any) -> None:
    found = messages(write(NETWORK))
    shares = [one["progress"] for one in found[:-1]]
    assert shares == sorted(shares)
    assert len(shares) > 4
    assert "document" in found[-1]


def test_an_error_names_file_and_line_and_shows_what_was_printed(write: Any) -> None:
    script = write(NETWORK.replace("loss.backward()", "raise ValueError('no more')"))
    error = messages(script)[-1]["error"]
    assert error["kind"] == "script"
    assert "no more" in error["message"]
    assert error["file"] == str(script)
    assert script.read_text().splitlines()[error["line"] - 1].strip().startswith("raise")
    assert "a line of the script's own" in error["output"]


def test_a_script_that_trains_nothing_is_told(write: Any) -> None:
    assert messages(write("print(1)\n"))[-1]["error"]["kind"] == "no-step"


def test_a_script_that_leaves_early_is_told(write: Any) -> None:
    error = messages(write("import os\nos._exit(7)\n"))[-1]["error"]
    assert error["kind"] == "script"
    assert "7" in error["message"]


def test_data_that_would_be_downloaded_is_stood_in(write: Any) -> None:
    text = NETWORK.replace("Pictures(), ", "paddle.vision.datasets.Cifar10(transform=shaped), ")
    text = text.replace("net = ", "shaped = paddle.vision.transforms.ToTensor()\nnet = ", 1)
    script = write(text.replace("16 * 144", "16 * 256").replace("50, 5)", "50, 10)"))
    found = measure(script).estimate(32, backend="cpu")
    assert found.memory is not None
    named = "Not downloaded: the data set cifar; samples of its shapes and types are made up."
    assert named in found.notes
    # Six batches: one at work, five waiting.
    assert found.memory.inputs_mib * MIB == pytest.approx(6 * 32 * (3 * 32 * 32 * 4 + 8), rel=0.01)


def test_weights_that_would_be_downloaded_are_left_out_and_named(write: Any) -> None:
    load = "vision.models.resnet18(pretrained=True, num_classes=4)"
    script = write(NETWORK.replace("net = ", f"whole = paddle.{load}\nnet = ", 1))
    notes = measure(script).estimate(32, backend="cpu").notes
    assert any(one.startswith("Not downloaded: resnet18.pdparams; parameters") for one in notes)


def test_shapes_that_change_are_flagged(write: Any) -> None:
    varying = NETWORK.replace("(3, 24, 24)", "(3, 24 + 2 * (i % 2), 24)")
    script = write(varying.replace("batch_size=args.batch_size", "batch_size=None"))
    document = messages(script, batch={"how": "loader", "value": None})[-1]
    assert "error" in document or measured.load(document["document"]).recording is None


def test_an_unreadable_request_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(probe_request.PROBE / "probe.py")], input="{", capture_output=True,
        text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["error"]["kind"] == "request"
