"""What a script does seldom, or until data ends it, against Paddle's own allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight.tiers import measured, probe_request
from tests.real.meta.probe_answers import peak, really, said

pytestmark = pytest.mark.real
PEAK = """
stat = paddle.base.core.host_memory_stat_peak_value
print()
print(stat("Allocated", 0))
"""
EVERY_STEPS = """
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(64, 256), paddle.nn.Tanh(), paddle.nn.Linear(256, 8))
adam = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(1, 300):
    net(paddle.randn([16, 64])).square().mean().backward()
    adam.step()
    adam.clear_grad()
    if step % 140 == 0:
        net.eval()
        with paddle.no_grad():
            net(paddle.randn([4096, 64]))
        net.train()
"""
EVERY_EPOCHS = """
import paddle
class Options:
    save_every = 15
net = paddle.nn.Sequential(paddle.nn.Linear(64, 2048), paddle.nn.Tanh(), paddle.nn.Linear(2048, 8))
adam = paddle.optimizer.Adam(parameters=net.parameters())
def train(options):
    for epoch in range(40):
        for _ in range(12):
            for _ in range(40):
                paddle.randn([4, 64]).abs()
            net(paddle.randn([4, 64])).square().mean().backward()
            adam.step()
            adam.clear_grad()
        if (epoch + 1) % options.save_every == 0:
            paddle.save([net.state_dict(), adam.state_dict()], "net.pdparams")
train(Options())
"""
LBFGS = """
import paddle
net = paddle.nn.Sequential(paddle.nn.Linear(2, 128), paddle.nn.Tanh(), paddle.nn.Linear(128, 1))
x = paddle.linspace(0, 3, 400).reshape([200, 2])
y = paddle.sin(5 * x.sum(1, keepdim=True))
lbfgs = paddle.optimizer.LBFGS(parameters=net.parameters(), LINE max_iter=60, history_size=30)
def closure():
    lbfgs.clear_grad()
    loss = paddle.nn.functional.mse_loss(net(x), y)
    loss.backward()
    return loss
for _ in range(4):
    lbfgs.step(closure)
"""
SCRIPTS = {
    "steps": EVERY_STEPS,
    "epochs": EVERY_EPOCHS,
    "line search": LBFGS.replace("LINE", "line_search_fn='strong_wolfe',"),
    "no line search": LBFGS.replace("LINE", "learning_rate=1e-2,"),
}


def _held(script: Path) -> int:
    """Return the most bytes that a script really holds."""
    return int(really(f"{script.read_text()}{PEAK}", cwd=script.parent).split()[-1])


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_comes_seldom_is_in_the_answer(tmp_path: Path, name: str) -> None:
    (script := tmp_path / "train.py").write_text(SCRIPTS[name])
    real = _held(script)
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    run = said(question)["document"]["runs"][0]
    assert peak(run) == pytest.approx(real, rel=0.03)


def test_iterations_that_end_early_leave_the_rest_of_the_history_out(tmp_path: Path) -> None:
    """How many there are only data tells: the range goes down to a history without them."""
    (script := tmp_path / "train.py").write_text(
        SCRIPTS["line search"].replace("paddle.sin(5 * x.sum(1, keepdim=True))", "x[:, :1]")
        .replace("max_iter", "tolerance_grad=1.0, max_iter")
    )  # fmt: skip
    real = _held(script)
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    answered = said(question)["document"]
    memory = measured.load(answered).estimate(None, backend="cpu").memory
    assert memory is not None
    assert memory.low_mib * MIB <= real < 0.8 * memory.tensors_peak_mib * MIB


SOLVED = """
import paddle
from paddle.incubate.optimizer.functional import minimize_lbfgs
net = paddle.nn.Linear(8, 8)
sgd = paddle.optimizer.SGD(parameters=net.parameters())
for _ in range(3):
    net(paddle.randn([4, 8])).mean().backward()
    sgd.step()
    sgd.clear_grad()
matrix = paddle.eye(200) * 2
minimize_lbfgs(lambda x: (x * paddle.matmul(matrix, x)).sum() - x.sum(), paddle.randn([200]))
"""


def test_loops_that_only_data_ends_are_ended(tmp_path: Path) -> None:
    (script := tmp_path / "train.py").write_text(SOLVED)
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    run = said(question)["document"]["runs"][0]
    assert run["reached"] == "end"
