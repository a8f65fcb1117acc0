"""What a script with data does after its first steps, against Paddle's own count of all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight.probe.notes import GROWS
from gpuconsole.preflight.tiers import measured, probe_request
from tests.real.meta.probe_answers import said
from tests.real.probe.test_probe_loops import peak

pytestmark = pytest.mark.real
SCRIPT = """
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(256, 512), paddle.nn.Tanh(), paddle.nn.Linear(512, 8))
adam = paddle.optimizer.Adam(parameters=net.parameters())
rows = lambda count: paddle.io.TensorDataset([paddle.randn([count, 256])])
train = paddle.io.DataLoader(rows(512), batch_size=32, use_buffer_reader=False)
held = []
for epoch in range({epochs}):
    for (x,) in train:
        out = net(x)
        loss = out.square().mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        {within}
{after}
"""
EVALUATED = """
with paddle.no_grad():
    net(paddle.randn([4096, 256])).sum()
"""
AGAIN = """
big = paddle.nn.Linear(256, 4096)
adam = paddle.optimizer.Adam(parameters=big.parameters())
for epoch in range(3):
    for (x,) in train:
        big(x).square().mean().backward()
        adam.step()
        adam.clear_grad()
"""
LONG_AFTER = """
with paddle.no_grad():
    net(paddle.randn([4096, 256])).sum()
total = sum(number % 7 for number in range(10**8))
"""
SCALED = """
test = paddle.io.DataLoader(rows(4096), batch_size=2048)
for (x,) in test:
    loss = net(x).square().mean()
"""
KEPT = """
test, outs = paddle.io.DataLoader(rows(1000), batch_size=32), []
wide = paddle.nn.Linear(256, 4096)
with paddle.no_grad():
    for (x,) in test:
        outs.append(wide(x))
"""
WHOLE = 10**6
"""More steps than any of these scripts makes."""


def _answer(tmp_path: Path, after: str, within: str = "pass", epochs: int = 3) -> Any:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(after=after, within=within, epochs=epochs))
    return said(probe_request.build(None, script, mode="traced"))


@pytest.mark.parametrize(
    "after",
    [pytest.param(EVALUATED, id="an-evaluation-at-once"), pytest.param(AGAIN, id="a-training"),
     pytest.param(LONG_AFTER, id="an-evaluation-before-much-else"),
     pytest.param(SCALED, id="an-evaluation-of-larger-batches"),
     pytest.param(KEPT, id="an-evaluation-that-keeps"), pytest.param("", id="nothing")],
)  # fmt: skip
def test_what_comes_after_the_first_steps_is_in_the_answer(tmp_path: Path, after: str) -> None:
    found = measured.load(_answer(tmp_path, after)["document"]).estimate(backend="cpu")
    assert found.batch_size == 32
    assert found.memory is not None
    true = peak(tmp_path / "train.py", WHOLE) / MIB
    waiting = found.memory.inputs_mib
    assert true - 0.05 * true <= found.memory.tensors_peak_mib <= true + waiting + 0.05 * true


def test_hundreds_of_epochs_are_left_for_what_comes_after_them(tmp_path: Path) -> None:
    runs = _answer(tmp_path, EVALUATED, epochs=10**6)["document"]["runs"]
    assert runs[0]["reached"] == "end"
    first, *later = runs[0]["peaks"]
    assert max(later) > first + 4096 * 512 * 4 / 2


def test_a_memory_that_grows_with_each_step_is_refused(tmp_path: Path) -> None:
    answer = _answer(tmp_path, "", within="held.append(paddle.ones([64, 1024]))", epochs=10**6)
    assert GROWS in answer["error"]["message"]


def test_what_python_alone_collects_is_no_growth(tmp_path: Path) -> None:
    circle = "own = [paddle.ones([64, 1024])]; own.append(own); del own"
    assert "document" in _answer(tmp_path, "", within=circle, epochs=10**6)


def test_a_script_that_never_comes_to_its_end_says_so(tmp_path: Path) -> None:
    """It waits where nothing can end it but the time."""
    document = _answer(tmp_path, "import threading; threading.Event().wait()")["document"]
    assert {run["reached"] for run in document["runs"]} <= {"steps", "epoch"}


def test_a_loop_that_prepares_batches_for_long_is_never_ended(tmp_path: Path) -> None:
    """Its turns are alike, and the script needs all of them."""
    within = (
        "own = []\n        for number in range(8):\n"
        "            own.append(sum(n % 7 for n in range(10**6)))\n"
        "        assert len(own) == 8"
    )
    assert "document" in _answer(tmp_path, "", within=within, epochs=1)


def test_what_needs_more_memory_later_than_there_is_has_no_answer(tmp_path: Path) -> None:
    needs = "import resource\nresource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))\n"
    answer = _answer(tmp_path, f"{needs}paddle.ones([1 << 32])")
    assert answer["error"]["kind"] == "memory"


def test_a_script_that_breaks_off_later_has_the_answer_of_before(tmp_path: Path) -> None:
    answer = _answer(tmp_path, "raise ValueError('no data')")
    assert any("no data" in note for note in answer["document"]["runs"][0]["notes"])
    assert answer["document"]["runs"][0]["reached"] == "steps"
