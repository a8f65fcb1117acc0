"""A plain script, to hold other ways of writing it against."""

from __future__ import annotations

from gpuconsole.core.estimate import Estimate

HEAD = """
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
"""
NET = """
class Net(nn.Layer):
    def __init__(self, width=48, classes=10):
        super().__init__()
        self.a = nn.Linear(64, width)
        self.b = nn.Linear(width, classes)
    def forward(self, x):
        return self.b(F.relu(self.a(x)))
"""
DATA = """
class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros((64,), "float32"), np.int64(i % 10)
    def __len__(self):
        return 10000
"""
LOOP = """
def fit(net, batch, opt=None):
    opt = opt or paddle.optimizer.Adam(parameters=net.parameters())
    for x, y in paddle.io.DataLoader(Data(), batch_size=batch):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
"""
WHOLE = HEAD + NET + DATA + LOOP


def key(estimate: Estimate) -> tuple[object, ...]:
    """Return what two scripts that say the same have in common."""
    assert estimate.memory is not None, (estimate.errors, estimate.unknowns)
    assert not estimate.errors
    memory = estimate.memory
    return estimate.batch_size, memory.tensors_peak_mib, memory.parameters_mib
