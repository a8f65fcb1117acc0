"""DenseNet: each layer sees all before it."""

import paddle
from paddle import nn

SPECS = {121: (64, 32, (6, 12, 24, 16)), 161: (96, 48, (6, 12, 36, 24)),
         169: (64, 32, (6, 12, 32, 32)), 201: (64, 32, (6, 12, 48, 32)),
         264: (64, 32, (6, 12, 64, 48))}  # fmt: skip


class BNACConvLayer(nn.Layer):
    """Norm, activation, convolution."""

    def __init__(self, fan_in, fan_out, kernel, padding=0):
        super().__init__()
        self._batch_norm = nn.BatchNorm(fan_in, act="relu")
        self._conv = nn.Conv2D(fan_in, fan_out, kernel, padding=padding, bias_attr=False)

    def forward(self, x):
        y = self._batch_norm(x)
        y = self._conv(y)
        return y


class DenseLayer(nn.Layer):
    def __init__(self, fan_in, growth_rate, bn_size, dropout):
        super().__init__()
        self.dropout = dropout
        self.bn_ac_func1 = BNACConvLayer(fan_in, bn_size * growth_rate, 1)
        self.bn_ac_func2 = BNACConvLayer(bn_size * growth_rate, growth_rate, 3, 1)
        if dropout:
            self.dropout_func = nn.Dropout(dropout, mode="downscale_in_infer")

    def forward(self, x):
        y = self.bn_ac_func1(x)
        y = self.bn_ac_func2(y)
        if self.dropout:
            y = self.dropout_func(y)
        y = paddle.concat([x, y], axis=1)
        return y


class DenseBlock(nn.Layer):
    def __init__(self, fan_in, count, bn_size, growth_rate, dropout, name):
        super().__init__()
        self.dense_layer_func = []
        for place in range(count):
            layer = DenseLayer(fan_in + place * growth_rate, growth_rate, bn_size, dropout)
            self.dense_layer_func.append(self.add_sublayer(f"{name}_{place + 1}", layer))

    def forward(self, x):
        y = x
        for layer in self.dense_layer_func:
            y = layer(y)
        return y


class TransitionLayer(nn.Layer):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.conv_ac_func = BNACConvLayer(fan_in, fan_out, 1)
        self.pool2d_avg = nn.AvgPool2D(2, 2)

    def forward(self, x):
        y = self.conv_ac_func(x)
        y = self.pool2d_avg(y)
        return y


class ConvBNLayer(nn.Layer):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self._conv = nn.Conv2D(fan_in, fan_out, 7, 2, 3, bias_attr=False)
        self._batch_norm = nn.BatchNorm(fan_out, act="relu")

    def forward(self, x):
        y = self._conv(x)
        y = self._batch_norm(y)
        return y


class DenseNet(nn.Layer):
    def __init__(self, layers=121, bn_size=4, dropout=0.0, num_classes=1000, with_pool=True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        width, growth, counts = SPECS[layers]
        self.block_config = counts
        self.conv1_func = ConvBNLayer(3, width)
        self.pool2d_max = nn.MaxPool2D(3, 2, 1)
        self.dense_block_func_list = []
        self.transition_func_list = []
        for stage, count in enumerate(counts):
            block = DenseBlock(width, count, bn_size, growth, dropout, f"conv{stage + 2}")
            self.dense_block_func_list.append(self.add_sublayer(f"db_conv_{stage + 2}", block))
            width += count * growth
            if stage != len(counts) - 1:
                step = TransitionLayer(width, width // 2)
                self.transition_func_list.append(self.add_sublayer(f"tr_conv{stage + 2}_blk", step))
                width //= 2
        self.batch_norm = nn.BatchNorm(width, act="relu")
        if with_pool:
            self.pool2d_avg = nn.AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.out = nn.Linear(width, num_classes)

    def forward(self, x):
        y = self.conv1_func(x)
        y = self.pool2d_max(y)
        for stage in range(len(self.block_config)):
            y = self.dense_block_func_list[stage](y)
            if stage != len(self.block_config) - 1:
                y = self.transition_func_list[stage](y)
        y = self.batch_norm(y)
        out = y
        if self.with_pool:
            out = self.pool2d_avg(y)
        if self.num_classes > 0:
            out = paddle.flatten(out, 1)
            out = self.out(out)
        return out


def _maker(layers):
    def make(pretrained=False, **options):
        return DenseNet(**{"layers": layers, **options})

    return make


densenet121 = _maker(121)
densenet161 = _maker(161)
densenet169 = _maker(169)
densenet201 = _maker(201)
densenet264 = _maker(264)
