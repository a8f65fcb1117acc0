import paddle.nn as nn


class Bottle(nn.Layer):
    def __init__(self, cin, cout, stride):
        super().__init__()
        mid = cout // 4
        self.body = nn.Sequential(
            nn.Conv2D(cin, mid, 1, bias_attr=False), nn.BatchNorm2D(mid), nn.ReLU(),
            nn.Conv2D(mid, mid, 3, stride, 1, bias_attr=False), nn.BatchNorm2D(mid), nn.ReLU(),
            nn.Conv2D(mid, cout, 1, bias_attr=False), nn.BatchNorm2D(cout))
        self.down = nn.Sequential(nn.Conv2D(cin, cout, 1, stride, bias_attr=False), nn.BatchNorm2D(cout)) \
            if (stride > 1 or cin != cout) else nn.Identity()
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.body(x) + self.down(x))


class ResNetLike(nn.Layer):
    def __init__(self, num_classes, width, blocks):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, width, 3, 1, 1, bias_attr=False), nn.BatchNorm2D(width), nn.ReLU())
        stages, cin = [], width
        for i, n in enumerate(blocks):
            cout = width * 2 ** (i + 1)
            stages.append(nn.Sequential(*[Bottle(cin if k == 0 else cout, cout, 2 if k == 0 else 1)
                                          for k in range(n)]))
            cin = cout
        self.stages = nn.LayerList(stages)
        self.out_channels = cin
        self.head = nn.Linear(cin, num_classes)

    def forward(self, x):
        feats = []
        x = self.stem(x)
        for s in self.stages:
            x = s(x)
            feats.append(x)
        return self.head(x.mean([2, 3])), feats
