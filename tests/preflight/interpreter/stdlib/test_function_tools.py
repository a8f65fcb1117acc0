"""`operator`, `functools.singledispatch`, lists of a script's own class, arrays of objects.

The bytes were measured with Paddle 3.3.1 on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TRAINING = """
import collections, functools, operator
import numpy as np
import paddle
from paddle import nn
net = nn.Sequential(*[nn.Linear(200, 200) for _ in range(6)])
params = net.parameters()
{code}
opt = paddle.optimizer.SGD(parameters=net.parameters())
for i in range(10):
    loss = net(paddle.rand([4, 200])).mean()
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
BAG = """
class Bag(list):
    name = "bag"
    def __init__(self, items=()):
        super().__init__(p.clone() for p in items)
    def push(self, x):
        super().append(x.clone())
        return self
    def __add__(self, other):
        return Bag([*self, *other])
"""
DISPATCH = """
@functools.singledispatch
def take(x): return []
@take.register(nn.Layer)
def _(x): return x.bias.clone()
@take.register(nn.Linear)
def _(x): return x.weight.clone()
@take.register
def _(x: list): return [take(v) for v in x]
k = take(list(net))
"""
METHOD = """
class Keeper:
    @functools.singledispatchmethod
    def take(self, x): return []
    @take.register
    def _(self, x: int): return paddle.zeros([x])
    @take.register(nn.Linear)
    def _(self, x): return x.weight.clone()
k = [Keeper().take(v) for v in net]
"""


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        (BAG + "k = Bag(params)", 3080008),
        (BAG + "k = Bag()\nfor p in params: k.push(p)", 3080008),
        (BAG + "k = Bag(params[:4]) + params[4:]\nassert len(k) == 12 and k.name", 3080008),
        (BAG + "k = [x.clone() for x in Bag(params)[:]]", 3080008),
        ("k = collections.UserList(p.clone() for p in params)", 3080008),
        ("k = [w.clone() for w in map(operator.attrgetter('weight'), net)]", 3075208),
        (
            "k = [operator.methodcaller('clone')(p)\n"
            "     for p in operator.itemgetter(slice(0, 6))(params)]",
            2597608,
        ),
        (
            "n = functools.reduce(operator.mul, (10, 20, 30))\n"
            "k = paddle.zeros([n])\n"
            "k = operator.add(k, k)",
            2139208,
        ),
        (DISPATCH, 3075208),
        (METHOD, 3075208),
        (
            "k = np.empty(12, dtype=object)\nfor i, p in enumerate(params): k[i] = p.clone()",
            3080008,
        ),
        (
            "k = np.array([None] * 12, dtype='object')\n"
            "for i, p in enumerate(params): k[i] = p.clone()",
            3080008,
        ),
    ],
)
def test_what_such_functions_and_lists_keep_is_counted(
    scan: Scan, code: str, measured: int
) -> None:
    estimate = scan(TRAINING.format(code=code)).estimate(backend="cpu")
    assert not estimate.errors
    assert estimate.memory is not None
    assert estimate.memory.tensors_peak_mib * 2**20 == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize(
    ("code", "means"),
    [
        ("operator.sub(7, 3)", 4),
        ("operator.gt(3, 2)", True),
        ("operator.neg(3)", -3),
        ("operator.itemgetter(1, 0)([5, 6])", (6, 5)),
        ("operator.attrgetter('real', 'imag')(4)", (4, 0)),
        ("sorted([(1, 2), (0, 3)], key=operator.itemgetter(1))", [(1, 2), (0, 3)]),
        ("max([3, 9, 4], key=operator.neg)", 3),
    ],
)
def test_operators_mean_what_python_does(scan: Scan, code: str, means: object) -> None:
    holds = f"k = paddle.zeros([20 if {code} == {means!r} else 40, 3000])"
    estimate = scan(TRAINING.format(code=holds)).estimate(backend="cpu")
    assert estimate.memory is not None
    assert estimate.memory.tensors_peak_mib * 2**20 == pytest.approx(2115208 + 240000, rel=0.005)


def test_a_value_of_unknown_type_may_be_handled_by_any_of_the_functions(scan: Scan) -> None:
    code = "import pickle\n" + DISPATCH + "k = take(pickle.load(open('a.pkl', 'rb')))"
    estimate = scan(TRAINING.format(code=code)).estimate(backend="cpu")
    assert not estimate.errors
    assert estimate.memory is None or estimate.memory.tensors_peak_mib * 2**20 >= 2115208
