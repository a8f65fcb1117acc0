"""Training loops as people write them: the cycle is found, and the tiers agree on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.tiers import measured, probe_request
from tests.real.probe.test_probe import messages

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

HEAD = """
import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F
class Samples(paddle.io.Dataset):
    def __init__(self, count=400):
        self.count = count
    def __getitem__(self, i):
        return np.zeros([64], "float32"), np.int64(i % 3)
    def __len__(self):
        return self.count
net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 3))
def step(x, y):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    return loss
"""
EVALUATED_FIRST = """
loader = paddle.io.DataLoader(Samples(), batch_size=16)
first = next(iter(loader))
assert first[0].shape[1] == 64
@paddle.no_grad()
def evaluate():
    net.eval()
    right = [float((net(x).argmax(-1) == y).astype("float32").mean())
             for x, y in paddle.io.DataLoader(Samples(), batch_size=32)]
    net.train()
    return np.mean(right)
best = evaluate()
opt = paddle.optimizer.Adam(parameters=net.parameters())
for x, y in loader:
    step(x, y)
"""
SHORT_EPOCHS = """
opt = paddle.optimizer.Adam(parameters=net.parameters())
for epoch in range(5):
    for x, y in paddle.io.DataLoader(Samples(6), batch_size=16):
        loss = step(x, y)
    with paddle.no_grad():
        for x, y in paddle.io.DataLoader(Samples(), batch_size=16):
            net(x)
    if loss.item() < 0.5 or paddle.isnan(loss).any():
        paddle.save(net.state_dict(), "best.pdparams")
"""
TWO_LOADERS = """
opt = paddle.optimizer.Adam(parameters=net.parameters())
sampler = paddle.io.BatchSampler(Samples(), batch_size=16, shuffle=True)
one = paddle.io.DataLoader(Samples(), batch_sampler=sampler, num_workers=4)
two = paddle.io.DataLoader(Samples(), batch_size=16, collate_fn=lambda rows: [
    np.stack([row[0] for row in rows]), np.array([row[1] for row in rows])])
for (x, y), (z, t) in zip(one, two):
    step(paddle.concat([x, z]), paddle.concat([y, t]))
"""
GAN = """
class Stream(paddle.io.IterableDataset):
    def __iter__(self):
        for number in range(300):
            yield np.zeros([64], "float32")
judge = nn.Sequential(nn.Linear(3, 256), nn.ReLU(), nn.Linear(256, 1))
opt = paddle.optimizer.Adam(parameters=net.parameters())
other = paddle.optimizer.Adam(parameters=judge.parameters())
for real in paddle.io.DataLoader(Stream(), batch_size=16, drop_last=True):
    made = net(real)
    judge(made.detach()).mean().backward()
    other.step()
    other.clear_grad()
    judge(made).mean().backward()
    opt.step()
    opt.clear_grad()
"""
HAPI = """
model = paddle.Model(net)
paddle.summary(net, (1, 64))
model.prepare(paddle.optimizer.Adam(parameters=model.parameters()), nn.CrossEntropyLoss(),
              paddle.metric.Accuracy())
model.evaluate(Samples(), batch_size=16, verbose=0)
model.fit(Samples(), Samples(), epochs=2, batch_size=16, verbose=0, save_dir="output")
"""
BY_HAND = """
model = paddle.Model(net)
model.prepare(paddle.optimizer.Adam(parameters=model.parameters()), nn.CrossEntropyLoss())
for x, y in paddle.io.DataLoader(Samples(), batch_size=16):
    model.train_batch([x], [y])
"""
REPLACED = """
def made(**how):
    opt = paddle.optimizer.Momentum(parameters=net.parameters(), **how)
    if hasattr(opt, "_use_multi_tensor"):
        opt = paddle.optimizer.Momentum(parameters=net.parameters(), use_multi_tensor=True, **how)
    return opt
opt = made(learning_rate=0.1)
for x, y in paddle.io.DataLoader(Samples(), batch_size=16):
    step(x, y)
"""


@pytest.mark.parametrize(
    "text",
    [EVALUATED_FIRST, SHORT_EPOCHS, TWO_LOADERS, GAN, HAPI, BY_HAND],
    ids=["evaluated-first", "short-epochs", "two-loaders", "gan", "hapi", "by-hand"],
)
def test_the_cycle_is_that_of_the_training_and_the_tiers_agree(tmp_path: Path, text: str) -> None:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(HEAD + text)
    found: dict[str, Any] = {}
    for mode in ("traced", "meta"):
        copy = str(tmp_path / mode)
        batch = {"how": "loader", "value": 16 if mode == "traced" else None}
        sizes = {"batches": [16, 32]} if mode == "traced" else {}
        last = messages(script, mode, source=str(script.parent), root=copy, batch=batch, **sizes)[
            -1
        ]
        assert "document" in last, last
        # The size of the loader that trains, found where nobody told it.
        assert [run["batch"] for run in last["document"]["runs"]] == [16, 32]
        assert all(run["trained"] for run in last["document"]["runs"])
        assert all(run["cycles_seen"] >= 3 for run in last["document"]["runs"])
        memory = measured.load(last["document"]).estimate(64, backend="cpu").memory
        assert memory is not None
        found[mode] = memory.tensors_peak_mib
    assert found["meta"] == pytest.approx(found["traced"], rel=0.02)


def test_a_script_is_told_of_a_card_and_of_the_sizes_of_its_tensors(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        HEAD
        + """
assert paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count() == 1
paddle.set_device("gpu:0")
paddle.to_tensor([1.0], place=paddle.CUDAPinnedPlace())
paddle.set_flags({"FLAGS_cudnn_exhaustive_search": 1, "FLAGS_cudnn_deterministic": True})
assert paddle.get_cudnn_version() // 1000 >= 8
x = paddle.rand([8, 64])
made = nn.Linear(64, 30)(x)
assert paddle.shape(made).tolist() == [8, 30]
assert paddle.full(paddle.shape(made), 1.0).shape == [8, 30]
assert made.reshape([paddle.shape(made)[0], 5, -1]).shape == [8, 5, 6]
assert paddle.numel(made).item() == 240
"""
        + TWO_LOADERS
    )
    last = messages(script, "meta")[-1]
    assert "document" in last, last


def test_a_decision_by_unknown_data_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD + SHORT_EPOCHS)
    notes = "\n".join(measured.load(messages(script, "meta")[-1]["document"]).notes)
    line = next(
        number
        for number, text in enumerate(script.read_text().splitlines(), 1)
        if "loss.item() < 0.5" in text
    )
    assert f"train.py:{line}: a comparison with a number of unknown data is False" in notes
    assert f"train.py:{line}: a test of unknown data is False" in notes


def test_unknown_numbers_are_not_the_same_as_others(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        HEAD
        + """
x = paddle.rand([8, 64])
masks = [(x > 0.5).astype("float32").sum() == 0, x.sum() == 1.0]
assert not any(bool(one) for one in masks)
assert paddle.any(x == 1.0)
"""
        + TWO_LOADERS
    )
    last = messages(script, "meta")[-1]
    assert "document" in last, last


@pytest.mark.parametrize("mode", ["traced", "meta"])
def test_an_optimizer_that_the_script_has_replaced_is_not_waited_for(
    tmp_path: Path, mode: probe_request.Mode
) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD + REPLACED)
    last = messages(script, mode, batch={"how": "loader", "value": 16}, batches=[16])[-1]
    assert "document" in last, last
    assert [run["cycles_seen"] for run in last["document"]["runs"]] == [3]


STARTED = """
import argparse, os
with open({count!r}, "a") as file:
    file.write("x")
"""
FROM_ARGUMENTS = """
words = argparse.ArgumentParser()
words.add_argument("--batch", type=int)
size = words.parse_args().batch
"""
FROM_A_FILE = """
size = int(open("size.yml").read().split(": ")[1])
"""
WRITES = """
assert not os.path.exists("output"), "the run before left something"
os.makedirs("output")
opt = paddle.optimizer.Adam(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Samples(), batch_size=size):
    print(list(range(int(step(x, y)))))
"""
EDIT = {"file": "size.yml", "line": 1, "old": "batch: 16", "new": "batch: {batch}"}


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        (FROM_ARGUMENTS, {"how": "argument", "value": 16, "args": ["--batch", "{batch}"]}),
        (FROM_A_FILE, {"how": "edit", "value": 16, "edits": [EDIT]}),
        ("size = 16\n", {"how": "loader", "value": 16}),
        ("size = 16\n", {"how": "loader", "value": None}),
    ],
)
def test_a_script_is_started_once_for_all_its_runs(
    tmp_path: Path, text: str, batch: dict[str, Any]
) -> None:
    project, count = tmp_path / "project", tmp_path / "count"
    project.mkdir()
    (project / "size.yml").write_text("batch: 16\n")
    script = project / "train.py"
    script.write_text(STARTED.format(count=str(count)) + HEAD + text + WRITES)
    there = {"root": str(tmp_path / "copy"), "source": str(project)}
    last = messages(script, "meta", batch=batch, batches=[16, 32], **there)[-1]
    assert "document" in last, last
    small, large = last["document"]["runs"]
    assert (small["batch"], large["batch"]) == (16, 32)
    assert (small["shapes"][0][0], large["shapes"][0][0]) == ([[16, 64], [16]], [[32, 64], [32]])
    assert small["numbers_at"], "there was a third run, with another number of unknown data"
    assert count.read_text() == "x"
