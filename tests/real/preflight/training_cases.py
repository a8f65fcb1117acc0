"""Small complete training scripts, one feature each: run by Paddle and by the interpreter."""

from __future__ import annotations

from textwrap import dedent

from tests.real.preflight.training_loops import LOOPS
from tests.real.preflight.training_whole import WHOLE

PRELUDE = """
import paddle
from paddle import nn
import paddle.nn.functional as F

class Net(nn.Layer):
    def __init__(self, wide=256, out=10):
        super().__init__()
        self.a = nn.Linear(64, wide)
        self.b = nn.Linear(wide, wide)
        self.c = nn.Linear(wide, out)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x)))))

class Pairs(paddle.io.Dataset):
    def __getitem__(self, i):
        return numpy.zeros(64, "float32"), numpy.int64(i % 10)
    def __len__(self):
        return 1536

import numpy
x = paddle.randn([128, 64])
y = paddle.randint(0, 10, [128])
"""

CASES: dict[str, str] = {**LOOPS, **WHOLE}


def script(name: str) -> str:
    """Return a case as a whole script."""
    return dedent(PRELUDE) + CASES[name]
