"""Inception version 3."""

import paddle
from paddle import nn
from paddle.vision.ops import ConvNormActivation


def _conv(fan_in, fan_out, kernel=1, stride=1, padding=0):
    return ConvNormActivation(fan_in, fan_out, kernel, stride, padding)


def _average():
    return nn.AvgPool2D(3, 1, 1, exclusive=False)


class InceptionStem(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv_1a_3x3 = _conv(3, 32, 3, 2)
        self.conv_2a_3x3 = _conv(32, 32, 3)
        self.conv_2b_3x3 = _conv(32, 64, 3, 1, 1)
        self.max_pool = nn.MaxPool2D(3, 2)
        self.conv_3b_1x1 = _conv(64, 80)
        self.conv_4a_3x3 = _conv(80, 192, 3)

    def forward(self, x):
        x = self.conv_1a_3x3(x)
        x = self.conv_2a_3x3(x)
        x = self.conv_2b_3x3(x)
        x = self.max_pool(x)
        x = self.conv_3b_1x1(x)
        x = self.conv_4a_3x3(x)
        x = self.max_pool(x)
        return x


class InceptionA(nn.Layer):
    def __init__(self, num_channels, pool_features):
        super().__init__()
        self.branch1x1 = _conv(num_channels, 64)
        self.branch5x5_1 = _conv(num_channels, 48)
        self.branch5x5_2 = _conv(48, 64, 5, 1, 2)
        self.branch3x3dbl_1 = _conv(num_channels, 64)
        self.branch3x3dbl_2 = _conv(64, 96, 3, 1, 1)
        self.branch3x3dbl_3 = _conv(96, 96, 3, 1, 1)
        self.branch_pool = _average()
        self.branch_pool_conv = _conv(num_channels, pool_features)

    def forward(self, x):
        a = self.branch1x1(x)
        b = self.branch5x5_1(x)
        b = self.branch5x5_2(b)
        c = self.branch3x3dbl_1(x)
        c = self.branch3x3dbl_2(c)
        c = self.branch3x3dbl_3(c)
        d = self.branch_pool(x)
        d = self.branch_pool_conv(d)
        x = paddle.concat([a, b, c, d], axis=1)
        return x


class InceptionB(nn.Layer):
    def __init__(self, num_channels):
        super().__init__()
        self.branch3x3 = _conv(num_channels, 384, 3, 2)
        self.branch3x3dbl_1 = _conv(num_channels, 64)
        self.branch3x3dbl_2 = _conv(64, 96, 3, 1, 1)
        self.branch3x3dbl_3 = _conv(96, 96, 3, 2)
        self.branch_pool = nn.MaxPool2D(3, 2)

    def forward(self, x):
        a = self.branch3x3(x)
        b = self.branch3x3dbl_1(x)
        b = self.branch3x3dbl_2(b)
        b = self.branch3x3dbl_3(b)
        c = self.branch_pool(x)
        x = paddle.concat([a, b, c], axis=1)
        return x


class InceptionC(nn.Layer):
    def __init__(self, num_channels, inner):
        super().__init__()
        wide, tall = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
        self.branch1x1 = _conv(num_channels, 192)
        self.branch7x7_1 = _conv(num_channels, inner)
        self.branch7x7_2 = _conv(inner, inner, *wide)
        self.branch7x7_3 = _conv(inner, 192, *tall)
        self.branch7x7dbl_1 = _conv(num_channels, inner)
        self.branch7x7dbl_2 = _conv(inner, inner, *tall)
        self.branch7x7dbl_3 = _conv(inner, inner, *wide)
        self.branch7x7dbl_4 = _conv(inner, inner, *tall)
        self.branch7x7dbl_5 = _conv(inner, 192, *wide)
        self.branch_pool = _average()
        self.branch_pool_conv = _conv(num_channels, 192)

    def forward(self, x):
        a = self.branch1x1(x)
        b = self.branch7x7_1(x)
        b = self.branch7x7_2(b)
        b = self.branch7x7_3(b)
        c = self.branch7x7dbl_1(x)
        c = self.branch7x7dbl_2(c)
        c = self.branch7x7dbl_3(c)
        c = self.branch7x7dbl_4(c)
        c = self.branch7x7dbl_5(c)
        d = self.branch_pool(x)
        d = self.branch_pool_conv(d)
        x = paddle.concat([a, b, c, d], axis=1)
        return x


class InceptionD(nn.Layer):
    def __init__(self, num_channels):
        super().__init__()
        self.branch3x3_1 = _conv(num_channels, 192)
        self.branch3x3_2 = _conv(192, 320, 3, 2)
        self.branch7x7x3_1 = _conv(num_channels, 192)
        self.branch7x7x3_2 = _conv(192, 192, (1, 7), 1, (0, 3))
        self.branch7x7x3_3 = _conv(192, 192, (7, 1), 1, (3, 0))
        self.branch7x7x3_4 = _conv(192, 192, 3, 2)
        self.branch_pool = nn.MaxPool2D(3, 2)

    def forward(self, x):
        a = self.branch3x3_1(x)
        a = self.branch3x3_2(a)
        b = self.branch7x7x3_1(x)
        b = self.branch7x7x3_2(b)
        b = self.branch7x7x3_3(b)
        b = self.branch7x7x3_4(b)
        c = self.branch_pool(x)
        x = paddle.concat([a, b, c], axis=1)
        return x


class InceptionE(nn.Layer):
    def __init__(self, num_channels):
        super().__init__()
        wide, tall = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))
        self.branch1x1 = _conv(num_channels, 320)
        self.branch3x3_1 = _conv(num_channels, 384)
        self.branch3x3_2a = _conv(384, 384, *wide)
        self.branch3x3_2b = _conv(384, 384, *tall)
        self.branch3x3dbl_1 = _conv(num_channels, 448)
        self.branch3x3dbl_2 = _conv(448, 384, 3, 1, 1)
        self.branch3x3dbl_3a = _conv(384, 384, *wide)
        self.branch3x3dbl_3b = _conv(384, 384, *tall)
        self.branch_pool = _average()
        self.branch_pool_conv = _conv(num_channels, 192)

    def forward(self, x):
        a = self.branch1x1(x)
        b = self.branch3x3_1(x)
        b = [self.branch3x3_2a(b), self.branch3x3_2b(b)]
        b = paddle.concat(b, axis=1)
        c = self.branch3x3dbl_1(x)
        c = self.branch3x3dbl_2(c)
        c = [self.branch3x3dbl_3a(c), self.branch3x3dbl_3b(c)]
        c = paddle.concat(c, axis=1)
        d = self.branch_pool(x)
        d = self.branch_pool_conv(d)
        x = paddle.concat([a, b, c, d], axis=1)
        return x


class InceptionV3(nn.Layer):
    def __init__(self, num_classes=1000, with_pool=True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.inception_stem = InceptionStem()
        self.inception_block_list = nn.LayerList([
            InceptionA(192, 32), InceptionA(256, 64), InceptionA(288, 64), InceptionB(288),
            InceptionC(768, 128), InceptionC(768, 160), InceptionC(768, 160), InceptionC(768, 192),
            InceptionD(768), InceptionE(1280), InceptionE(2048),
        ])  # fmt: skip
        if with_pool:
            self.avg_pool = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.dropout = nn.Dropout(0.2, mode="downscale_in_infer")
            self.fc = nn.Linear(2048, num_classes)

    def forward(self, x):
        x = self.inception_stem(x)
        for block in self.inception_block_list:
            x = block(x)
        if self.with_pool:
            x = self.avg_pool(x)
        if self.num_classes > 0:
            x = paddle.reshape(x, [-1, 2048])
            x = self.dropout(x)
            x = self.fc(x)
        return x


def inception_v3(pretrained=False, **options):
    return InceptionV3(**options)
