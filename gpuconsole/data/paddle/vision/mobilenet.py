"""MobileNet, versions 1 to 3."""

import paddle
from paddle import nn
from paddle.vision.ops import ConvNormActivation


def _divisible(extent, by=8):
    near = max(by, int(extent + by / 2) // by * by)
    return near + by if near < 0.9 * extent else near


class DepthwiseSeparable(nn.Layer):
    def __init__(self, fan_in, fan_out, stride):
        super().__init__()
        self._depthwise_conv = ConvNormActivation(fan_in, fan_in, 3, stride, 1, groups=fan_in)
        self._pointwise_conv = ConvNormActivation(fan_in, fan_out, 1, 1, 0)

    def forward(self, x):
        x = self._depthwise_conv(x)
        x = self._pointwise_conv(x)
        return x


class MobileNetV1(nn.Layer):
    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__()
        self.scale = scale
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.dwsl = []
        width = int(32 * scale)
        self.conv1 = ConvNormActivation(3, width, 3, 2, 1)
        rows = [("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2),
                ("4_1", 256, 1), ("4_2", 512, 2), *((f"5_{i}", 512, 1) for i in range(1, 6)),
                ("5_6", 1024, 2), ("6", 1024, 1)]  # fmt: skip
        for name, wide, stride in rows:
            fan_out = int(wide * scale)
            block = DepthwiseSeparable(width, fan_out, stride)
            self.dwsl.append(self.add_sublayer(f"conv{name}", block))
            width = fan_out
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = nn.Linear(width, num_classes)

    def forward(self, x):
        x = self.conv1(x)
        for block in self.dwsl:
            x = block(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self.fc(x)
        return x


def mobilenet_v1(pretrained=False, scale=1.0, **options):
    return MobileNetV1(scale=scale, **options)


class InvertedResidual(nn.Layer):
    """The block of version 2."""

    def __init__(self, fan_in, fan_out, stride, expand_ratio, norm_layer=nn.BatchNorm2D):
        super().__init__()
        inner = round(fan_in * expand_ratio)
        self.use_res_connect = stride == 1 and fan_in == fan_out
        parts = []
        if expand_ratio != 1:
            parts.append(ConvNormActivation(fan_in, inner, 1, norm_layer=norm_layer,
                                            activation_layer=nn.ReLU6))  # fmt: skip
        parts += [ConvNormActivation(inner, inner, stride=stride, groups=inner,
                                     norm_layer=norm_layer, activation_layer=nn.ReLU6),
                  nn.Conv2D(inner, fan_out, 1, bias_attr=False), norm_layer(fan_out)]  # fmt: skip
        self.conv = nn.Sequential(*parts)

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Layer):
    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        width = _divisible(32 * scale)
        self.last_channel = _divisible(1280 * max(1.0, scale))
        parts = [ConvNormActivation(3, width, stride=2, activation_layer=nn.ReLU6)]
        for ratio, wide, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                           (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                           (6, 320, 1, 1)):  # fmt: skip
            for place in range(count):
                fan_out = _divisible(wide * scale)
                parts.append(InvertedResidual(width, fan_out, 1 if place else stride, ratio))
                width = fan_out
        parts.append(ConvNormActivation(width, self.last_channel, 1, activation_layer=nn.ReLU6))
        self.features = nn.Sequential(*parts)
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Dropout(0.2), nn.Linear(self.last_channel, num_classes)
            )

    def forward(self, x):
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self.classifier(x)
        return x


def mobilenet_v2(pretrained=False, scale=1.0, **options):
    return MobileNetV2(scale=scale, **options)


class SqueezeExcitation(nn.Layer):
    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU,
                 scale_activation=nn.Sigmoid):  # fmt: skip
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2D(1)
        self.fc1 = nn.Conv2D(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2D(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def _scale(self, x):
        x = self.avgpool(x)
        x = self.fc1(x)
        x = self.activation(x)
        x = self.fc2(x)
        return self.scale_activation(x)

    def forward(self, x):
        weight = self._scale(x)
        return weight * x


class InvertedResidualV3(nn.Layer):
    """The block of version 3."""

    def __init__(self, fan_in, inner, fan_out, kernel, stride, squeeze, act):
        super().__init__()
        self.use_res_connect = stride == 1 and fan_in == fan_out
        self.use_se = squeeze
        self.expand = fan_in != inner
        if self.expand:
            self.expand_conv = ConvNormActivation(fan_in, inner, 1, 1, 0, activation_layer=act)
        self.bottleneck_conv = ConvNormActivation(inner, inner, kernel, stride, (kernel - 1) // 2,
                                                  groups=inner, activation_layer=act)  # fmt: skip
        if squeeze:
            self.mid_se = SqueezeExcitation(inner, _divisible(inner // 4),
                                            scale_activation=nn.Hardsigmoid)  # fmt: skip
        self.linear_conv = ConvNormActivation(inner, fan_out, 1, 1, 0, activation_layer=None)

    def forward(self, x):
        side = x
        if self.expand:
            x = self.expand_conv(x)
        x = self.bottleneck_conv(x)
        if self.use_se:
            x = self.mid_se(x)
        x = self.linear_conv(x)
        if self.use_res_connect:
            x = paddle.add(side, x)
        return x


# A block each: kernel, expanded and output channels, squeeze-excitation, hardswish, stride.
SMALL = [(3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
         (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
         (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
         (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1)]  # fmt: skip
LARGE = [(3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
         (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
         (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
         (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
         (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1),
         (5, 960, 160, True, True, 1)]  # fmt: skip


class MobileNetV3(nn.Layer):
    def __init__(self, config, last_channel, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__()
        self.scale = scale
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.last_channel = _divisible(last_channel * scale)
        width = _divisible(16 * scale)
        self.conv = ConvNormActivation(3, width, 3, 2, 1, activation_layer=nn.Hardswish)
        blocks = []
        for kernel, inner, fan_out, squeeze, hard, stride in config:
            wide = _divisible(fan_out * scale)
            act = nn.Hardswish if hard else nn.ReLU
            blocks.append(
                InvertedResidualV3(
                    width, _divisible(inner * scale), wide, kernel, stride, squeeze, act
                )
            )
            width = wide
        self.blocks = nn.Sequential(*blocks)
        self.lastconv_out_channels = width * 6
        self.lastconv = ConvNormActivation(width, width * 6, 1, 1, 0,
                                           activation_layer=nn.Hardswish)  # fmt: skip
        if with_pool:
            self.avgpool = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = nn.Sequential(
                nn.Linear(width * 6, self.last_channel), nn.Hardswish(), nn.Dropout(0.2),
                nn.Linear(self.last_channel, num_classes),
            )  # fmt: skip

    def forward(self, x):
        x = self.conv(x)
        x = self.blocks(x)
        x = self.lastconv(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = paddle.flatten(x, 1)
            x = self.classifier(x)
        return x


class MobileNetV3Small(MobileNetV3):
    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__(SMALL, 1024, scale, num_classes, with_pool)


class MobileNetV3Large(MobileNetV3):
    def __init__(self, scale=1.0, num_classes=1000, with_pool=True):
        super().__init__(LARGE, 1280, scale, num_classes, with_pool)


def mobilenet_v3_small(pretrained=False, scale=1.0, **options):
    return MobileNetV3Small(scale=scale, **options)


def mobilenet_v3_large(pretrained=False, scale=1.0, **options):
    return MobileNetV3Large(scale=scale, **options)
