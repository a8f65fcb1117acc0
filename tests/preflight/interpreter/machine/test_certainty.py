"""The static tier accuses no script on a guess, and makes no estimate of what it did not follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.preflight import Analysis, analyse
from gpuconsole.preflight.interpreter.paddle.nn.weighted_layers import Linear
from tests.preflight.forms import DATA, HEAD, LOOP, NET, WHOLE

Scan = Callable[..., Analysis]
TRAIN = "fit(Net(), 32)\n"
WRONG = "fit(nn.Linear(63, 10), 32)\n"


def unknown(estimate: Estimate) -> str:
    """Check that there is neither a figure nor a fault; return why."""
    assert estimate.errors == ()
    assert estimate.memory is None
    assert estimate.tier == "unknown"
    return estimate.unknowns[0].reason


@pytest.mark.parametrize(
    "before",
    [
        "import spam\nspam.prepare()\n",
        "import os\nif os.environ['MODE'] == 'a':\n    width = 1\n",
        "import spam\nfor one in spam.names():\n    print(one)\n",
        "state = paddle.load('a.pdparams')\nprint(state['epoch'])\n",
        "import spam\ntry:\n    spam.set_up()\n    1 / spam.two\nexcept Exception:\n    pass\n",
    ],
)
def test_a_fault_behind_an_unknown_is_an_unknown(scan: Scan, before: str) -> None:
    assert scan(WHOLE + WRONG).estimate().errors
    reason = unknown(scan(WHOLE + before + WRONG).estimate())
    assert "[32, 64]" in reason or "64" in reason
    assert "uncertain: train.py" in reason


@pytest.mark.parametrize(
    "loop",
    ["for step in range(8):\n", "step = 0\nwhile step < 8:\n    step += 1\n"],
)
def test_no_fault_is_made_of_what_a_loop_would_have_filled(scan: Scan, loop: str) -> None:
    head = WHOLE.partition("def fit")[0]
    body = (
        "    loss = net(paddle.rand([32, 64])).mean()\n    loss.backward()\n    opt.step()\n"
        "    opt.clear_grad()\n    rates.append(opt.get_lr())\n"
    )
    start = (
        "net = Net()\nopt = paddle.optimizer.SGD(0.1, parameters=net.parameters())\nrates = []\n"
    )
    found = scan(f"{head}{start}{loop}{body}assert rates[0] <= rates[6]\n").estimate()
    assert found.errors == ()
    assert found.memory is not None


def test_no_fault_is_made_of_what_the_script_catches(scan: Scan) -> None:
    tried = (
        "def fits(x):\n    try:\n        Net()(x)\n        return True\n    except ValueError:\n"
        "        return False\nassert fits(paddle.rand([2, 64]))\n"
        "assert not fits(paddle.rand([2, 7]))\nfit(Net(), 32)\n"
    )
    found = scan(WHOLE + tried).estimate()
    assert found.errors == ()
    assert found.memory is not None
    assert scan(WHOLE + tried.replace("ValueError", "KeyError")).estimate().errors


def test_a_module_that_is_only_imported_makes_no_fault_uncertain(scan: Scan) -> None:
    assert scan("import spam\n" + WHOLE + WRONG).estimate().errors


@pytest.mark.parametrize(
    "wrong",
    [
        "a, b = {unknown}, *()\nif {unknown}:\n    pass\na, b = [1]\n",
        "config = {{}}\nconfig[{unknown}] = 1\nprint(config['model'])\n",
        "kind = {unknown}\nif not isinstance(kind, int):\n    raise ValueError(kind)\n",
        "assert len({unknown}) >= 0 and not [1][1:]\nassert [] or [0][1]\n",
        "def f(a):\n    return a\nf({unknown}, 2)\n",
        "state = paddle.optimizer.Adam(parameters=Net().parameters()).state_dict()\nstate['a']\n",
    ],
)
def test_no_kind_of_fault_is_certain_behind_an_unknown(scan: Scan, wrong: str) -> None:
    text = "import spam\n" + WHOLE + wrong.format(unknown="spam.ham()") + TRAIN
    assert scan(text).estimate().errors == ()


def test_lengths_that_vary_collide_for_certain_nowhere(scan: Scan) -> None:
    text = HEAD + """
        x = paddle.randn([8, 64])
        mask = paddle.randn([8]) > 0
        nn.Linear(64, 4)(x[mask].reshape([9, 64]))
    """.replace("\n        ", "\n")  # fmt: skip
    assert scan(text).estimate().errors == ()


def test_an_answer_of_the_user_is_no_fault_of_the_script(write: Callable[..., Path]) -> None:
    script = write("import spam\n" + WHOLE + "fit(nn.Linear(spam.width(), 10), 32)\n")
    assert analyse(script, assumptions={"spam.width()": "64"}).estimate().memory is not None
    reason = unknown(analyse(script, assumptions={"spam.width()": "63"}).estimate())
    assert "spam.width()" in reason


def test_a_required_argument_is_missed_for_certain(scan: Scan) -> None:
    text = (
        "import spam\nspam.prepare()\n"
        + WHOLE
        + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
args = parser.parse_args()
fit(Net(args.width), 32)
"""
    )
    assert "--width is required" in scan(text).estimate().errors[0].message
    hidden = text.replace("args = parser", "if spam.on():\n    args = parser")
    assert scan(hidden).estimate().errors == ()


@pytest.mark.parametrize("decorated", ["@spam.main(config='a')\n", "@spam.main\n"])
def test_what_an_unknown_decorator_makes_is_unknown(scan: Scan, decorated: str) -> None:
    """`@hydra.main` calls the function with an argument that the script does not give."""
    text = "import spam\n" + WHOLE + decorated + "def main(config):\n    fit(Net(), 32)\nmain()\n"
    assert "spam" in unknown(scan(text).estimate())


def test_a_decorator_of_the_script_that_gives_nothing_gives_nothing(scan: Scan) -> None:
    text = WHOLE + "def keep(f):\n    names.append(f)\nnames = []\n@keep\ndef g():\n    pass\n"
    assert scan(text + "fit(Net() if g is None else Net(9), 32)\n").estimate() .memory == scan(
        WHOLE + TRAIN).estimate().memory  # fmt: skip


@pytest.mark.parametrize(
    "loop",
    [
        "net = spam.build()\nfor x, y in paddle.io.DataLoader(Data(), batch_size=8):\n    net(x)\n",
        "for x, y in paddle.io.DataLoader(Data(), batch_size=8):\n    x = x + 1\n",
        "net, loss = Net(), spam.Loss()\nopt = spam.make(net)\n"
        "for x, y in paddle.io.DataLoader(Data(), batch_size=8):\n"
        "    F.cross_entropy(net(x), y).backward()\n    opt.step()\n",
        "net, opt = Net(), None\nhead = spam.head()\n"
        "opt = paddle.optimizer.Adam(parameters=net.parameters())\n"
        "for x, y in paddle.io.DataLoader(Data(), batch_size=8):\n"
        "    head(x).backward()\n    net(x).sum().backward()\n    opt.step()\n",
        "nets = [Net(), Net()]\nopt = paddle.optimizer.Adam(parameters=nets[0].parameters())\n"
        "other = spam.make(nets[1])\n"
        "for x, y in paddle.io.DataLoader(Data(), batch_size=8):\n"
        "    (nets[0](x) + nets[1](x)).sum().backward()\n"
        "    opt.step()\n    other.step()\n    other.clear_grad()\n",
        "net, aside = Net(), Net(7)\n"
        "opt = paddle.optimizer.Adam(parameters=[*net.parameters(), *aside.parameters()])\n"
        "for x, y in paddle.io.DataLoader(Data(), batch_size=8):\n"
        "    aside(spam.more(y))\n    net(x).sum().backward()\n    opt.step()\n",
    ],
)
def test_what_was_not_followed_has_no_estimate(scan: Scan, loop: str) -> None:
    """A network, a loss or an optimizer that is not known leaves no figure, however small."""
    unknown(scan("import spam\n" + HEAD + NET + DATA + LOOP + loop).estimate())


def test_a_forward_pass_alone_has_an_estimate(scan: Scan) -> None:
    text = HEAD + NET + DATA + (
        "net = Net()\nwith paddle.no_grad():\n"
        "    for x, y in paddle.io.DataLoader(Data(), batch_size=8):\n        net(x)\n"
    )  # fmt: skip
    memory = scan(text).estimate().memory
    assert memory is not None
    assert memory.parameters_mib > 0


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, AssertionError])
def test_an_error_inside_the_analysis_is_an_unknown(
    scan: Scan, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def broken(*_: object) -> None:
        raise error("'Photo' object has no attribute 'shape'")

    monkeypatch.setattr(Linear, "forward", broken)
    unknown(scan(WHOLE + TRAIN).estimate())


@pytest.mark.parametrize(
    "loop", ["for epoch in range(500):\n", "epoch = 0\nwhile epoch < 500:\n    epoch += 1\n"]
)
def test_a_network_is_not_followed_again_and_again_once_the_answer_is_unknown(
    scan: Scan, loop: str
) -> None:
    step = "    loss = spam.loss(net(x))\n    loss.backward()\n    opt.step()\n"
    text = "import spam\n" + WHOLE + (
        "net, x = Net(), paddle.randn([8, 64])\n"
        "opt = paddle.optimizer.SGD(parameters=net.parameters())\n"
    )  # fmt: skip
    once = scan(text + loop.replace("500", "2") + step)
    often = scan(text + loop + step)
    assert often.outcome().steps < once.outcome().steps + 200
    assert unknown(often.estimate()) == unknown(once.estimate())


def test_a_walk_over_the_data_before_the_optimizer_is_no_training(scan: Scan) -> None:
    """What is normalised with, say, is gathered first; the training itself is not known here."""
    text = "import spam\n" + WHOLE + (
        "net, data = Net(), paddle.io.DataLoader(Data(), batch_size=32)\n"
        "for x, y in data:\n    net(x)\n"
        "opt = paddle.optimizer.SGD(parameters=net.parameters())\n"
        "for x in spam.load():\n    if x.ready:\n        spam.fit(net, x, opt)\n"
    )  # fmt: skip
    unknown(scan(text).estimate())


@pytest.mark.parametrize(
    ("change", "answered"),
    [
        ("import paddleslim\npaddleslim.set_log_level('x')\nnet = Net()\n", True),
        ("import paddleslim\nnet = Net()\npaddleslim.QAT(config={}).quantize(net)\n", False),
        ("from paddleslim.dygraph import L1NormFilterPruner as P\n"
         "net = Net()\nP(net, [1, 64]).prune_vars({}, 0)\n", False),
    ],
)  # fmt: skip
def test_a_network_that_a_library_changes_is_not_known(
    scan: Scan, change: str, answered: bool
) -> None:
    found = scan(WHOLE + change + "fit(net, 32)\n").estimate()
    assert found.errors == ()
    assert (found.memory is not None) is answered
