"""SqueezeNet."""

import paddle
from paddle import nn

FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))


class MakeFireConv(nn.Layer):
    def __init__(self, fan_in, fan_out, kernel, padding=0):
        super().__init__()
        self._conv = nn.Conv2D(fan_in, fan_out, kernel, padding=padding)

    def forward(self, x):
        x = self._conv(x)
        x = nn.functional.relu(x)
        return x


class MakeFire(nn.Layer):
    def __init__(self, fan_in, squeezed, expanded):
        super().__init__()
        self._conv = MakeFireConv(fan_in, squeezed, 1)
        self._conv_path1 = MakeFireConv(squeezed, expanded, 1)
        self._conv_path2 = MakeFireConv(squeezed, expanded, 3, 1)

    def forward(self, inputs):
        x = self._conv(inputs)
        left = self._conv_path1(x)
        right = self._conv_path2(x)
        return paddle.concat([left, right], axis=1)


class SqueezeNet(nn.Layer):
    def __init__(self, version, num_classes=1000, with_pool=True):
        super().__init__()
        self.version = version
        self.num_classes = num_classes
        self.with_pool = with_pool
        old = version == "1.0"
        width = 96 if old else 64
        self._conv = nn.Conv2D(3, width, 7, 2) if old else nn.Conv2D(3, width, 3, 2, 1)
        self._pool = nn.MaxPool2D(3, 2)
        self._pooled = (3, 7) if old else (2, 4)
        self._fires = []
        for place, (squeezed, expanded) in enumerate(FIRES):
            fire = MakeFire(width, squeezed, expanded)
            self._fires.append(self.add_sublayer(f"_conv{place + 1}", fire))
            width = 2 * expanded
        self._drop = nn.Dropout(0.5, mode="downscale_in_infer")
        self._conv9 = nn.Conv2D(512, num_classes, 1)
        self._avg_pool = nn.AdaptiveAvgPool2D(1)

    def forward(self, inputs):
        x = self._conv(inputs)
        x = nn.functional.relu(x)
        x = self._pool(x)
        for place, fire in enumerate(self._fires):
            x = fire(x)
            if place + 1 in self._pooled:
                x = self._pool(x)
        if self.num_classes > 0:
            x = self._drop(x)
            x = self._conv9(x)
        if self.with_pool:
            x = nn.functional.relu(x)
            x = self._avg_pool(x)
            x = paddle.squeeze(x, [2, 3])
        return x


def squeezenet1_0(pretrained=False, **options):
    return SqueezeNet("1.0", **options)


def squeezenet1_1(pretrained=False, **options):
    return SqueezeNet("1.1", **options)
