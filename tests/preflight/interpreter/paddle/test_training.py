"""Optimizers, precision, recompute and sharding by hand-worked figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Memory
from gpuconsole.core.units import MIB
from gpuconsole.preflight import Analysis, Card, analyse, verdicts
from gpuconsole.preflight.memory.backends import TERMS, terms
from gpuconsole.preflight.memory.trace import Trace
from gpuconsole.preflight.memory.variant import Variant

Write = Callable[..., Path]
ENCODER = """
import paddle
from paddle import nn

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, 4)
        self.head = nn.Linear(256, 16)
    def forward(self, x):
        return self.head(self.encoder(self.head_in(x)))
    def head_in(self, x):
        return x

net = Net()
opt = paddle.optimizer.{optimizer}(parameters=net.parameters())
{prepare}
for step in range(4):
    x = paddle.randn([BATCH, 128, 256])
    x.stop_gradient = False
    {context}
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
PLAIN = "loss = net(x).mean()"
LAYER = 4 * 256 * 256 + 2 * 256 * 1024
"""Elements of the matrices of one encoder layer: four projections and two linear layers."""


@pytest.fixture
def encoder(write: Write) -> Callable[..., Analysis]:
    def make(context: str = PLAIN, prepare: str = "", optimizer: str = "Adam") -> Analysis:
        text = ENCODER.replace("BATCH", "8").replace("{context}", context)
        return analyse(write(text.replace("{prepare}", prepare).replace("{optimizer}", optimizer)))

    return make


def memory(analysis: Analysis, batch: int = 8, variant: Variant = Variant(),  # noqa: B008
           backend: str = "gpu") -> Memory:  # fmt: skip
    found = analysis.estimate(batch, backend=backend, variant=variant).memory  # type: ignore[arg-type]
    assert found is not None
    return found


def saved(trace: Trace) -> int:
    """Bytes alive when the first backward pass begins."""
    events = trace.events[: trace.backwards[0]]
    return sum(trace.sizes[one] if one >= 0 else -trace.sizes[~one] for one in events)


def slope_and_fixed(analysis: Analysis, variant: Variant) -> tuple[float, float]:
    small, large = (saved(analysis.outcome(batch, "gpu", variant).trace) for batch in (8, 16))
    slope = (large - small) / 8
    return slope, small - 8 * slope


def test_o1_saves_halves_of_weights_and_a_quarter_of_activations(
    encoder: Callable[..., Analysis],
) -> None:
    analysis = encoder()
    analysis.estimate(8)
    full, fixed = slope_and_fixed(analysis, Variant())
    mixed, more = slope_and_fixed(analysis, Variant(amp="O1"))
    # Paddle's own program of this encoder under auto_cast keeps 23 % less for each sample: the
    # norms, the softmax and the sums with single-precision biases stay as they are.
    assert mixed / full == pytest.approx(0.77, abs=0.03)
    assert more - fixed == 2 * (4 * LAYER + 256 * 16)


def test_o2_makes_halves_of_parameters_and_keeps_masters(encoder: Callable[..., Analysis]) -> None:
    analysis = encoder()
    plain, half = memory(analysis), memory(analysis, variant=Variant(amp="O2"))
    norms = 4 * 2 * 2 * 256 * 4
    count = (plain.parameters_mib * MIB - norms) / 4
    assert half.parameters_mib * MIB == pytest.approx(2 * count + norms)
    # Two moments and a master copy in single precision, the norms' parameters without one.
    assert half.optimizer_mib * MIB == pytest.approx(12 * count + 2 * norms, rel=1e-4)
    assert half.activations_mib < 0.62 * plain.activations_mib


def test_a_script_s_own_mixed_precision_equals_the_variant(
    encoder: Callable[..., Analysis],
) -> None:
    wanted = memory(encoder(), variant=Variant(amp="O1")).tensors_peak_mib
    own = encoder(f"with paddle.amp.auto_cast():\n        {PLAIN}")
    assert memory(own).tensors_peak_mib == pytest.approx(wanted, rel=0.005)
    wanted = memory(encoder(), variant=Variant(amp="O2")).tensors_peak_mib
    own = encoder(
        f"with paddle.amp.auto_cast(level='O2'):\n        {PLAIN}",
        "net, opt = paddle.amp.decorate(models=net, optimizers=opt, level='O2')",
    )
    assert memory(own).tensors_peak_mib == pytest.approx(wanted, rel=0.005)


def test_custom_lists_and_master_gradients(encoder: Callable[..., Analysis]) -> None:
    usual = memory(encoder(f"with paddle.amp.auto_cast():\n        {PLAIN}"))
    lists = "custom_white_list={'softmax', 'layer_norm', 'elementwise_add'}"
    more = memory(encoder(f"with paddle.amp.auto_cast({lists}):\n        {PLAIN}"))
    less = memory(encoder(
        f"with paddle.amp.auto_cast(custom_black_list=['matmul_v2']):\n        {PLAIN}"
    ))  # fmt: skip
    plain = memory(encoder())
    assert more.activations_mib < usual.activations_mib < plain.activations_mib
    assert less.tensors_peak_mib == pytest.approx(plain.tensors_peak_mib, rel=0.01)
    o2 = f"with paddle.amp.auto_cast(level='O2'):\n        {PLAIN}"
    make = "net, opt = paddle.amp.decorate(net, opt, level='O2', master_grad={})"
    halves = memory(encoder(o2, make.format(False))).gradients_mib
    masters = memory(encoder(o2, make.format(True))).gradients_mib
    assert masters > 1.8 * halves


def test_mixed_precision_does_nothing_on_the_cpu(encoder: Callable[..., Analysis]) -> None:
    own = encoder(
        f"with paddle.amp.auto_cast(level='O2'):\n        {PLAIN}",
        "net, opt = paddle.amp.decorate(net, opt, level='O2')",
    )
    assert memory(own, backend="cpu") == memory(encoder(), backend="cpu")


def test_recompute_names_its_blocks(encoder: Callable[..., Analysis]) -> None:
    analysis = encoder()
    variant = Variant(recompute=True)
    plain, less = memory(analysis), memory(analysis, variant=variant)
    outcome = analysis.outcome(8, "gpu", variant)
    assert outcome.recomputed == (("encoder.layers", "TransformerEncoderLayer", 4),)
    # Inputs of four layers remain, and one layer's own activations while it is run again.
    assert less.activations_mib < 0.4 * plain.activations_mib
    assert outcome.flops == pytest.approx(analysis.outcome(8, "gpu").flops * 4 / 3, rel=0.01)


def test_sharding_spreads_states_gradients_and_parameters(write: Write) -> None:
    net = "net = paddle.nn.Sequential(*[paddle.nn.Linear(2048, 2048) for _ in range(4)])"
    text = ENCODER.replace("net = Net()", net).replace("{context}", PLAIN).replace("{prepare}", "")
    text = text.replace("{optimizer}", "AdamW").replace("[BATCH, 128, 256]", "[8, 2048]")
    analysis = analyse(write(text))
    whole = memory(analysis)
    shards = {level: memory(analysis, variant=Variant(shard_level=level, shards=4))
              for level in ("os", "os_g", "p_g_os")}  # type: ignore[arg-type] # fmt: skip
    assert shards["os"].optimizer_mib == pytest.approx(whole.optimizer_mib / 4, rel=0.01)
    assert shards["os"].gradients_mib == pytest.approx(whole.gradients_mib, rel=0.01)
    assert shards["os_g"].gradients_mib < 0.7 * whole.gradients_mib
    # A quarter of each matrix, and two matrices put together: the one in use and the next.
    assert shards["p_g_os"].parameters_mib == pytest.approx(whole.parameters_mib * 3 / 4, rel=0.01)


def test_a_distributed_script_is_flagged_and_says_what_is_unproven(
    encoder: Callable[..., Analysis],
) -> None:
    analysis = encoder(
        prepare="paddle.distributed.init_parallel_env()\nnet = paddle.DataParallel(net)"
    )
    estimate = analysis.estimate()
    assert "distributed" in estimate.flags
    assert any("not measured on cards" in note for note in estimate.notes)
    assert memory(analysis).tensors_peak_mib == memory(encoder()).tensors_peak_mib


def test_a_short_loop_that_keeps_its_outputs_is_followed_to_its_end(
    encoder: Callable[..., Analysis],
) -> None:
    kept = memory(encoder("out = net(x)\n    kept.append(out)\n    loss = out.mean()", "kept = []"))
    numbers = memory(encoder(f"{PLAIN}\n    kept.append(loss.item())", "kept = []"))
    assert kept.tensors_peak_mib > numbers.tensors_peak_mib


def test_lbfgs_is_not_guessed(encoder: Callable[..., Analysis]) -> None:
    estimate = encoder(optimizer="LBFGS").estimate()
    assert estimate.memory is None
    assert "LBFGS" in estimate.unknowns[0].reason


def test_the_optimizer_that_steps_rarely_is_waited_for(write: Write) -> None:
    text = """
        import paddle
        from paddle import nn
        often, rarely = nn.Linear(64, 64), nn.Linear(64, 4096)
        one = paddle.optimizer.Adam(parameters=often.parameters())
        two = paddle.optimizer.Adam(parameters=rarely.parameters())
        for step in range(20):
            x = paddle.randn([32, 64])
            often(x).mean().backward()
            one.step()
            one.clear_grad()
            if step % 3 == 0:
                rarely(x).mean().backward()
                two.step()
                two.clear_grad()
    """
    found = memory(analyse(write(text)), 32)
    assert found.optimizer_mib * MIB == pytest.approx(8 * (65 * 64 + 65 * 4096), rel=0.001)
    assert found.gradients_mib * MIB > 4 * 65 * 4096


def test_back_ends_differ_in_one_table(encoder: Callable[..., Analysis]) -> None:
    said = encoder().estimate(backend="npu").notes
    assert any("not compared" in note for note in said)
    assert terms("cpu").proven
    assert not any(row.proven for name, row in TERMS.items() if name != "cpu")
    assert terms("npu").context_spread_mib > terms("gpu").context_spread_mib


STATIC = """
import numpy as np
import paddle
paddle.enable_static()
B = BATCH
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [None, 64], "float32")
    y = paddle.static.data("y", [None, 1], "int64")
    h = paddle.static.nn.fc(x, 256, activation="relu")
    h = paddle.static.nn.fc(h, 256, activation="relu")
    loss = paddle.nn.functional.cross_entropy(paddle.static.nn.fc(h, 10), y)
    paddle.optimizer.SGD(0.1).minimize(loss)
exe = paddle.static.Executor()
exe.run(startup)
for step in range(4):
    feed = {"x": np.zeros([B, 64], "float32"), "y": np.zeros([B, 1], "int64")}
    exe.run(main, feed=feed, fetch_list=[loss])
"""


def test_a_static_program_by_hand(write: Write) -> None:
    analysis = analyse(write(STATIC.replace("BATCH", "512")))
    estimate = analysis.estimate(backend="cpu")
    assert estimate.batch_size == 512
    assert "static-graph" in estimate.flags
    hidden, fed = 512 * 256 * 4, 512 * (64 * 4 + 8)
    parameters = 4 * (65 * 256 + 257 * 256 + 257 * 10)
    # The second layer's backward: the first activation, both gradients of the hidden width, the
    # weight's gradient. Those of the last layer are gone by then.
    wanted = parameters + fed + 3 * hidden + 256 * 256 * 4
    assert memory(analysis, 512, backend="cpu").tensors_peak_mib * MIB == pytest.approx(
        wanted, rel=0.002
    )
    assert memory(analysis, 32, backend="cpu").tensors_peak_mib < 0.5 * wanted / MIB


def test_a_budget_for_a_static_program_leaves_room_for_its_executor(write: Write) -> None:
    analysis = analyse(write(STATIC.replace("BATCH", "512")))
    budget = memory(analysis, 512, backend="cpu").total_mib
    cards = [Card("budget", "", "cpu", limit, exact=True) for limit in (budget, 1.0601 * budget)]
    tight, enough = verdicts.verdicts(analysis, 512, cards)
    assert tight.verdict == "will-not-fit"
    assert tight.max_batch_size is not None
    assert 0.9 * 512 < tight.max_batch_size < 512
    assert enough.verdict == "tight"
    assert enough.max_batch_size in (512, 513)


def test_programs_that_are_not_followed_say_so(write: Write) -> None:
    line = "paddle.static.append_backward(loss)"
    text = STATIC.replace("BATCH", "8").replace("paddle.optimizer.SGD(0.1).minimize(loss)", line)
    estimate = analyse(write(text)).estimate()
    assert estimate.memory is None
    assert "append_backward" in estimate.unknowns[0].reason
    text = "import paddle\nnet = paddle.jit.load('model')\nnet(paddle.randn([2, 3]))\n"
    estimate = analyse(write(text)).estimate()
    assert estimate.memory is None
    assert "loaded from a file" in estimate.unknowns[0].reason


# -- networks that are not trained


@pytest.mark.parametrize(
    ("body", "peak_mib"),
    [
        # 1024 x 1024 floats of weights, 256 x 1024 a tensor; truth by Paddle's own counter.
        ("x = paddle.rand([256, 1024])\nwith paddle.no_grad():\n    y = net(x)", 7.0),
        ("x = paddle.rand([256, 1024])\ny = net(x)", 7.0),
        ("for turn in range(5):\n    x = paddle.rand([256, 1024])\n    y = net(x)", 9.0),
        ("x = paddle.rand([256, 1024])\nfor turn in range(500):\n    y = net(x)", 8.0),
    ],
)
def test_a_network_that_is_only_run_has_the_peak_of_its_forward_pass(
    write: Callable[..., Path], body: str, peak_mib: float
) -> None:
    path = write(
        "import paddle\nfrom paddle import nn\n"
        "net = nn.Sequential(nn.Linear(1024, 1024, bias_attr=False), nn.ReLU())\nnet.eval()\n"
        f"{body}\n"
    )
    found = analyse(path).estimate(backend="cpu")
    assert found.batch_size == 256
    assert found.memory is not None
    assert found.memory.tensors_peak_mib == pytest.approx(peak_mib, abs=0.1)


def test_a_network_that_is_only_run_is_not_estimated_past_what_is_not_understood(
    write: Callable[..., Path],
) -> None:
    path = write(
        "import paddle\nimport pictures_of_nobody\n"
        "net = paddle.nn.Linear(4, 4)\nnet(paddle.rand([2, 4]))\n"
        "for x in pictures_of_nobody.all():\n    net(x)\n"
    )
    assert analyse(path).estimate().memory is None


TWICE = """
import gc
import paddle

def train(net):
    opt = paddle.optimizer.Adam(parameters=net.parameters())
    for _ in range(5):
        net(paddle.ones([1, 1024])).mean().backward()
        opt.step()
        opt.clear_grad()

first = paddle.nn.Linear(1024, 1024, bias_attr=False)
train(first)
{between}
second = paddle.nn.Linear(1024, 1024, bias_attr=False)
train(second)
"""


@pytest.mark.parametrize(
    ("between", "held_mib"),
    [("", 16), ("gc.collect()", 8), ("del first", 16), ("del first\ngc.collect()", 0)],
)
def test_an_optimizer_that_is_let_go_of_lives_until_the_collector_runs(
    scan: Callable[..., Analysis], between: str, held_mib: int
) -> None:
    """Measured with Paddle 3.3.1: each is in a cycle of references, and holds states, parameters
    and their gradients."""
    estimate = scan(TWICE.format(between=between)).estimate(backend="cpu")
    assert estimate.memory is not None
    alone = scan(TWICE.replace("train(first)", "").format(between="del first"))
    memory = alone.estimate(backend="cpu").memory
    assert memory is not None
    more = estimate.memory.tensors_peak_mib - memory.tensors_peak_mib
    assert more == pytest.approx(held_mib, abs=0.1)


BEFORE = """
import paddle

data = paddle.rand([{rows}, 1024])
picked = {picked}
data = None
net = paddle.nn.Linear(1024, 8)
sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for _ in range(5):
    net(paddle.ones([16, 1024])).mean().backward()
    sgd.step()
    sgd.clear_grad()
"""


def test_what_holds_more_than_a_training_has_to_be_known_before_it_too(
    scan: Callable[..., Analysis],
) -> None:
    """Another tensor of unknown size may hold more than what was seen."""
    unknown = scan(BEFORE.format(rows=4096, picked="data[data > 0.5]")).estimate(backend="cpu")
    assert unknown.memory is None
    assert "before its training" in unknown.unknowns[0].reason
    for rows, picked in ((4096, "data.exp().sum()"), (4, "data[data > 0.5]")):
        assert scan(BEFORE.format(rows=rows, picked=picked)).estimate(backend="cpu").memory


def test_a_script_of_one_step_is_answered_where_it_was_seen_whole(
    scan: Callable[..., Analysis],
) -> None:
    """Measured with Paddle 3.3.1: 68,632 bytes."""
    text = (
        "import paddle\nnet = paddle.nn.Linear(64, 64)\n"
        "adam = paddle.optimizer.Adam(parameters=net.parameters())\n"
        "x = paddle.rand([8, 64])\nloss = net(x).mean()\nloss.backward()\n{step}\n"
    )
    estimate = scan(text.format(step="adam.step()\nadam.clear_grad()")).estimate(backend="cpu")
    assert estimate.memory is not None
    assert estimate.memory.tensors_peak_mib * MIB == 68_632
    many = "for line in open('data.txt'):\n    adam.step()\n    net(x).mean().backward()"
    listed = "steps = [adam.step() for line in open('data.txt')]"
    for step in ("", "adam.step()\nimport spam\nspam.go(x)", many, listed):
        assert scan(text.format(step=step)).estimate(backend="cpu").memory is None
