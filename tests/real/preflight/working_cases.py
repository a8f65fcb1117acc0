"""Odd calls that work in Paddle 3.3.1: the shape of the result by the call that makes it."""

from __future__ import annotations

X = "paddle.rand([2, 3, 4])"
EMPTY = "paddle.rand([0, 4])"
COLUMN = "paddle.to_tensor([[0], [1]])"
CASES: tuple[tuple[str, list[int]], ...] = (
    (f"{EMPTY}.reshape([0, -1])", [0, 4]),
    (f"F.linear({X}, paddle.rand([2, 4, 5]))", [2, 3, 5]),
    ("F.linear(paddle.rand([3, 4]), paddle.rand([2, 4, 5]))", [2, 3, 5]),
    ("paddle.inner(paddle.rand([2, 3]), paddle.rand([1]))", [2, 3]),
    ("paddle.tensordot(paddle.rand([2, 3]), paddle.rand([1, 4]), axes=1)", [2, 4]),
    ("paddle.tensordot(paddle.rand([2, 1]), paddle.rand([3, 4]), axes=1)", [2, 4]),
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
    ("nn.Conv2DTranspose(4, 8, 3, data_format='NHWC')(paddle.rand([2, 7, 8, 4]))", [2, 9, 10, 8]),
    (
        "F.conv1d_transpose(paddle.rand([2, 9, 4]), paddle.rand([4, 4, 3]), data_format='NLC')",
        [2, 11, 4],
    ),
    ("nn.AdaptiveAvgPool2D(1, data_format='NHWC')(paddle.rand([2, 7, 8, 4]))", [2, 1, 1, 4]),
    ("nn.GroupNorm(2, 6, data_format='NHWC')(paddle.rand([2, 4, 4, 6]))", [2, 4, 4, 6]),
    ("F.group_norm(paddle.rand([2, 3, 3, 6]), 2, data_format='NHWC')", [2, 3, 3, 6]),
    ("F.pad(paddle.rand([3, 4]), [0, 0, 0, 0, 1, 1])", [3, 4]),
    ("F.pad(paddle.rand([4]), [1])", [5]),
    ("F.pad(paddle.rand([3, 4]), [1, 1], data_format='NHWC')", [3, 6]),
    ("F.pad(paddle.rand([2, 4, 6]), [1, 1], data_format='NLC')", [2, 6, 6]),
    ("nn.Pad1D(1)(paddle.rand([3, 4]))", [3, 6]),
    ("nn.Pad2D([1, 1, 2, 2], data_format='NHWC')(paddle.rand([2, 4, 6, 3]))", [2, 8, 8, 3]),
    ("nn.AvgPool2D(2)(paddle.rand([2, 4, 1, 1]))", [2, 4, 1, 1]),
    ("nn.Conv2D(4, 8, 3, stride=2)(paddle.rand([2, 4, 2, 2]))", [2, 8, 1, 1]),
    ("nn.MaxPool2D(3, 2)(paddle.rand([2, 4, 2, 2]))", [2, 4, 1, 1]),
    ("paddle.hstack([paddle.rand([]), paddle.rand([4])])", [5]),
    ("paddle.vstack([paddle.rand([]), paddle.rand([3, 1])])", [4, 1]),
    ("paddle.metric.Accuracy().compute(paddle.rand([5]), paddle.zeros([3], 'int64'))", [3, 1]),
)


def script(call: str, shape: list[int]) -> str:
    """Write a script that makes a call and insists on the shape of its result."""
    head = "import numpy as np\nimport paddle\nimport paddle.nn as nn\n"
    head += "import paddle.nn.functional as F\n"
    return f"{head}y = {call}\nassert list(y.shape) == {shape}\n"
