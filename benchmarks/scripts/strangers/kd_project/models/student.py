import paddle.nn as nn


def conv_bn(cin, cout, k, s=1, g=1, act=True):
    mods = [nn.Conv2D(cin, cout, k, s, k // 2, groups=g, bias_attr=False), nn.BatchNorm2D(cout)]
    if act:
        mods.append(nn.Hardswish())
    return nn.Sequential(*mods)


class InvertedResidual(nn.Layer):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        mid = cin * expand
        self.use_res = stride == 1 and cin == cout
        self.conv = nn.Sequential(conv_bn(cin, mid, 1), conv_bn(mid, mid, 3, stride, mid),
                                  conv_bn(mid, cout, 1, act=False))

    def forward(self, x):
        return x + self.conv(x) if self.use_res else self.conv(x)


class MobileLike(nn.Layer):
    def __init__(self, num_classes, width, expand, blocks):
        super().__init__()
        self.stem = conv_bn(3, width, 3)
        self.stages = nn.LayerList()
        cin = width
        for i, n in enumerate(blocks):
            cout = int(width * (1.5 ** (i + 1)))
            cout += -cout % 8
            self.stages.append(nn.Sequential(*[
                InvertedResidual(cin if k == 0 else cout, cout, 2 if k == 0 else 1, expand) for k in range(n)]))
            cin = cout
        self.out_channels = cin
        self.head = nn.Sequential(nn.Linear(cin, 128), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(128, num_classes))

    def forward(self, x):
        feats = []
        x = self.stem(x)
        for s in self.stages:
            x = s(x)
            feats.append(x)
        return self.head(x.mean([2, 3])), feats
