import paddle
import paddle.nn as nn

from .registry import LOSSES


@LOSSES("joints_mse")
class JointsMSE(nn.Layer):
    def __init__(self, **_):
        super().__init__()

    def forward(self, out, target, w):
        return (((out - target) ** 2).mean([2, 3]) * w).mean()


@LOSSES("joints_ohkm")
class JointsOHKM(nn.Layer):
    def __init__(self, TOPK=8):
        super().__init__()
        self.topk = TOPK

    def forward(self, out, target, w):
        per_joint = 0.5 * ((out - target) ** 2).mean([2, 3]) * w
        hard, _ = paddle.topk(per_joint, self.topk, axis=1)
        return hard.mean()
