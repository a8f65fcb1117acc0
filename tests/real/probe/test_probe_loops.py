"""The traced tier on loops as people write them, against Paddle's own count."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight.tiers import measured, probe_request
from gpuconsole.preflight.tiers.measured import Measured
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

DATA = """
import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F

class Rows(paddle.io.Dataset):
    def __init__(self, rows=4000):
        self.rows = rows
    def __getitem__(self, i):
        return np.zeros([64, 256], "float32"), np.int64(i % 5)
    def __len__(self):
        return self.rows

def loader(batch, rows=4000):
    return paddle.io.DataLoader(Rows(rows), batch_size=batch, use_buffer_reader=False)

def net():
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                         nn.Flatten(), nn.Linear(64 * 256, 5))

"""
PEEK = """
model = net()
next(iter(loader(7)))
for x, y in loader(96):
    with paddle.no_grad():
        model(x)
optimizer = paddle.optimizer.Adam(parameters=model.parameters())
for x, y in loader(64):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
CRITIC = """
maker, critic = net(), nn.Linear(5, 1)
one = paddle.optimizer.Adam(parameters=critic.parameters())
two = paddle.optimizer.Adam(parameters=maker.parameters())
for at, (x, y) in enumerate(loader(64)):
    critic(maker(x).detach()).mean().backward()
    one.step()
    one.clear_grad()
    if at % 5 == 4:
        critic(maker(x)).mean().backward()
        two.step()
        two.clear_grad()
"""
TWENTIETH = """
model = net()
optimizer = paddle.optimizer.SGD(parameters=model.parameters())
for x, y in loader(24):
    x[20].sum()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
WORDS = """
class Texts(Rows):
    def __getitem__(self, i):
        return np.random.RandomState(i).randint(0, 2000, 100).astype("int64"), np.int64(i % 5)

words = nn.Embedding(2000, 256, sparse=True)
head = nn.Linear(256, 5)
optimizer = paddle.optimizer.Adam(parameters=[*words.parameters(), *head.parameters()],
                                  grad_clip=nn.ClipGradByGlobalNorm(1.0))
for x, y in paddle.io.DataLoader(Texts(), batch_size=50, use_buffer_reader=False):
    loss = F.cross_entropy(head(words(x).mean(1)), y)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""
RUN = """
model = net()
model.eval()
for x, y in loader(32):
    with paddle.no_grad():
        model(x)
"""
ENGINE = """
import paddle.inference as inference
model = net()
model.eval()
paddle.jit.save(model, "saved", input_spec=[paddle.static.InputSpec([None, 64, 256], "float32")])
del model
config = inference.Config("saved.json", "saved.pdiparams")
config.enable_use_gpu(100, 0)
engine = inference.create_predictor(config)
handle = engine.get_input_handle(engine.get_input_names()[0])
for at in range(5):
    handle.reshape([32, 64, 256])
    handle.copy_from_cpu(np.zeros([32, 64, 256], "float32"))
    engine.run()
"""
COUNT = """
import os, runpy, sys
import paddle
import paddle.base.core as core
paddle.set_device = lambda *_: None
paddle.inference.Config.enable_use_gpu = lambda *_: None
limit, steps = int(sys.argv[2]), 0
def counted(cls, step):
    def stepped(self, *args, **kwargs):
        global steps
        step(self, *args, **kwargs)
        steps += 1
        if steps == limit:
            told()
    cls.step = stepped
def told():
    print("PEAK", core.host_memory_stat_peak_value("Allocated", 0), flush=True)
    os._exit(0)
for cls in (paddle.optimizer.Adam, paddle.optimizer.Optimizer):
    counted(cls, cls.step)
runpy.run_path(sys.argv[1], run_name="__main__")
told()
"""


def measure(
    script: Path, mode: probe_request.Mode = "traced"
) -> tuple[Measured, list[dict[str, Any]]]:
    """Measure a script of which the static tier says nothing; return the runs too."""
    asked = probe_request.build(None, script, (), mode)
    done = subprocess.run(
        [sys.executable, str(probe_request.PROBE / "probe.py")], input=json.dumps(asked),
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=script.parent,
    )  # fmt: skip
    last = json.loads(done.stdout.splitlines()[-1])
    assert "document" in last, last
    return measured.load(last["document"]), last["document"]["runs"]


def peak(script: Path, steps: int) -> int:
    """Return the bytes that Paddle itself counts until so many steps, or the script's end."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(script), str(steps)], capture_output=True, text=True,
        timeout=PATIENCE_S, check=False, cwd=script.parent,
    )  # fmt: skip
    found = [one for one in done.stdout.splitlines() if one.startswith("PEAK")]
    assert found, done.stderr
    return int(found[-1].split()[1])


@pytest.mark.parametrize(
    ("text", "own", "ran", "steps"),
    [
        pytest.param(PEEK, 64, [2, 4], 3, id="peeked-and-evaluated-first"),
        pytest.param(CRITIC, 64, [2, 4], 12, id="an-optimizer-that-steps-rarely"),
        pytest.param(TWENTIETH, 24, [24, 48], 3, id="no-small-batch-will-do"),
        pytest.param(WORDS, 50, [2, 4, 8, 50], 3, id="not-a-line-in-the-batch"),
        pytest.param(ENGINE, 32, [32], 0, id="an-inference-engine"),
    ],
)
def test_the_batch_size_is_found_and_the_peak_is_paddles_own(
    tmp_path: Path, text: str, own: int, ran: list[int], steps: int
) -> None:
    script = tmp_path / "main.py"
    script.write_text(DATA + text)
    one, runs = measure(script)
    assert [each["batch"] for each in runs] == ran
    found = one.estimate(backend="cpu")
    assert found.batch_size == own
    assert found.memory is not None
    # By chance one gradient is freed late or early, and waiting batches are there or not at the
    # moment of the peak. An engine keeps a tensor longer, and on a busy machine all of its weights
    # twice: so the truth is the least of several of its runs, what one holds that is not disturbed.
    true = min(peak(script, steps) for _ in range(5 if text == ENGINE else 1)) / MIB
    told = found.memory.tensors_peak_mib
    chance = 2.1 if text == ENGINE else 0.75
    late = 1.2 * true if text == ENGINE else 0.0
    waiting = found.memory.inputs_mib * 5 / 6
    assert true - chance <= told <= true + waiting + chance + late


@pytest.mark.parametrize(
    ("text", "own", "steps"),
    [
        pytest.param(PEEK, 64, 3, id="peeked-and-evaluated-first"),
        pytest.param(TWENTIETH, 24, 3, id="no-small-batch-will-do"),
        pytest.param(RUN, 32, 0, id="a-network-that-is-only-run"),
    ],
)
def test_without_data_the_script_is_run_at_its_own_batch_size(
    tmp_path: Path, text: str, own: int, steps: int
) -> None:
    script = tmp_path / "main.py"
    script.write_text(DATA + text)
    one, runs = measure(script, "meta")
    assert [each["batch"] for each in runs] == [own, 2 * own]
    found = one.estimate(backend="cpu")
    assert (found.batch_size, found.tier) == (own, "meta")
    assert found.memory is not None
    true, told = peak(script, steps) / MIB, found.memory.tensors_peak_mib
    assert true - 0.75 <= told <= true + found.memory.inputs_mib * 5 / 6 + 0.75
