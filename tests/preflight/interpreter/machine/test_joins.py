"""Conditions that reading cannot decide, and containers of which nobody knows the length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.estimate import Estimate
from gpuconsole.core.units import MIB
from gpuconsole.preflight import analyse

Write = Callable[..., Path]

TRAIN = """
import os
import random
import numpy as np
import paddle
import paddle.nn as nn

{before}

net = nn.Linear(64, 16)
more = nn.Linear(16, {width})
opt = paddle.optimizer.SGD(parameters=[*net.parameters(), *more.parameters()])
best = 0.0
for step in range(100):
    x = net(paddle.zeros([8, 64]))
    {inside}
    loss = more(x).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
UNKNOWN = "os.path.exists('it')"


def estimate(write: Write, before: str = "", width: str = "4", inside: str = "pass") -> Estimate:
    text = TRAIN.format(before=before, width=width, inside=inside.replace("\n", "\n    "))
    return analyse(write(text)).estimate(backend="cpu")


def peak(found: Estimate) -> int:
    assert found.memory is not None, (found.unknowns, found.errors)
    return round(found.memory.tensors_peak_mib * MIB)


@pytest.mark.parametrize(
    ("before", "width"),
    [
        (f"width = 256 if {UNKNOWN} else 8", "width"),
        (f"def pick():\n    if {UNKNOWN}:\n        return 8\n    return 256", "pick()"),
        (f"width = 8\nif not {UNKNOWN}:\n    width = 256", "width"),
        (f"if {UNKNOWN}:\n    width = 256\nelif {UNKNOWN}:\n    width = 32\nelse:\n    width = 8",
         "width"),
    ],
)  # fmt: skip
def test_the_side_that_needs_more_is_kept(write: Write, before: str, width: str) -> None:
    expected = peak(estimate(write, width="256"))
    found = estimate(write, before, width)
    assert peak(found) == expected
    assert "bound" in found.flags
    assert any("cannot be known" in note and "more memory" in note for note in found.notes)


@pytest.mark.parametrize(
    "inside",
    [
        f"if {UNKNOWN}:\n    x = x + paddle.zeros([8, 16])",
        f"if {UNKNOWN}:\n    kept = paddle.zeros([512, 16])",
        "if x.mean() > 0:\n    x = x * paddle.ones([8, 16])",
    ],
)
def test_work_on_one_side_alone(write: Write, inside: str) -> None:
    taken = inside.split("\n")[1].strip()
    found = estimate(write, inside=inside)
    assert peak(found) == peak(estimate(write, inside=taken))


@pytest.mark.parametrize(
    "inside",
    [
        "if loss_is_small():\n    print('small')",
        "if random.random() > 0.5:\n    best = float(x.mean())",
        f"if {UNKNOWN}:\n    paddle.save(net.state_dict(), 'best.pdparams')",
        "seed = random.randint(0, 9)\npaddle.seed(seed)",
    ],
)
def test_what_changes_no_memory_lowers_nothing(write: Write, inside: str) -> None:
    before = f"def loss_is_small():\n    return {UNKNOWN}"
    found = estimate(write, before, inside=inside)
    assert peak(found) == peak(estimate(write))
    assert "bound" not in found.flags
    assert found.asks == ()


def test_the_side_that_can_be_followed_is_used_and_said(write: Write) -> None:
    before = f"width = 32\nif {UNKNOWN}:\n    width = int(open('width.txt').read())"
    found = estimate(write, before, "width")
    assert peak(found) == peak(estimate(write, width="32"))
    assert any("cannot be followed" in note for note in found.notes)


def test_other_batches_take_the_same_side(write: Write) -> None:
    analysis = analyse(write(TRAIN.format(
        before=f"width = 256 if {UNKNOWN} else 8", width="width", inside="pass")))  # fmt: skip
    plain = analyse(write(TRAIN.format(before="", width="256", inside="pass"), "plain.py"))
    for batch in (16, 64):
        one, other = (a.estimate(batch, backend="cpu") for a in (analysis, plain))
        assert one.memory == other.memory
        assert "bound" in one.flags


OPEN = [
    "items = []\nfor line in open('x.txt'):\n    items.append(line)\n",
    "items = [line.split() for line in open('x.txt')]",
    "items = {}\nfor line in open('x.txt'):\n    items[line] = 1",
    "items = set()\nfor line in open('x.txt'):\n    items.add(line)",
    "items = list(open('x.txt'))",
    "items = sorted(set(open('x.txt').read().split()))",
    "items = [0]\nitems += [int(line) for line in open('x.txt')]",
    "items = dict(zip(open('x.txt'), range(10 ** 9)))",
    "items = [x for x in range(10) if random.random() > 0.5]",
    "items = [a for a in map(str.strip, open('x.txt'))]",
]


@pytest.mark.parametrize("before", OPEN, ids=range(len(OPEN)))
def test_the_length_of_what_data_fills_is_never_guessed(write: Write, before: str) -> None:
    found = estimate(write, before, "len(items)")
    assert found.memory is None or "bound" in found.flags
    if found.memory is None:
        assert [ask.name for ask in found.asks] == ["len(items)"]


def test_a_count_over_data_is_never_guessed(write: Write) -> None:
    found = estimate(write, "n = 0\nfor line in open('x.txt'):\n    n += 1", "n")
    assert found.memory is None
    assert found.asks[0].name == "n"


@pytest.mark.parametrize(
    "before",
    [
        "a = list(open('x.txt'))\na = a[:32] + [0] * (32 - len(a[:32]))",
        "a = list(open('x.txt'))\nwhile len(a) < 32:\n    a.append(0)\na = a[:32]",
        "b = list(open('x.txt'))\na = [0] * (40 - len(b)) + b\na = a[8:]",
        "a = [x for x in range(32)]",
    ],
)
def test_lengths_that_cancel_are_known(write: Write, before: str) -> None:
    assert peak(estimate(write, before, "len(a)")) == peak(estimate(write, width="32"))


RETURNS = """
pads = [1] if os.path.exists('x') else [1, 2]
more = [1] if os.path.exists('y') else [1, 2]
def width_of(kind):
    if os.path.exists('a'):
        return 4
    if os.path.exists('b'):
        if os.path.exists('c'):
            return 4
        if os.path.exists('e'):
            return 4
    else:
        if os.path.exists('d'):
            return 4
    return 4
"""


def test_returns_under_several_conditions_are_joined(write: Write) -> None:
    found = estimate(write, before=RETURNS, width="width_of(1)")
    assert peak(found) == peak(estimate(write))


def test_the_type_of_nothing_is_a_type(write: Write) -> None:
    before = (
        "settings = {'width': 4, 'name': None}\n"
        "wide = [v for v in settings.values() if type(v) is not dict]\n"
        "width = 4 if isinstance(None, type(None)) and type(None) is not int else 400\n"
    )
    assert peak(estimate(write, before=before, width="width * len(wide) // 2")) == peak(
        estimate(write)
    )


THRESHOLD = """score = paddle.nn.functional.softmax(x).reshape([-1])
limit = 0.7
if score[3] > limit:
    limit = score[3]
kept = (score < limit).astype('int64')
x = x * kept.sum().astype('float32')"""


def test_a_number_or_a_tensor_without_dimensions_is_compared_with_like_a_tensor(
    write: Write,
) -> None:
    always = THRESHOLD.replace("if score[3] > limit:", "if True:")
    found = estimate(write, inside=THRESHOLD)
    assert peak(found) == pytest.approx(peak(estimate(write, inside=always)), abs=64)
