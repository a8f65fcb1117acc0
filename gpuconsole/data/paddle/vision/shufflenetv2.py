"""ShuffleNet version 2."""

import paddle
from paddle import nn
from paddle.vision.ops import ConvNormActivation

WIDTHS = {0.25: (24, 24, 48, 96, 512), 0.33: (24, 32, 64, 128, 512), 0.5: (24, 48, 96, 192, 1024),
          1.0: (24, 116, 232, 464, 1024), 1.5: (24, 176, 352, 704, 1024),
          2.0: (24, 224, 488, 976, 2048)}  # fmt: skip


def channel_shuffle(x, groups):
    n, c, h, w = x.shape
    x = paddle.reshape(x, [n, groups, c // groups, h, w])
    x = paddle.transpose(x, [0, 2, 1, 3, 4])
    x = paddle.reshape(x, [n, c, h, w])
    return x


def _depthwise(width, stride):
    return ConvNormActivation(width, width, 3, stride, 1, groups=width, activation_layer=None)


class InvertedResidual(nn.Layer):
    """Half of the channels pass by."""

    def __init__(self, width, act):
        super().__init__()
        half = width // 2
        self._conv_pw = ConvNormActivation(half, half, 1, 1, 0, activation_layer=act)
        self._conv_dw = _depthwise(half, 1)
        self._conv_linear = ConvNormActivation(half, half, 1, 1, 0, activation_layer=act)

    def forward(self, inputs):
        half = inputs.shape[1] // 2
        left, right = paddle.split(inputs, [half, half], axis=1)
        right = self._conv_pw(right)
        right = self._conv_dw(right)
        right = self._conv_linear(right)
        out = paddle.concat([left, right], axis=1)
        return channel_shuffle(out, 2)


class InvertedResidualDS(nn.Layer):
    """Both halves see all channels at half the resolution."""

    def __init__(self, fan_in, fan_out, act):
        super().__init__()
        half = fan_out // 2
        self._conv_dw_1 = _depthwise(fan_in, 2)
        self._conv_linear_1 = ConvNormActivation(fan_in, half, 1, 1, 0, activation_layer=act)
        self._conv_pw_2 = ConvNormActivation(fan_in, half, 1, 1, 0, activation_layer=act)
        self._conv_dw_2 = _depthwise(half, 2)
        self._conv_linear_2 = ConvNormActivation(half, half, 1, 1, 0, activation_layer=act)

    def forward(self, inputs):
        left = self._conv_dw_1(inputs)
        left = self._conv_linear_1(left)
        right = self._conv_pw_2(inputs)
        right = self._conv_dw_2(right)
        right = self._conv_linear_2(right)
        out = paddle.concat([left, right], axis=1)
        return channel_shuffle(out, 2)


class ShuffleNetV2(nn.Layer):
    def __init__(self, scale=1.0, act="relu", num_classes=1000, with_pool=True):
        super().__init__()
        self.scale = scale
        self.num_classes = num_classes
        self.with_pool = with_pool
        kind = nn.Swish if act == "swish" else nn.ReLU
        widths = WIDTHS[scale]
        self._conv1 = ConvNormActivation(3, widths[0], 3, 2, 1, activation_layer=kind)
        self._max_pool = nn.MaxPool2D(3, 2, 1)
        self._block_list = []
        for stage, count in enumerate((4, 8, 4)):
            for place in range(count):
                wide = widths[stage + 1]
                block = (InvertedResidual(wide, kind) if place
                         else InvertedResidualDS(widths[stage], wide, kind))  # fmt: skip
                self._block_list.append(self.add_sublayer(f"{stage + 2}_{place + 1}", block))
        self._last_conv = ConvNormActivation(widths[3], widths[4], 1, 1, 0, activation_layer=kind)
        if with_pool:
            self._pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._out_c = widths[4]
            self._fc = nn.Linear(widths[4], num_classes)

    def forward(self, inputs):
        x = self._conv1(inputs)
        x = self._max_pool(x)
        for block in self._block_list:
            x = block(x)
        x = self._last_conv(x)
        if self.with_pool:
            x = self._pool2d_avg(x)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self._fc(x)
        return x


def _maker(scale, act="relu"):
    def make(pretrained=False, **options):
        return ShuffleNetV2(**{"scale": scale, "act": act, **options})

    return make


shufflenet_v2_x0_25 = _maker(0.25)
shufflenet_v2_x0_33 = _maker(0.33)
shufflenet_v2_x0_5 = _maker(0.5)
shufflenet_v2_x1_0 = _maker(1.0)
shufflenet_v2_x1_5 = _maker(1.5)
shufflenet_v2_x2_0 = _maker(2.0)
shufflenet_v2_swish = _maker(1.0, "swish")
