"""Lengths and chances that only data gives, where the script itself says more of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight.tiers import measured, probe_request
from tests.real.meta.probe_answers import really, said

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[3]
HEAD = """
import json, sys
from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.script import answers
from gpuconsole.preflight.meta.state import STATE
hook.install()
import paddle
hook.ready(paddle, {}, "cpu")
answers.install("/nowhere")
x = paddle.rand([4, 1, 64, 64])
x.stop_gradient = False
mask = paddle.rand([4 * 64 * 64]) > 0.5
"""


def _run(script: str) -> Any:
    return json.loads(really(HEAD + script, way="tier").splitlines()[-1])


def test_a_shape_settles_how_much_a_mask_picks() -> None:
    found = _run("""
found = []
for _ in range(2):
    picked = (x * 2).reshape([-1])[mask]
    part = picked.reshape([2, 32, 32, 1])
    (part * part).mean().backward()
    found.append([picked.shape, part.shape, x.grad.shape])
print(json.dumps([[list(map(int, one)) for one in row] for row in found]))
""")
    part, whole = [2, 32, 32, 1], [4, 1, 64, 64]
    # The first time the mask may pick everything; from then on it is known how much.
    assert found == [[[16384], part, whole], [[2048], part, whole]]


def test_a_tensor_of_known_length_settles_how_much_a_mask_picks() -> None:
    found = _run("""
found = []
for _ in range(2):
    picked = (x * 2).reshape([-1])[mask]
    found.append([picked.shape, (picked - paddle.rand([512])).shape])
print(json.dumps([[list(map(int, one)) for one in row] for row in found]))
""")
    assert found == [[[16384], [512]], [[512], [512]]]


def test_shapes_that_no_length_lets_fit_are_the_scripts_error() -> None:
    found = _run("""
try:
    (x * 2).reshape([-1])[mask].reshape([5, 32, 32, 9])
except ValueError as error:
    print(json.dumps("capacity" in str(error)))
""")
    assert found is True


def test_numpy_draws_by_chances_that_are_unknown() -> None:
    found = _run("""
import numpy
weights = paddle.nn.functional.normalize(x.reshape([-1])[:8], p=1, axis=0)
drawn = numpy.random.choice(8, 2, p=weights.numpy())
counts = numpy.random.multinomial(5, weights.numpy())
try:
    numpy.random.choice(2, p=[0.9, 0.3])
except ValueError:
    drawn = [*drawn, 99]
print(json.dumps([len(drawn), int(counts.sum())]))
""")
    # Chances that the script gives itself stay what they are.
    assert found == [3, 5]


PARTS = """
import paddle
{prim}
net = paddle.nn.Sequential(paddle.nn.Linear(64, 256), paddle.nn.Silu(), paddle.nn.LayerNorm(256))
adam = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(5):
    loss = net(paddle.rand([512, 64])).square().mean()
    loss.backward()
    adam.step()
    adam.clear_grad()
"""
PRIM = (
    "paddle.framework.core.set_prim_eager_enabled(True)\n"
    "paddle.framework.core._set_prim_all_enabled(True)"
)


EARLY = """
import sys

import paddle

net = paddle.nn.Linear(64, 64)
adam = paddle.optimizer.Adam(parameters=net.parameters())
for _ in range(5):
    loss = net(paddle.rand([512, 64])).square().mean()
    if loss < 1e-9:
        {leave}
    loss.backward()
    adam.step()
    adam.clear_grad()
"""


def _document(script: Path) -> Any:
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    return said(question)["document"]


def test_an_early_exit_does_not_pass_for_all_there_is(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(EARLY.format(leave="break"))
    trained = measured.load(_document(script))
    assert trained.refusal == ""
    assert measured.NO_STEP not in trained.notes
    script.write_text(EARLY.format(leave="sys.exit()"))
    left = measured.load(_document(script))
    assert left.refusal == measured.SKIPPED
    assert left.estimate(None, backend="cpu").memory is None


def _peak(tmp_path: Path, prim: str) -> int:
    script = tmp_path / "train.py"
    script.write_text(PARTS.format(prim=prim))
    run = _document(script)["runs"][0]
    live = most = 0
    for event in run["events"]:
        live += run["sizes"][event] if event >= 0 else -run["sizes"][~event]
        most = max(most, live)
    return most


def test_gradients_of_parts_take_no_less_than_whole_ones(tmp_path: Path) -> None:
    assert _peak(tmp_path, PRIM) == _peak(tmp_path, "")


PICKED = """
import sys

import paddle

net = paddle.nn.Linear(64, 256)
sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for _ in range(4):
    y = net(paddle.rand([512, 64]))
    mask = (paddle.arange(512) < {rows}).unsqueeze(-1).tile([1, 256])
    picked = paddle.masked_select(y, mask).reshape([-1, 256])
    (picked.exp() * picked).mean().backward()
    sgd.step()
    sgd.clear_grad()
    del y, picked
"""
TOLD = """
from paddle.base import core
print(core.host_memory_stat_peak_value("Allocated", 0))
"""


def test_the_range_says_how_little_a_mask_may_pick(tmp_path: Path) -> None:
    """What it picks only data tells: the answer is a bound, and no mask leaves its range."""
    script = tmp_path / "train.py"
    # A number that is drawn hides how many rows there are.
    script.write_text(PICKED.format(rows="paddle.randint(1, 512, [1])"))
    found = measured.load(_document(script)).estimate(None, backend="cpu")
    assert "bound" in found.flags
    assert found.memory is not None
    for rows in (1, 64, 512):
        truth = int(really(PICKED.format(rows=rows) + TOLD).splitlines()[-1]) / MIB
        assert found.memory.low_mib <= truth <= found.memory.high_mib
    assert found.memory.low_mib > 0.15 * found.memory.tensors_peak_mib


def test_rows_between_places_of_unknown_data_are_as_many_as_their_distance() -> None:
    found = _run("""
top = (paddle.rand([4, 2]) * 64).astype("int32")
found = []
for number in (1, 16):
    STATE.number = number
    far = top + 8
    found.append([x[0, :, top[0, 1]:far[0, 1], top[0, 0] - 1:far[0, 0] + 1].shape,
                  x[0, 0, far[0, 0] - 8:far[0, 0]].shape, int(far[0, 0] - top[0, 0]) > 0])
    far[:] = 3
    found[-1].append(x[0, 0, int(far[0, 0]):].shape)
print(json.dumps([[one if one is True else list(map(int, one)) for one in row] for row in found]))
""")
    cut = [[1, 8, 10], [8, 64], True]
    assert found == [[*cut, [63, 64]], [*cut, [48, 64]]], "what was written to is as unknown"


def test_chances_stay_chances() -> None:
    """Whatever other numbers of unknown data are: a metric refuses more than 1."""
    found = _run("""
chance = paddle.nn.functional.sigmoid(paddle.rand([2, 1]))
both = paddle.concat([1 - chance, chance], axis=1)
found = []
for number in (1, 16):
    STATE.number = number
    found.append([float(both.numpy().max()), float((both + 1).numpy().max())])
    metric = paddle.metric.Auc("ROC")
    metric.update(preds=both.numpy(), labels=paddle.to_tensor([[0], [1]]).numpy())
print(json.dumps(found))
""")
    assert [row[0] for row in found] == [1, 1 / 16]
    assert found[1][1] > 1


def test_one_of_some_classes_is_picked_for_each_row() -> None:
    found = _run("""
labels = (paddle.rand([6]) * 9).astype("int64")
marked = paddle.nn.functional.one_hot(labels, 9).unsqueeze([2, 3])
marked = paddle.expand(marked, [6, 9, 7, 7])
print(json.dumps([list(map(int, paddle.nonzero(one).shape)) for one in
                  (marked, marked.cast("bool"), marked[:3])] + [sorted(STATE.choices)]))
""")
    every, cast, some, choices = found
    assert every == cast == [6 * 7 * 7, 4]
    assert some == [3 * 9 * 7 * 7, 4]
    assert len(choices) == 1, "of the first three rows nothing is known"
