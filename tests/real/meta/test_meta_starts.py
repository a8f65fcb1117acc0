"""How often a script is started for an answer: its further runs begin in copies of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.preflight.tiers import probe_request
from tests.real.meta.probe_answers import said_afresh

pytestmark = pytest.mark.real
NOTED = 'open("started.txt", "a").write("x")\n'
"""The first line of a script: it notes that it is started."""
NUMBERS = """
import paddle
net = paddle.nn.Linear(16, 16)
sgd = paddle.optimizer.SGD(parameters=net.parameters())
for step in range(6):
    out = net(paddle.randn([8, 16]))
    right = sum(range(int(out.sum())))
    out.sum().backward()
    sgd.step()
    sgd.clear_grad()
"""
"""It asks for numbers of unknown data, and for no batch size."""
OWN_WAY = """
import paddle
net = paddle.nn.Linear(16, 16)
sgd = paddle.optimizer.SGD(parameters=net.parameters())
rows = paddle.io.TensorDataset([paddle.randn([60, 16])])
for batch in paddle.io.DataLoader(rows, batch_size=20):
    net(batch[0]).sum().backward()
    sgd.step()
    sgd.clear_grad()
"""
"""An epoch of it has another number of batches at each size."""


@pytest.mark.parametrize("source", [NUMBERS, OWN_WAY], ids=["numbers", "another way"])
def test_a_script_is_started_once_for_an_answer(tmp_path: Path, source: str) -> None:
    (script := tmp_path / "train.py").write_text(NOTED + source)
    question = probe_request.build(None, script, mode="meta", backend="cpu", size=5)
    answer = said_afresh(question)
    assert answer["document"]["runs"], answer
    assert (tmp_path / "started.txt").read_text() == "x"
