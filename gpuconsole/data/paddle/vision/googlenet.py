"""GoogLeNet: three outputs, the last two for training only."""

import paddle
from paddle import nn


class ConvLayer(nn.Layer):
    def __init__(self, fan_in, fan_out, kernel, stride=1):
        super().__init__()
        self._conv = nn.Conv2D(fan_in, fan_out, kernel, stride, (kernel - 1) // 2, bias_attr=False)

    def forward(self, inputs):
        y = self._conv(inputs)
        return y


class Inception(nn.Layer):
    def __init__(self, fan_in, one, three_in, three, five_in, five, pooled):
        super().__init__()
        self._conv1 = ConvLayer(fan_in, one, 1)
        self._conv3r = ConvLayer(fan_in, three_in, 1)
        self._conv3 = ConvLayer(three_in, three, 3)
        self._conv5r = ConvLayer(fan_in, five_in, 1)
        self._conv5 = ConvLayer(five_in, five, 5)
        self._pool = nn.MaxPool2D(3, 1, 1)
        self._convprj = ConvLayer(fan_in, pooled, 1)

    def forward(self, inputs):
        one = self._conv1(inputs)
        three_in = self._conv3r(inputs)
        three = self._conv3(three_in)
        five_in = self._conv5r(inputs)
        five = self._conv5(five_in)
        pool = self._pool(inputs)
        pooled = self._convprj(pool)
        joined = paddle.concat([one, three, five, pooled], axis=1)
        joined = nn.functional.relu(joined)
        return joined


class GoogLeNet(nn.Layer):
    def __init__(self, num_classes=1000, with_pool=True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self._conv = ConvLayer(3, 64, 7, 2)
        self._pool = nn.MaxPool2D(3, 2)
        self._conv_1 = ConvLayer(64, 64, 1)
        self._conv_2 = ConvLayer(64, 192, 3)
        self._ince3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self._ince3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self._ince4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self._ince4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self._ince4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self._ince4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self._ince4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self._ince5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self._ince5b = Inception(832, 384, 192, 384, 48, 128, 128)
        if with_pool:
            self._pool_5 = nn.AdaptiveAvgPool2D(1)
            self._pool_o1 = nn.AvgPool2D(5, 3)
            self._pool_o2 = nn.AvgPool2D(5, 3)
        if num_classes > 0:
            self._drop = nn.Dropout(0.4, mode="downscale_in_infer")
            self._fc_out = nn.Linear(1024, num_classes)
            self._conv_o1 = ConvLayer(512, 128, 1)
            self._fc_o1 = nn.Linear(1152, 1024)
            self._drop_o1 = nn.Dropout(0.7, mode="downscale_in_infer")
            self._out1 = nn.Linear(1024, num_classes)
            self._conv_o2 = ConvLayer(528, 128, 1)
            self._fc_o2 = nn.Linear(1152, 1024)
            self._drop_o2 = nn.Dropout(0.7, mode="downscale_in_infer")
            self._out2 = nn.Linear(1024, num_classes)

    def forward(self, inputs):
        x = self._conv(inputs)
        x = self._pool(x)
        x = self._conv_1(x)
        x = self._conv_2(x)
        x = self._pool(x)
        x = self._ince3a(x)
        x = self._ince3b(x)
        x = self._pool(x)
        early = self._ince4a(x)
        x = self._ince4b(early)
        x = self._ince4c(x)
        late = self._ince4d(x)
        x = self._ince4e(late)
        x = self._pool(x)
        x = self._ince5a(x)
        last = self._ince5b(x)
        out, out1, out2 = last, early, late
        if self.with_pool:
            out = self._pool_5(out)
            out1 = self._pool_o1(out1)
            out2 = self._pool_o2(out2)
        if self.num_classes > 0:
            out = self._drop(out)
            out = paddle.squeeze(out, [2, 3])
            out = self._fc_out(out)
            out1 = self._conv_o1(out1)
            out1 = paddle.flatten(out1, 1)
            out1 = self._fc_o1(out1)
            out1 = nn.functional.relu(out1)
            out1 = self._drop_o1(out1)
            out1 = self._out1(out1)
            out2 = self._conv_o2(out2)
            out2 = paddle.flatten(out2, 1)
            out2 = self._fc_o2(out2)
            out2 = self._drop_o2(out2)
            out2 = self._out2(out2)
        return out, out1, out2


def googlenet(pretrained=False, **options):
    return GoogLeNet(**options)
