"""Odd calls that work in Paddle 3.3.1: the shape of the result by the call that makes it."""

from __future__ import annotations

X = "paddle.rand([2, 3, 4])"
EMPTY = "paddle.rand([0, 4])"
COLUMN = "paddle.to_tensor([[0], [1]])"
CASES: tuple[tuple[str, list[int]], ...] = (
    (f"{EMPTY}.reshape([0, -1])", [0, 4]),
    (f"{EMPTY}.reshape([-1, 0])", [4, 0]),
    (f"{EMPTY}.reshape([2, 0, -1])", [2, 0, 2]),
    (f"{EMPTY}.t().reshape([0, -1])", [0, 4]),
    (f"paddle.split({EMPTY}, [1, 2])[0]", [0, 4]),
    (f"{EMPTY}.expand_as({X})", [2, 3, 4]),
    (f"{EMPTY}.unflatten(0, [1, -1])", [1, 0, 4]),
    ("paddle.rand([1]).squeeze([])", []),
    ("paddle.rand([2, 1]).squeeze(axis=())", [2]),
    ("paddle.atleast_3d(paddle.rand([3, 4]))", [3, 4, 1]),
    ("paddle.atleast_3d(paddle.rand([4]))", [1, 4, 1]),
    ("paddle.rand([3, 4]).argmax(dim=-1, keepdim=True)", [3, 1]),
    ("paddle.any(paddle.rand([3, 4]), dim=0)", [4]),
    ("paddle.norm(paddle.rand([3, 4]), dim=1)", [3]),
    (f"{X}.mode(axis=0)[0]", [3, 4]),
    (f"{X}.mode(1)[0]", [2, 4]),
    ("paddle.rand([]).argmax(axis=-1, keepdim=True)", [1]),
    ("paddle.rand([]).kthvalue(1, keepdim=True)[0]", []),
    ("paddle.rand([]).norm(axis=2)", []),
    (f"paddle.index_select({X}, {COLUMN}, 1)", [2, 2, 4]),
    (f"paddle.gather({X}, paddle.zeros([2]), axis=1)", [2, 2, 4]),
    ("paddle.take_along_axis(paddle.rand([3, 4]), paddle.zeros([3, 2]), 1)", [3, 2]),
    ("paddle.scatter(paddle.rand([3, 4]), paddle.arange(1), paddle.rand([2, 4]))", [3, 4]),
    ("paddle.scatter(paddle.rand([3, 4]), paddle.to_tensor(1), paddle.rand([4]))", [3, 4]),
    ("paddle.rand([4]).masked_fill_(paddle.ones([3, 1], 'bool'), 0.0)", [3, 4]),
    (f"{X}[[[0, 1]]]", [1, 2, 3, 4]),
    (f"{X}[True]", [1, 2, 3, 4]),
    (f"{X}[paddle.to_tensor(True)]", [1, 2, 3, 4]),
    (f"{X}[[True, False]]", [1, 3, 4]),
    ("np.zeros([4])[[True, True, False, True]]", [3]),
    ("np.zeros([2, 3])[np.zeros([2, 3]) > 1]", [0]),
    ("np.zeros([2, 3])[True]", [1, 2, 3]),
    ("F.nll_loss(paddle.rand([3, 5]), paddle.zeros([3, 1], 'int64'), reduction='none')", [3]),
    ("F.cross_entropy(paddle.rand([3, 5]), paddle.zeros([3]), reduction='none')", [3]),
    ("paddle.metric.Accuracy().compute(paddle.rand([5]), paddle.zeros([3], 'int64'))", [3, 1]),
)


def script(call: str, shape: list[int]) -> str:
    """Write a script that makes a call and insists on the shape of its result."""
    head = "import numpy as np\nimport paddle\nimport paddle.nn.functional as F\n"
    return f"{head}y = {call}\nassert list(y.shape) == {shape}\n"
