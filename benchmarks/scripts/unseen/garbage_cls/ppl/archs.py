import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle import ParamAttr
from paddle.nn.initializer import KaimingNormal

__all__ = ["GhostSmall", "GhostLarge"]


def make_divisible(v, divisor=4):
    new_v = max(divisor, int(v + divisor / 2) // divisor * divisor)
    if new_v < 0.9 * v:
        new_v += divisor
    return new_v


class ConvBNLayer(nn.Layer):
    def __init__(self, in_c, out_c, k, stride=1, groups=1, act="relu"):
        super().__init__()
        self.conv = nn.Conv2D(in_c, out_c, k, stride, (k - 1) // 2, groups=groups,
                              weight_attr=ParamAttr(initializer=KaimingNormal()), bias_attr=False)
        self.bn = nn.BatchNorm2D(out_c)
        self.act = act

    def forward(self, x):
        y = self.bn(self.conv(x))
        return F.relu(y) if self.act == "relu" else y


class SEBlock(nn.Layer):
    def __init__(self, ch, reduction=4):
        super().__init__()
        mid = ch // reduction
        self.pool = nn.AdaptiveAvgPool2D(1)
        std = 1.0 / math.sqrt(ch * 1.0)
        self.squeeze = nn.Linear(ch, mid, weight_attr=ParamAttr(initializer=nn.initializer.Uniform(-std, std)))
        self.excite = nn.Linear(mid, ch)
        self.ch = ch

    def forward(self, x):
        w = self.pool(x)
        w = paddle.reshape(w, shape=[-1, self.ch])
        w = F.relu(self.squeeze(w))
        w = paddle.clip(x=self.excite(w), min=0, max=1)
        w = paddle.reshape(w, shape=[-1, self.ch, 1, 1])
        return paddle.multiply(x, w)


class GhostModule(nn.Layer):
    def __init__(self, in_c, out_c, k=1, ratio=2, dw=3, stride=1, relu=True):
        super().__init__()
        init_c = int(math.ceil(out_c / ratio))
        new_c = int(init_c * (ratio - 1))
        act = "relu" if relu else None
        self.primary = ConvBNLayer(in_c, init_c, k, stride, 1, act)
        self.cheap = ConvBNLayer(init_c, new_c, dw, 1, init_c, act)

    def forward(self, x):
        x = self.primary(x)
        y = self.cheap(x)
        return paddle.concat([x, y], axis=1)


class GhostBottleneck(nn.Layer):
    def __init__(self, in_c, hidden, out_c, k, stride, use_se):
        super().__init__()
        self.stride, self.use_se = stride, use_se
        self.g1 = GhostModule(in_c, hidden, relu=True)
        if stride == 2:
            self.dw = ConvBNLayer(hidden, hidden, k, stride, hidden, act=None)
        if use_se:
            self.se = SEBlock(hidden)
        self.g2 = GhostModule(hidden, out_c, relu=False)
        if stride != 1 or in_c != out_c:
            self.short = nn.Sequential(ConvBNLayer(in_c, in_c, k, stride, in_c, act=None),
                                       ConvBNLayer(in_c, out_c, 1, 1, 1, act=None))
        else:
            self.short = None

    def forward(self, inputs):
        x = self.g1(inputs)
        if self.stride == 2:
            x = self.dw(x)
        if self.use_se:
            x = self.se(x)
        x = self.g2(x)
        shortcut = inputs if self.short is None else self.short(inputs)
        return paddle.add(x=x, y=shortcut)


class GhostNet(nn.Layer):
    # k, hidden, out, se, stride
    def __init__(self, cfgs, class_num=1000, width_mult=1.0, dropout=0.2):
        super().__init__()
        out = make_divisible(16 * width_mult)
        self.stem = ConvBNLayer(3, out, 3, 2)
        self.blocks = []
        in_c = out
        for i, (k, hidden, c, se, s) in enumerate(cfgs):
            out_c = make_divisible(c * width_mult)
            hid_c = make_divisible(hidden * width_mult)
            block = self.add_sublayer("ghost_{}".format(i),
                                      GhostBottleneck(in_c, hid_c, out_c, k, s, se))
            self.blocks.append(block)
            in_c = out_c
        out_c = make_divisible(cfgs[-1][1] * width_mult)
        self.last = ConvBNLayer(in_c, out_c, 1)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.fc0 = ConvBNLayer(out_c, 320, 1)
        self.drop = nn.Dropout(p=dropout)
        self.fc1 = nn.Linear(320, class_num)

    def forward(self, inputs):
        x = self.stem(inputs)
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        x = self.fc0(self.pool(x))
        x = self.drop(x)
        x = paddle.reshape(x, shape=[-1, 320])
        return self.fc1(x)


def GhostSmall(**kwargs):
    return GhostNet([
        [3, 16, 16, 0, 1],
        [3, 48, 24, 0, 2],
        [3, 72, 24, 0, 1],
        [5, 72, 40, 1, 2],
        [5, 120, 40, 1, 1],
        [3, 240, 80, 0, 2],
        [3, 200, 80, 0, 1],
    ], **kwargs)


def GhostLarge(**kwargs):
    return GhostNet([
        [3, 16, 16, 0, 1],
        [3, 48, 24, 0, 2],
        [3, 72, 24, 0, 1],
        [5, 72, 40, 1, 2],
        [5, 120, 40, 1, 1],
        [3, 240, 80, 0, 2],
        [3, 200, 80, 0, 1],
        [3, 184, 80, 0, 1],
        [3, 480, 112, 1, 1],
        [5, 672, 160, 1, 2],
    ], **kwargs)
