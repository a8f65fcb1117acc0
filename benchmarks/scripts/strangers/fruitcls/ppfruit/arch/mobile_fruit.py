import paddle
import paddle.nn as nn
from paddle import ParamAttr
from paddle.nn.initializer import KaimingNormal

from ..utils.registry import ARCHS

# kernel, expand, out, se, act, stride
NET_CONFIG = {
    "small": [
        [3, 16, 16, True, "relu", 2],
        [3, 72, 24, False, "relu", 2],
        [3, 88, 24, False, "relu", 1],
        [5, 96, 40, True, "hardswish", 2],
        [5, 240, 40, True, "hardswish", 1],
        [5, 120, 48, True, "hardswish", 1],
        [5, 288, 96, True, "hardswish", 2],
    ],
}


def make_divisible(v, divisor=8, min_value=None):
    min_value = min_value or divisor
    new_v = max(min_value, int(v + divisor / 2) // divisor * divisor)
    if new_v < 0.9 * v:
        new_v += divisor
    return new_v


class ConvBNLayer(nn.Layer):
    def __init__(self, in_c, out_c, k, stride, groups=1, act=None):
        super().__init__()
        self.conv = nn.Conv2D(in_c, out_c, k, stride=stride, padding=(k - 1) // 2, groups=groups,
                              weight_attr=ParamAttr(initializer=KaimingNormal()), bias_attr=False)
        self.bn = nn.BatchNorm2D(out_c)
        self.act = {"relu": nn.ReLU, "hardswish": nn.Hardswish}[act]() if act else None

    def forward(self, x):
        x = self.bn(self.conv(x))
        return self.act(x) if self.act is not None else x


class SEModule(nn.Layer):
    def __init__(self, channel, reduction=4):
        super().__init__()
        self.avg_pool = nn.AdaptiveAvgPool2D(1)
        self.conv1 = nn.Conv2D(channel, channel // reduction, 1)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(channel // reduction, channel, 1)
        self.hardsigmoid = nn.Hardsigmoid()

    def forward(self, x):
        s = self.relu(self.conv1(self.avg_pool(x)))
        s = self.hardsigmoid(self.conv2(s))
        return paddle.multiply(x, s)


class ResidualUnit(nn.Layer):
    def __init__(self, in_c, mid_c, out_c, k, stride, use_se, act):
        super().__init__()
        self.if_shortcut = stride == 1 and in_c == out_c
        self.expand_conv = ConvBNLayer(in_c, mid_c, 1, 1, act=act)
        self.bottleneck_conv = ConvBNLayer(mid_c, mid_c, k, stride, groups=mid_c, act=act)
        self.mid_se = SEModule(mid_c) if use_se else None
        self.linear_conv = ConvBNLayer(mid_c, out_c, 1, 1)

    def forward(self, x):
        y = self.bottleneck_conv(self.expand_conv(x))
        if self.mid_se is not None:
            y = self.mid_se(y)
        y = self.linear_conv(y)
        return paddle.add(x, y) if self.if_shortcut else y


class MobileFruitNet(nn.Layer):
    def __init__(self, config, scale=1.0, class_num=1000, dropout=0.2, inplanes=16, class_expand=512):
        super().__init__()
        self.conv = ConvBNLayer(3, make_divisible(inplanes * scale), 3, 2, act="hardswish")
        c = make_divisible(inplanes * scale)
        blocks = []
        for k, exp, out, se, act, s in config:
            blocks.append(ResidualUnit(c, make_divisible(exp * scale), make_divisible(out * scale), k, s, se, act))
            c = make_divisible(out * scale)
        self.blocks = nn.Sequential(*blocks)
        self.last_second_conv = ConvBNLayer(c, make_divisible(scale * config[-1][1]), 1, 1, act="hardswish")
        self.avg_pool = nn.AdaptiveAvgPool2D(1)
        self.flatten = nn.Flatten(start_axis=1, stop_axis=-1)
        self.last_fc = nn.Linear(make_divisible(scale * config[-1][1]), class_expand)
        self.hardswish = nn.Hardswish()
        self.dropout = nn.Dropout(p=dropout, mode="downscale_in_infer")
        self.fc = nn.Linear(class_expand, class_num)

    def forward(self, x):
        x = self.conv(x)
        x = self.blocks(x)
        x = self.last_second_conv(x)
        x = self.flatten(self.avg_pool(x))
        x = self.dropout(self.hardswish(self.last_fc(x)))
        return self.fc(x)


@ARCHS.register
def MobileFruitNet_x1_0(**kwargs):
    return MobileFruitNet(NET_CONFIG["small"], scale=1.0, **kwargs)


@ARCHS.register
def MobileFruitNet_x0_5(**kwargs):
    return MobileFruitNet(NET_CONFIG["small"], scale=0.5, **kwargs)
