"""What a script keeps: copies of weights, outputs in lists, results that functions remember.

The bytes were measured with Paddle 3.3.1 on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TRAINING = """
import copy
import functools
import numpy
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(784, 256)
        self.b = nn.Linear(256, 10)
    def forward(self, x):
        return self.b(F.relu(self.a(x)))
class Rows(paddle.io.Dataset):
    def __init__(self, count):
        self.count = count
    def __getitem__(self, place):
        return paddle.zeros([784]), 1
    def __len__(self):
        return self.count
def batches(n=4, size=64):
    for _ in range(n):
        yield paddle.randn([size, 784]), paddle.randint(0, 10, [size])
{above}
net = Net()
opt = paddle.optimizer.Adam(1e-3, parameters=net.parameters())
{before}
for epoch in range(3):
    for i, (x, y) in enumerate(batches()):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        {step}
    {epoch}
{after}
"""
PLAIN = 4326088
WEIGHTS = 814120
"""Bytes of the network's parameters."""


def estimate(scan: Scan, **parts: str) -> Estimate:
    written = {"above": "", "before": "", "step": "pass", "epoch": "pass", "after": "", **parts}
    return scan(TRAINING.format(**written)).estimate(backend="cpu")


def peak(scan: Scan, **parts: str) -> int:
    memory = estimate(scan, **parts).memory
    assert memory is not None
    return round(memory.tensors_peak_mib * 2**20)


@pytest.mark.parametrize(
    ("parts", "bytes_more"),
    [
        ({}, 0),
        ({"epoch": "best = copy.deepcopy(net.state_dict())"}, WEIGHTS),
        ({"epoch": "best = copy.deepcopy(net)"}, WEIGHTS),
        ({"epoch": "best = copy.deepcopy(opt.state_dict())"}, 6714280 - PLAIN),
        ({"epoch": "best = {k: v.clone() for k, v in net.state_dict().items()}"}, WEIGHTS),
        ({"before": "state = paddle.load('a.pdparams')\nnet.set_state_dict(state)"}, WEIGHTS),
        ({"before": "net.set_state_dict(paddle.load('a.pdparams'))"}, 0),
        ({"before": "saved = paddle.load('a.pdparams')\nnet.set_state_dict(saved['net'])"},
         WEIGHTS),
        ({"before": "net.set_state_dict(paddle.load('a.pdparams')['net'])"}, 0),
        ({"before": "state = paddle.load('a.pdparams', return_numpy=True)\n"
                    "net.set_state_dict(state)"}, 0),
        ({"before": "paddle.summary(net, (2048, 784))"}, 13659176 - PLAIN),
        ({"before": "paddle.flops(net, [2048, 784])"}, 11430952 - PLAIN),
    ],
)  # fmt: skip
def test_the_peak_is_that_of_paddle(scan: Scan, parts: dict[str, str], bytes_more: int) -> None:
    assert peak(scan, **parts) == pytest.approx(PLAIN + bytes_more, rel=1e-4)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"above": "seen = []", "step": "seen.append(x * 2)"}, "each step makes"),
        ({"above": "class K:\n    seen = []", "step": "K.seen.append(x * 2)"}, "each step makes"),
        ({"above": "seen = []", "epoch": "seen.append(copy.deepcopy(net))"}, "each epoch makes"),
        ({"above": "@functools.lru_cache(None)\ndef table(i):\n    return paddle.randn([100, 784])",
          "step": "table(i + epoch * 10)"}, "each step makes"),
        ({"epoch": "outs = []\n    for x, y in batches(9, 256): outs.append(net(x).detach())"},
         "each batch makes"),
    ],
)  # fmt: skip
def test_what_grows_as_long_as_it_runs_is_unknown(
    scan: Scan, parts: dict[str, str], why: str
) -> None:
    reported = estimate(scan, **parts)
    assert reported.memory is None
    assert why in str(reported.unknowns[0].reason)


def test_losses_in_a_list_count_for_nothing(scan: Scan) -> None:
    assert peak(scan, above="losses = []", step="losses.append(loss)") == pytest.approx(
        PLAIN, rel=1e-4
    )


EVALUATION = """outs = []
    net.eval()
    with paddle.no_grad():
        for x, y in paddle.io.DataLoader(Rows({count}), batch_size=1024):
            {keep}
    net.train()
    {end}"""


def evaluated(scan: Scan, batches: int, keep: str, end: str = "pass") -> int:
    return peak(scan, epoch=EVALUATION.format(count=1024 * batches, keep=keep, end=end))


def test_an_evaluation_keeps_outputs_of_all_its_batches(scan: Scan) -> None:
    """Each batch of 1,024 rows leaves 10 numbers of 4 bytes a row."""
    some, all_ = (evaluated(scan, n, "outs.append(net(x))") for n in (20, 100))
    assert all_ - some == 80 * 1024 * 10 * 4


def test_what_an_evaluation_puts_together_is_of_all_batches(scan: Scan) -> None:
    """Outputs of the first layer are 1 MiB a batch: at the end they are there twice."""
    plain, joined = (
        evaluated(scan, 100, "outs.append(net.a(x))", end)
        for end in ("pass", "paddle.concat(outs)")
    )
    assert plain > 100 * 2**20
    assert joined > 200 * 2**20


@pytest.mark.parametrize(
    "evaluation",
    [
        "outs = [net.a(x).detach() for x, _ in {loader}]\n    joined = paddle.concat(outs)",
        "outs = None\n    for x, y in {loader}:\n        out = net.a(x).detach()\n"
        "        outs = out if outs is None else paddle.concat([outs, out])",
        "outs = []\n    for x, y in {loader}: outs.append(net.a(x).numpy())\n"
        "    joined = paddle.to_tensor(numpy.concatenate(outs))",
        "class Kept: pass\n    kept = Kept()\n    kept.outs = []\n"
        "    for x, y in {loader}: kept.outs.append(net.a(x).detach())\n"
        "    joined = paddle.concat(kept.outs)",
    ],
)
def test_outputs_are_put_together_in_many_ways(scan: Scan, evaluation: str) -> None:
    """Outputs of the first layer are 1 MiB a batch: at the end they are there twice, beside what
    the epoch before has put together."""
    loader = "paddle.io.DataLoader(Rows(102400), batch_size=1024)"
    peak_mib = peak(scan, epoch=evaluation.format(loader=loader)) / 2**20
    assert 200 < peak_mib < 340


def test_arrays_that_grow_with_each_batch_have_the_length_of_all(scan: Scan) -> None:
    loader = "paddle.io.DataLoader(Rows(8192), batch_size=1024)"
    rows = (
        f"rows = numpy.zeros([0, 256], 'float32')\n    for x, y in {loader}:\n"
        "        rows = numpy.vstack([rows, net.a(x).numpy()])\n"
        "    like = paddle.to_tensor(rows @ rows.T)"
    )
    assert peak(scan, epoch=rows) > 8192 * 8192 * 4


def test_a_loader_made_a_list_has_all_its_batches(scan: Scan) -> None:
    loader = "paddle.io.DataLoader(Rows({count}), batch_size=1024)"
    some, all_ = (
        peak(scan, before=f"data = list({loader.format(count=1024 * n)})") for n in (20, 100)
    )
    assert all_ - some == 80 * 1024 * (784 * 4 + 8)


def test_an_evaluation_that_keeps_its_batches_keeps_all_of_them(scan: Scan) -> None:
    some, all_ = (evaluated(scan, n, "outs.append((net(x), x))") for n in (20, 100))
    assert all_ - some == pytest.approx(80 * 1024 * (10 + 784) * 4, rel=0.01)


def graphs(scan: Scan, batches: int) -> int:
    graph = EVALUATION.replace("with paddle.no_grad()", "if True")
    return peak(
        scan, epoch=graph.format(count=1024 * batches, keep="outs.append(net(x))", end="pass")
    )


def test_an_evaluation_that_keeps_the_graph_of_each_batch_keeps_its_activations(
    scan: Scan,
) -> None:
    # The batch and the output of the activation are saved for a backward pass that never comes.
    assert graphs(scan, 100) - graphs(scan, 20) > 80 * 1024 * (784 + 256) * 4


def test_batches_that_wait_when_the_others_are_followed_are_kept_too(scan: Scan) -> None:
    assert graphs(scan, 8) == pytest.approx(39792840, rel=0.03)
    assert graphs(scan, 12) == pytest.approx(56996040, rel=0.03)


def test_an_evaluation_that_keeps_numbers_alone_is_followed_like_another(scan: Scan) -> None:
    numbers, none = (
        evaluated(scan, 100, f"loss = F.cross_entropy(net(x), y); {keep}")
        for keep in ("outs.append(float(loss))", "pass")
    )
    assert numbers == none


def test_outputs_that_are_let_go_add_nothing(scan: Scan) -> None:
    some, all_ = (evaluated(scan, n, "outs = [net(x)]") for n in (20, 100))
    assert some == all_


def test_a_cycle_over_a_loader_keeps_all_its_batches(scan: Scan) -> None:
    """Measured with Paddle 3.3.1: 16 batches of 128 rows are there from the second pass on."""
    steps = (
        "batches_ = itertools.cycle(paddle.io.DataLoader(Rows({count}), batch_size=128))\n"
        "    for k in range(40):\n        x, y = next(batches_)\n"
        "        F.cross_entropy(net(x), y).backward()\n        opt.step(); opt.clear_grad()"
    )
    some, all_ = (
        peak(scan, above="import itertools", epoch=steps.format(count=128 * n)) for n in (8, 16)
    )
    assert all_ - some == 8 * 128 * (784 * 4 + 8)


def test_a_cycle_over_an_unknown_number_of_batches_is_unknown(scan: Scan) -> None:
    unknown = estimate(
        scan,
        above="import itertools, os",
        before="rows = itertools.cycle(paddle.io.DataLoader(Rows(len(os.listdir('data'))), "
        "batch_size=128))\nF.cross_entropy(net(next(rows)[0]), next(rows)[1]).backward()",
    )
    assert unknown.memory is None


@pytest.mark.parametrize(
    "parts",
    [
        {"epoch": EVALUATION.format(count=1024 * 6000, keep="outs.append(net(x))", end="pass")},
        {"before": "data = list(paddle.io.DataLoader(Rows(1024 * 6000), batch_size=1024))"},
        {"before": "data = list(paddle.io.DataLoader(Rows(len(__import__('os').listdir('d'))), "
                   "batch_size=1024))"},
    ],
)  # fmt: skip
def test_what_too_many_batches_keep_is_unknown(scan: Scan, parts: dict[str, str]) -> None:
    answer = estimate(scan, **parts)
    assert answer.memory is None
    assert "each batch makes" in str(answer.unknowns[0].reason)


def test_a_remembered_result_is_made_once(scan: Scan) -> None:
    table = "@functools.lru_cache\ndef table(width):\n    return paddle.randn([width, 784])"
    once = peak(scan, above=table, step="table(1000)")
    assert once == pytest.approx(peak(scan, before="t = paddle.randn([1000, 784])"), rel=1e-4)


def test_results_are_forgotten_where_only_few_are_remembered(scan: Scan) -> None:
    table = (
        "@functools.lru_cache(maxsize=1)\ndef table(width):\n    return paddle.randn([width, 784])"
    )
    last = peak(scan, above=table, step="table(1000 + i % 2)")
    two = peak(scan, before="t = paddle.randn([1001, 784])\nu = paddle.randn([1000, 784])")
    assert last <= two


def test_a_cached_property_stays_with_its_object(scan: Scan) -> None:
    kind = (
        "class Tables:\n    @functools.{kind}\n    def table(self):\n"
        "        return paddle.randn([1000, 784])\ntables = Tables()"
    )
    step = {"before": "tables.table", "step": "pass"}
    kept = peak(scan, above=kind.format(kind="cached_property"), **step)
    assert kept == pytest.approx(PLAIN + 1000 * 784 * 4, rel=1e-4)


def test_a_second_training_of_an_unknown_network_makes_the_memory_unknown(scan: Scan) -> None:
    """The first one is known, and says nothing of how much the second one needs."""
    training = (
        "other = paddle.jit.load('saved')\n"
        "opt = paddle.optimizer.Adam(parameters=other.parameters())\n"
        "for x, y in batches():\n    loss = F.cross_entropy(other(x), y)\n    {step}"
    )
    trained = training.format(step="loss.backward()\n    opt.step()\n    opt.clear_grad()")
    assert estimate(scan, after=trained).memory is None
    assert estimate(scan, after=training.format(step="print(loss.shape)")).memory is not None


SIZED = """
import numpy as np
import paddle
BATCH_SIZE = 16
class Rows(paddle.io.Dataset):
    def __init__(self, count):
        self.count = count
    def __getitem__(self, place):
        return np.zeros([784]), np.zeros([1], "int64")
    def __len__(self):
        return self.count
paddle.set_default_dtype("float64")
net = paddle.nn.Linear(784, 10)
adam = paddle.optimizer.Adam(parameters=net.parameters())
loader = paddle.io.DataLoader(Rows({count}), batch_size=BATCH_SIZE, drop_last=True)
for epoch in range(10):
    for x, y in loader():
        loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        adam.step()
        adam.clear_grad()
"""


def test_the_range_holds_whether_data_grow_with_the_batch_or_not(scan: Scan) -> None:
    """Measured with Paddle 3.3.1 at a batch of 32: 856,688 bytes where the loader alone has it."""
    grown = scan(SIZED.format(count="4 * BATCH_SIZE")).estimate(32, backend="cpu").memory
    fixed = scan(SIZED.format(count=64)).estimate(32, backend="cpu").memory
    assert grown is not None
    assert fixed is not None
    assert fixed.tensors_peak_mib * 2**20 == pytest.approx(856688, rel=0.03)
    assert grown.tensors_peak_mib > 1.4 * fixed.tensors_peak_mib
    assert grown.low_mib <= fixed.tensors_peak_mib
